"""What a session consists of: the services that a vCenter has, and one login at them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

_KEY = re.compile(r'vmware_soap_session="?([^";]+)', re.ASCII)


@dataclass(frozen=True, slots=True)
class Service:
    """An endpoint of a vCenter: the version to speak there, and the service content where it was read."""

    version: str
    action: str
    content: Mapping[str, Any] = field(default_factory=dict)
    path: str | None = None


POLICIES = Service("pbm.version.version2", '"urn:pbm/2.0"', path="/pbm")
"""The service of storage policies (SPBM); its objects have types of their own, and it knows the main one's logins."""


@dataclass(frozen=True, slots=True, eq=False)
class Login:
    """One login; compared by identity, so that a thread knows whether the session it lost is still the current one."""

    cookie: str = field(repr=False)

    @property
    def context(self) -> dict[str, str]:
        """What the messages to the other services carry (Storage Policy SDK, vcSessionCookie)."""
        key = _KEY.search(self.cookie)
        return {"vcSessionCookie": key[1]} if key else {}
