"""What the gateway sends, where the simulator is laxer than the product and only the request can be judged."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest
from lxml import etree

from vsphere_functions.vsphere.ref import Ref
from vsphere_functions.vsphere.session import Row, Session
from vsphere_functions.vsphere.transport import Transport


def recorded(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Keep the body of every request from now on; all of them are sent as usual."""
    bodies: list[bytes] = []
    send = Transport.send

    def sending(self: Transport, verb: str, path: str, body: bytes = b"", *more: Any) -> Any:
        bodies.append(body)
        return send(self, verb, path, body, *more)

    monkeypatch.setattr(Transport, "send", sending)
    return bodies


class Sent(NamedTuple):
    """A request as it left; `path` is that of its URL, with the query."""

    verb: str
    path: str
    body: bytes


@contextmanager
def everything_sent(before: Callable[[Sent], object] = lambda _: None) -> Iterator[list[Sent]]:
    """Keep every request within the block; `before` is called with each before it leaves, in its thread."""
    requests: list[Sent] = []
    send = Transport.send

    def sending(self: Transport, verb: str, path: str, body: bytes | None = None, *more: Any) -> Any:
        requests.append(Sent(verb, path, body or b""))
        before(requests[-1])
        return send(self, verb, path, body, *more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Transport, "send", sending)
        yield requests


def besides_waiting(sent: list[bytes]) -> int:
    """How many calls were made, those that look at a task left out."""
    return sum(b"<type>Task</type>" not in body for body in sent)


def texts_in(body: bytes, name: str) -> list[str]:
    """The texts of all elements of a name."""
    return [element.text or "" for element in etree.fromstring(body).iter(f"{{*}}{name}")]


def options_in(body: bytes) -> dict[str, str]:
    """The extraConfig in a request."""
    options = etree.fromstring(body).iter("{*}extraConfig")
    return {option.findtext("{*}key") or "": option.findtext("{*}value") or "" for option in options}


def without_config(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Take `config` out of every row of the VM of that name, as early in a clone or when it is inaccessible."""
    collect = Session._collect

    def collecting(self: Session, login: Any, body: bytes) -> dict[Ref, Row]:
        rows = collect(self, login, body)
        for row in rows.values():
            if row.get("name") == name:
                for path in [path for path in row if path.startswith("config")]:
                    del row[path]
        return rows

    monkeypatch.setattr(Session, "_collect", collecting)
