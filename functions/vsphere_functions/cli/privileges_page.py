"""The reference page of privileges, and what each function's own section says of them."""

from collections.abc import Iterator

from vsphere_functions.cli.infra.vcenter import role
from vsphere_functions.vsphere.privilege_table import OBJECTS, PRIVILEGES, On

_PAGE = """# Privileges in vCenter

What the account needs, on which objects, and why. `infra/vcenter/roles.sh` makes a role for each kind of object and
gives it to the account. A create asks vCenter for the privileges of the machine's whole life before it changes
anything, and names those that are missing; so do `validate_machine` and `doctor`, without a create.

System.Anonymous, System.View and System.Read belong to every role that is made in vCenter. Some privileges are asked
for only by some requests, as the last column says; leave them out of the role where no request does.
"""


def privileges_page() -> str:
    """Render a table for each kind of object: privilege, why, for which functions, when."""
    return "".join(_page())


def of_function(name: str) -> str:
    """Name the privileges of a function in a sentence; nothing when it needs none."""
    own = list(dict.fromkeys(f"`{one.id}`" for one in PRIVILEGES if name in one.functions))
    return f"[Privileges](privileges.md): {', '.join(own)}.\n" if own else ""


def _page() -> Iterator[str]:
    yield _PAGE
    for on in On:
        yield f"\n## {role(on)}\n\nOn {OBJECTS[on]}.\n\n| privilege | why | for | only when |\n|---|---|---|---|\n"
        for one in PRIVILEGES:
            if one.on is on:
                everybody = one.id.startswith("System.")
                functions = "all that use vCenter" if everybody else ", ".join(one.functions)
                yield f"| `{one.id}` | {one.why} | {functions} | {one.when or ''} |\n"
