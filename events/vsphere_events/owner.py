"""Who owns a machine: the cluster and role that the tags of its provider spec name."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from vsphere_events.code import Code
from vsphere_events.error import CallError, Detail


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
    found = {what: _named(tags, what) for what in ("cluster", "role")}
    wrong = [reason for what, names in found.items() for reason in _faults(what, names)]
    if wrong:
        raise CallError(
            Code.INVALID_ARGUMENT, "; ".join(wrong), details=[Detail(reason=one) for one in wrong]
        )
    return Owner(*(names[0] for names in found.values()))


def _named(tags: Mapping[str, str], what: str) -> list[str]:
    """Collect the different names that the tags give, from both spellings."""
    prefix = f"kubernetes.io/{what}/"
    old = {key.removeprefix(prefix) for key in tags if key.startswith(prefix)}
    new = {value for key, value in tags.items() if key == f"mcm.gardener.cloud/{what}"}
    return sorted(old | new)


def _faults(what: str, names: list[str]) -> list[str]:
    if not names:
        return [f"no tag names the {what}: mcm.gardener.cloud/{what} or kubernetes.io/{what}/<name>"]
    if len(names) > 1:
        return [f"the tags name more than one {what}"]
    # A slash would make `a/b` + `c` and `a` + `b/c` one owner.
    if not re.fullmatch(r"[^\s/\x00-\x1f\x7f-\x9f]{1,200}", names[0]):
        return [f"the {what} in the tags is empty, too long, or has a slash or white space"]
    return []
