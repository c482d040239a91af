"""The final comparison: what the results say against what is there. Nothing here waits or asks."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from chaos.fates import MAKES, UNMAKES, Fate, Op, contradictions, fate_of
from chaos.found import Found, Standing
from chaos.schedule import Asked
from vsphere_events.code import Code
from vsphere_events.envelope import from_json
from vsphere_events.functions import FUNCTIONS
from vsphere_events.provider_id import ProviderID
from vsphere_events.subjects import Kind, parse_event_type

NEVER = {
    *(Code.INTERNAL, Code.INVALID_ARGUMENT, Code.UNIMPLEMENTED, Code.UNAUTHENTICATED, Code.DATA_LOSS),
    Code.OUT_OF_RANGE,
}
"""Codes that nothing in a schedule can bring about: each is a fault of ours."""


@dataclass(frozen=True, slots=True)
class Result:
    """The last answer to a request; `code` OK when it succeeded."""

    asked: Asked
    code: Code
    message: str
    data: Mapping[str, Any]


def results(requests: Iterable[Asked], found: Found) -> dict[str, Result]:
    """Read the results stream."""
    read = {}
    for asked in requests:
        if answers := found.answers.get(asked.id):
            event = from_json(answers[-1])
            data: Mapping[str, Any] = event.data if isinstance(event.data, dict) else {}
            failed = parse_event_type(event.type)[1] is Kind.FAILED
            error = data.get("error", {}) if failed else {}
            read[asked.id] = Result(
                asked, Code(error["code"]) if failed else Code.OK, error.get("message", ""), data
            )
    return read


def differences(requests: tuple[Asked, ...], found: Found, before: Found) -> Iterator[str]:
    """Say everything in which the results, the records, the streams and the vCenter do not agree."""
    read = results(requests, found)
    for asked in requests:
        yield from _of_request(asked, found, read.get(asked.id))
    ops = _ops(read, found)
    for thing, about in sorted(ops.items()):
        yield from (f"{thing}: {odd}" for odd in contradictions(about))
    yield from _machines(ops, found)
    yield from _volumes(ops, found)
    yield from by_turns(found.changes)
    if found.other_vms != before.other_vms:
        yield f"VMs elsewhere: {found.other_vms}, at first {before.other_vms}"
    if found.waiting:
        yield f"{found.waiting} requests are left in their stream"
    yield from (f"a lease is left: {lease}" for lease in found.leases)


def leftovers(found: Found, before: Found) -> Iterator[str]:
    """Say what is there after everything has been deleted."""
    yield from (f"after its delete: machine {name} stands" for name in sorted(found.machines))
    yield from (
        f"after its destroy: volume {name} has {sorted(files)}" for name, files in found.volumes.items()
    )
    yield from (f"a file is left: {name}" for name in sorted(found.files - before.files))
    yield from (f"a file is gone: {name}" for name in sorted(before.files - found.files))


def by_turns(changes: Iterable[str]) -> Iterator[str]:
    """Name the tries that changed a thing after another try had: of two, one has to have lost it for good.

    A change is a line of its time, its holder, the keys of the things, and its method, separated by tabs.
    """
    last: dict[str, str] = {}
    past: dict[str, set[str]] = defaultdict(set)
    for change in sorted(changes, key=lambda line: int(line.partition("\t")[0])):
        _, holder, keys, method = change.split("\t")
        for key in keys.split(","):
            if last.get(key, holder) != holder:
                past[key].add(last[key])
            last[key] = holder
            if holder in past[key]:
                yield f"{method} of {holder}: another try had changed the same thing ({key}) meanwhile"


def _of_request(asked: Asked, found: Found, result: Result | None) -> Iterator[str]:
    name = f"{asked.id} ({asked.function} {asked.thing})"
    if result is None:
        yield f"{name} has no result"
        return
    if result.code in NEVER or (result.code is Code.ALREADY_EXISTS and "volume" not in asked.function):
        yield f"{name} ended in {result.code}: {result.message}"
    if not FUNCTIONS[asked.function].changes:
        return
    answers = found.answers[asked.id]
    if len(answers) != 1:
        yield f"{name} has {len(answers)} results in the stream"
    if others := found.heard.get(asked.id, set()) - {answers[-1]}:
        yield f"{name} was answered differently, {len(others) + 1} times; one said {min(others)[:300]!r}"
    record = found.records.get(asked.id)
    if record is None or not record.final:
        yield f"{name} has a result, and its record is {record.state if record else 'not there'}"
    elif record.result != answers[-1]:
        yield f"{name} has another result in its record than in the stream"


def _ops(read: Mapping[str, Result], found: Found) -> dict[str, list[Op]]:
    wished = {one.asked.data["id"] for one in read.values() if one.asked.function == "cancel_request"}
    ops: dict[str, list[Op]] = defaultdict(list)
    for name, one in read.items():
        record, function = found.records.get(name), one.asked.function
        if function in MAKES | UNMAKES and record and record.sequence is not None:
            identity = one.data.get("providerID") if function == "create_machine" else None
            op = Op(record.sequence, function, one.code, identity, name in wished, one.message)
            ops[one.asked.thing].append(op)
    return ops


def _machines(ops: Mapping[str, list[Op]], found: Found) -> Iterator[str]:
    names = {name for name in ops if name.startswith("m-")}
    for name in sorted(names | found.machines.keys()):
        fate, standing = fate_of(ops.get(name, ())), found.machines.get(name, [])
        if len(standing) > 1:
            yield f"machine {name} stands {len(standing)} times"
        yield from (f"machine {name} {odd}: {_told(ops.get(name, ()))}" for odd in _against(fate, standing))


def _against(fate: Fate, standing: list[Standing]) -> Iterator[str]:
    if standing and not fate.may_stand:
        yield "stands and was deleted or never made"
    if not standing and not fate.may_be_gone:
        yield "was made and is not there"
    if standing and fate.identity and not fate.may_be_gone:
        wanted = ProviderID.parse(fate.identity).uuid
        if standing[0].uuid != wanted:
            yield f"has the uuid {standing[0].uuid}, and its create answered {wanted}"


def _volumes(ops: Mapping[str, list[Op]], found: Found) -> Iterator[str]:
    names = {name for name in ops if name.startswith("data-")}
    for name in sorted(names | found.volumes.keys()):
        fate, files = fate_of(ops.get(name, ())), found.volumes.get(name)
        whole = files is not None and {f"{name}.vmdk", f"{name}-flat.vmdk", "volume.json"} <= files
        if files is not None and not fate.may_stand:
            yield f"volume {name} has {sorted(files)} and was destroyed or never made: {_told(ops.get(name, ()))}"
        if not whole and not fate.may_be_gone:
            there = "is not there" if files is None else f"has only {sorted(files)}"
            yield f"volume {name} was made and {there}: {_told(ops.get(name, ()))}"


def _told(ops: Iterable[Op]) -> str:
    ordered = sorted(ops, key=lambda one: one.sequence)
    return "; ".join(f"{one.sequence} {one.function} {one.code} {one.message}".rstrip() for one in ordered)


def tally(read: Iterable[Result]) -> dict[str, Counter[Code]]:
    """Count results by function and code."""
    counts: dict[str, Counter[Code]] = defaultdict(Counter)
    for one in read:
        counts[one.asked.function][one.code] += 1
    return counts
