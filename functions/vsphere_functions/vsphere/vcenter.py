"""A request's view of its vCenter: the session's door, with the request's fence before every change."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vsphere_functions.vsphere.fence import Fence
from vsphere_functions.vsphere.ref import Ref
from vsphere_functions.vsphere.session import Row, Session


@dataclass(frozen=True, slots=True)
class VCenter:
    """What the machine and volume functions are given to work with."""

    label: str
    session: Session
    fence: Fence

    def ask(self, ref: Ref, method: str, **arguments: Any) -> Any:
        """Make a call that changes nothing; it is repeated after a transport error."""
        return self.session.call(ref, method, repeatable=True, **arguments)

    def change(self, step: str, ref: Ref, method: str, **arguments: Any) -> Any:
        """Make a call that changes something, under the fence, once; faults are read as those of `step`."""
        with self.session.guarded(self.fence.check):
            return self.session.call(ref, method, step=step, **arguments)

    def read(self, refs: Iterable[Ref], paths: Mapping[str, Sequence[str]]) -> dict[Ref, Row]:
        """Read narrow paths per type of the given objects in one pass; an object that is gone is left out."""
        return self.session.read(refs, paths)

    def scan(self, paths: Mapping[str, Sequence[str]], root: Ref | None = None) -> dict[Ref, Row]:
        """Read narrow paths of every object of the given types below `root` (default: everywhere)."""
        return self.session.scan(paths, root)
