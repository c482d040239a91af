"""Who owns a machine: the cluster and role that the tags of its provider spec name."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from vsphere_events.code import Code
from vsphere_events.error import CallError, Detail

_SPELLINGS = {f"mcm.gardener.cloud/{what}": what for what in ("cluster", "role")}
_OLD = re.compile(r"kubernetes\.io/(cluster|role)/(.*)", re.DOTALL)
_NAME = re.compile(r"[^\s/\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ufeff]{1,200}")


@dataclass(frozen=True, slots=True)
class Owner:
    """A cluster and a role; `str()` is `<cluster>/<role>`, the form that marks and subjects carry."""

    cluster: str
    role: str

    def __str__(self) -> str:
        return f"{self.cluster}/{self.role}"


def owner_of(tags: Mapping[str, str]) -> Owner:
    """Read the owner from tags in either of Gardener's spellings.

    `mcm.gardener.cloud/cluster: <name>` and `kubernetes.io/cluster/<name>: <anything>` mean the same, `role`
    likewise. InvalidArgument when one is missing or when the tags name more than one.
    """
    found: dict[str, set[str]] = {"cluster": set(), "role": set()}
    for key, value in tags.items():
        if what := _SPELLINGS.get(key):
            found[what].add(value)
        elif old := _OLD.fullmatch(key):
            found[old[1]].add(old[2])
    wrong = [reason for what, names in found.items() for reason in _faults(what, names)]
    if wrong:
        raise CallError(
            Code.INVALID_ARGUMENT, "; ".join(wrong), details=[Detail(reason=one) for one in wrong]
        )
    return Owner(*(name for names in found.values() for name in names))


def _faults(what: str, names: set[str]) -> list[str]:
    if not names:
        return [f"no tag names the {what}: mcm.gardener.cloud/{what} or kubernetes.io/{what}/<name>"]
    if len(names) > 1:
        return [f"the tags name more than one {what}"]
    # A slash would make `a/b` + `c` and `a` + `b/c` one owner.
    if not _NAME.fullmatch(next(iter(names))):
        return [
            f"the {what} in the tags is empty, too long, or has a slash, white space or a control character"
        ]
    return []
