"""Orphans looked for and deleted by the function itself."""

from typing import Any

from support.machines import TAGS, end
from vsphere_events.request import FindOrphansRequest, FindOrphansResult
from vsphere_functions.context import Context
from vsphere_functions.request.find_orphans import find_orphans


def begun(*known: Any, least: int = 0, tags: Any = None, **more: Any) -> FindOrphansRequest:
    """A request; a machine that is known is given by its name or as it stands in the request."""
    machines = [{"machineName": one} if isinstance(one, str) else one for one in known]
    data = {"providerSpec": {"tags": tags or TAGS}, "machines": machines, "minAgeSeconds": least}
    return FindOrphansRequest.parse(data | more)


def sweep(ctx: Context, *known: Any, **more: Any) -> FindOrphansResult:
    """Look for orphans, or delete them."""
    found: FindOrphansResult = end(find_orphans(begun(*known, **more), ctx))
    return found
