"""How the bundle names a managed object: its type and its id, no live object."""

from typing import NamedTuple


class Ref(NamedTuple):
    """A reference to a managed object, such as `Ref("VirtualMachine", "vm-90")`."""

    type: str
    id: str
