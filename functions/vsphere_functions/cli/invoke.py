"""`vsphere-functions invoke`."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import replace
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vsphere_functions.cli.given import USAGE, fail, known, load_settings, request_data

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
    via: Annotated[Via, typer.Option(help="NATS, or HTTP at $HTTP_URL.")] = Via.NATS,
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
    timeout: Annotated[float, typer.Option(help="Seconds to wait for the result.")] = 3600,
) -> None:
    """Send one request and print its result event: exit status 0 succeeded, 1 failed, 2 wrong usage."""
    from vsphere_events.cloud_event import NO_DATA
    from vsphere_events.envelope import to_json
    from vsphere_events.error import CallError

    if via is Via.HTTP and not wait:
        fail("--no-wait: over HTTP the answer is the result", USAGE)
    how: How = {
        "vcenter": vcenter,
        "timeout": timeout,
        "source": SOURCE,
        **({"id": event_id} if event_id else {}),
    }
    way = over_http if via is Via.HTTP else partial(over_nats, wait=wait)
    try:
        event = way(known(function), request_data(data), how)
    except CallError as error:
        fail(f"{error.code}: {error.message}")
    typer.echo(to_json(event if wait else replace(event, data=NO_DATA, datacontenttype=None)).decode())
    if event.type.endswith(".failed.v1"):
        raise typer.Exit(1)


def over_nats(function: str, data: Mapping[str, Any], how: How, *, wait: bool) -> CloudEvent:
    """Give the result event, or with no `wait` the request that was stored."""
    return asyncio.run(_over_nats(function, data, how, wait=wait))


async def _over_nats(function: str, data: Mapping[str, Any], how: How, *, wait: bool) -> CloudEvent:
    from vsphere_events.client import Client
    from vsphere_functions.hosts.nats_connection import connect
    from vsphere_functions.runtime.settings import SettingsError

    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            connection = await connect(load_settings())
    except TimeoutError:
        fail("NATS does not answer")
    except SettingsError as error:
        fail(f"settings: {error}", USAGE)
    try:
        async with Client(connection).send(function, data, **how) as pending:
            if not wait:
                return pending.request
            async for said in pending:
                tell(said)
            return await pending.event()
    finally:
        await connection.close()


def over_http(function: str, data: Mapping[str, Any], how: How) -> CloudEvent:
    """Give the result event that the HTTP host answers with."""
    from vsphere_events.client import request_event
    from vsphere_functions.cli.http_post import post

    if how["vcenter"] != "default":
        how = {**how, "extensions": {"vcenter": how["vcenter"]}}
    return post(request_event(function, data, **how), how["timeout"])


def tell(said: Progress) -> None:
    """Show on a terminal how far it is; stdout is for the result alone."""
    if sys.stderr.isatty():
        percent = f"{said.percent} % " if said.percent is not None else ""
        typer.echo(f"{said.step}: {percent}{said.message}", err=True)
