"""`vsphere-functions invoke`."""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import replace
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any
from uuid import uuid4

import typer

from vsphere_functions.cli.given import (
    INTERRUPTED,
    USAGE,
    after_up,
    clean,
    fail,
    known,
    load_settings,
    request_data,
    tell,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vsphere_events.client import How
    from vsphere_events.cloud_event import CloudEvent
    from vsphere_events.outcome import Progress

SOURCE = "/producers/cli"
CONNECT_SECONDS = 5


class Via(StrEnum):
    """The way a request goes."""

    NATS = "nats"
    HTTP = "http"


def invoke(  # noqa: PLR0913 - one for each option
    function: Annotated[str, typer.Argument(help="A function of the contract.")],
    data: Annotated[str, typer.Option(metavar="FILE|JSON", help="The request's data; - reads stdin.")],
    *,
    via: Annotated[
        Via, typer.Option(help="NATS, or HTTP at $HTTP_URL, else at http.host and http.port of the settings.")
    ] = Via.NATS,
    wait: Annotated[
        bool,
        typer.Option(
            "--wait/--no-wait", help="Await the result, or print the request's attributes once it is stored."
        ),
    ] = True,
    vcenter: Annotated[str, typer.Option(help="Name of the configured vCenter.")] = "default",
    event_id: Annotated[
        str | None, typer.Option("--id", help="Id of the event; the same asks for the first answer again.")
    ] = None,
    timeout: Annotated[float, typer.Option(min=0, help="Seconds to wait for the result.")] = 600,
    progress: Annotated[
        bool | None,
        typer.Option(
            "--progress/--no-progress",
            help="Tell on stderr how far it is, over NATS; by default on a terminal.",
        ),
    ] = None,
) -> None:
    """Send one request and print its result event: exit status 0 succeeded, 1 failed or no result, 2 wrong usage."""
    if via is Via.HTTP and not wait:
        fail("--no-wait: over HTTP the answer is the result", USAGE)
    how: How = {
        "vcenter": vcenter,
        "timeout": timeout,
        "source": SOURCE,
        "id": event_id or str(uuid4()),
    }
    shown = sys.stderr.isatty() if progress is None else progress
    way = over_http if via is Via.HTTP else partial(over_nats, wait=wait, shown=shown)
    event = _answer(partial(way, known(function), request_data(data), how), how, via)
    _print(event if wait else replace(event, data=_no_data(), datacontenttype=None))
    if event.type.endswith(".failed.v1"):
        raise typer.Exit(1)


def over_nats(function: str, data: Mapping[str, Any], how: How, *, wait: bool, shown: bool) -> CloudEvent:
    """Give the result event, or with no `wait` the request that was stored."""
    return asyncio.run(_over_nats(function, data, how, wait=wait, shown=shown))


async def _over_nats(
    function: str, data: Mapping[str, Any], how: How, *, wait: bool, shown: bool
) -> CloudEvent:
    from vsphere_events.client import Client

    connection = await _connection()
    try:
        _announce(how, wait=wait)
        async with Client(connection).send(function, data, **how) as pending:
            if not wait:
                return pending.request
            async for said in pending:
                if shown:
                    _tell(said)
            return await pending.event()
    finally:
        await connection.close()


async def _connection() -> Any:
    from vsphere_functions.hosts.nats_connection import addresses, connect, nats_of
    from vsphere_functions.runtime.settings import SettingsError

    settings = load_settings(with_nats=True)
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            return await connect(settings)
    except TimeoutError:
        fail(f"NATS at {addresses(nats_of(settings))} does not answer")
    except SettingsError as error:
        fail(str(error))


def over_http(function: str, data: Mapping[str, Any], how: How) -> CloudEvent:
    """Give the result event that the HTTP host answers with."""
    from vsphere_events.client import request_event
    from vsphere_functions.cli.http_post import address, post

    if how["vcenter"] != "default":
        how = {**how, "extensions": {"vcenter": how["vcenter"]}}
    where = address()
    _announce(how, wait=True)
    return post(request_event(function, data, **how), where, how["timeout"])


def _answer(ask: Any, how: How, via: Via) -> CloudEvent:
    """Ask; when there is no answer in time or ^C ends the waiting, say what that means for the request."""
    from vsphere_events.code import Code
    from vsphere_events.error import CallError

    try:
        event: CloudEvent = ask()
    except CallError as error:
        if error.code is Code.DEADLINE_EXCEEDED:
            fail(f"no result of request {how['id']} within {how['timeout']:g} s; {_left(how, via)}")
        fail(f"{error.code}: {error.message}{after_up()}")
    except KeyboardInterrupt:
        fail(f"the wait for request {how['id']} is over; {_left(how, via)}", INTERRUPTED)
    return event


def _left(how: How, via: Via) -> str:
    """Say what may have become of a request that nobody waits for any more."""
    again = f"if it was sent it may still be running, and the same command with --id {how['id']} asks for its result"
    if via is Via.HTTP:
        return again
    return (
        f"{again}. A refused request, such as one with other content under a used id, has no result but a dead letter: "
        "vsphere-functions dlq list"
    )


def _announce(how: How, *, wait: bool) -> None:
    tell(f"request {how['id']}" + (f"; waiting up to {how['timeout']:g} s" if wait else ""))


def _tell(said: Progress) -> None:
    percent = f"{said.percent} % " if said.percent is not None else ""
    typer.echo(clean(f"{said.step}: {percent}{said.message}"), err=True)


def _print(event: CloudEvent) -> None:
    from vsphere_events.envelope import to_json

    typer.echo(harmless(to_json(event).decode()))


def harmless(text: str) -> str:
    """Write JSON so that a terminal shows all of it: what is not printable as its escape."""
    return "".join(letter if letter.isprintable() else json.dumps(letter)[1:-1] for letter in text)


def _no_data() -> Any:
    from vsphere_events.cloud_event import NO_DATA

    return NO_DATA
