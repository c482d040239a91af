"""The producers' client against a real server and a worker of a few lines."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from nats.aio.client import Client as Connection
from nats.aio.msg import Msg

from support.answering import Answer, publish, responder, say, streams
from support.jetstream import until
from vsphere_events.client import Client, request_event, result_of
from vsphere_events.cloud_event import CloudEvent
from vsphere_events.code import Code
from vsphere_events.error import CallError, Detail
from vsphere_events.machine import DeleteMachineResult
from vsphere_events.outcome import Progress
from vsphere_events.subjects import request_token, result_subject
from vsphere_functions.local.nats_server import NatsServer

DATA = {"machineName": "worker-1", "providerSpec": {"tags": {}}}
OK = DeleteMachineResult(last_known_state="s1")


def run(
    server: NatsServer, answer: Answer | None, ask: Callable[[Client], Awaitable[Any]], **more: Any
) -> Any:
    """What a client gets from a server on which requests are answered so."""

    async def main() -> Any:
        async with streams(server, **more) as connection:
            if answer:
                await responder(connection, answer)
            async with Client.connected(server.url, source="/producers/test") as client:
                return await ask(client)

    return asyncio.run(main())


async def succeed(connection: Connection, request: CloudEvent) -> None:
    await publish(connection, request, OK)


def test_a_request_gives_the_result_model_and_tells_progress_on_the_way(nats_server: NatsServer) -> None:
    async def answer(connection: Connection, request: CloudEvent) -> None:
        for number in (1, 2):
            await say(connection, request, number)
        await publish(connection, request, OK)

    said: list[Progress] = []

    async def ask(client: Client) -> Any:
        return await client.request("delete_machine", DATA, on_progress=said.append)

    assert run(nats_server, answer, ask) == OK
    assert [(one.step, one.percent) for one in said] == [("step-1", 10), ("step-2", 20)]


def test_the_typed_method_sends_the_event_that_the_contract_describes(nats_server: NatsServer) -> None:
    seen: list[CloudEvent] = []

    async def answer(connection: Connection, request: CloudEvent) -> None:
        seen.append(request)
        await succeed(connection, request)

    async def ask(client: Client) -> Any:
        return await client.delete_machine(DATA, id="req 1/ü", extensions={"traceparent": "00-1"})

    assert run(nats_server, answer, ask) == OK
    (request,) = seen
    assert (request.id, request.source) == ("req 1/ü", "/producers/test")
    assert request.type == "io.vspherefunctions.delete_machine.request.v1"
    assert (request.data, request.extensions) == (DATA, {"traceparent": "00-1"})


def test_a_failed_result_is_raised_with_all_that_it_says(nats_server: NatsServer) -> None:
    error = CallError(
        Code.INVALID_ARGUMENT,
        "1 problem with the request; nothing was changed",
        details=[Detail("no such network", "providerSpec.network", ("blue", "green"))],
        provider_id="vsphere://eu-1/a",
        last_known_state="s2",
    )

    async def answer(connection: Connection, request: CloudEvent) -> None:
        await publish(connection, request, error)

    with pytest.raises(CallError) as raised:
        run(nats_server, answer, lambda client: client.request("delete_machine", DATA))
    assert (raised.value.code, raised.value.message) == (error.code, error.message)
    assert raised.value.details == error.details
    assert (raised.value.provider_id, raised.value.last_known_state) == ("vsphere://eu-1/a", "s2")


@pytest.mark.parametrize(
    ("vcenter", "function"), [("blue", "delete_machine"), ("default", "create_machine"), ("default", "fly")]
)
def test_e25_an_unknown_function_or_vcenter_is_an_error_and_nothing_is_stored(
    nats_server: NatsServer, vcenter: str, function: str
) -> None:
    async def ask(client: Client) -> Any:
        try:
            return await client.request(function, DATA, vcenter=vcenter)
        except CallError as error:
            stored = await client.connection.jetstream().stream_info("VSPHERE_REQUESTS")
            return error.code, f"{vcenter}.{function}" in error.message, stored.state.messages

    assert run(nats_server, None, ask) == (Code.FAILED_PRECONDITION, True, 0)


def test_a_stream_that_does_not_answer_for_a_moment_is_asked_again(
    nats_server: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As while its servers elect a leader: nobody answers for it then."""
    monkeypatch.setattr("vsphere_events.client.storing._ELECTION_SECONDS", 60)

    async def ask(client: Client) -> Any:
        js = client.connection.jetstream()
        config = (await js.stream_info("VSPHERE_REQUESTS")).config
        await js.delete_stream("VSPHERE_REQUESTS")
        asked = asyncio.create_task(client.request("delete_machine", DATA))
        done, _ = await asyncio.wait({asked}, timeout=0.5)
        assert not done
        await js.add_stream(config)

        async def stored() -> int:
            return (await js.stream_info("VSPHERE_REQUESTS")).state.last_seq

        assert await until(stored, 60) == 1
        asked.cancel()

    run(nats_server, None, ask)


def test_an_answer_that_is_no_confirmation_is_none(nats_server: NatsServer) -> None:
    """Whoever listens on the subject can answer; only a stream stores."""

    async def ask(client: Client) -> Any:
        async def chat(message: Msg) -> None:
            await message.respond(b'{"thanks": true}')

        await client.connection.subscribe("vsphere.request.blue.delete_machine", cb=chat)
        return await client.request("delete_machine", DATA, vcenter="blue")

    with pytest.raises(CallError, match="no stream takes"):
        run(nats_server, None, ask)


def test_a_request_that_nobody_confirms_is_unavailable(
    nats_server: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody listens, so the server knows of a responder, but what listens is no stream."""
    monkeypatch.setattr("vsphere_events.client.storing._ACK_SECONDS", 0.05)

    async def ask(client: Client) -> Any:
        await client.connection.subscribe("vsphere.request.blue.delete_machine")
        return await client.request("delete_machine", DATA, vcenter="blue")

    with pytest.raises(CallError, match="does not confirm") as raised:
        run(nats_server, None, ask)
    assert raised.value.code is Code.UNAVAILABLE


def test_another_source_under_the_same_id_is_not_heard(nats_server: NatsServer) -> None:
    """E23, the producers' half: each hears only its own answer."""

    async def answer(connection: Connection, request: CloudEvent) -> None:
        other = CloudEvent(request.id, "/producers/other", request.type, request.data)
        await say(connection, other, 9)
        await publish(connection, other, DeleteMachineResult(last_known_state="theirs"))
        await publish(connection, request, OK)

    said: list[Progress] = []

    async def ask(client: Client) -> Any:
        return await client.request("delete_machine", DATA, id="same", on_progress=said.append)

    assert run(nats_server, answer, ask) == OK
    assert said == []


def test_what_is_no_event_on_the_subject_is_passed_over(nats_server: NatsServer) -> None:
    async def answer(connection: Connection, request: CloudEvent) -> None:
        subject = result_subject("default", "delete_machine", request_token(request.id))
        await connection.publish(subject, b"\xff{")
        await connection.publish(
            subject, b"[]", headers={"Content-Type": "application/cloudevents-batch+json"}
        )
        await publish(connection, request, OK)

    assert run(nats_server, answer, lambda client: client.request("delete_machine", DATA)) == OK


def test_a_result_that_nobody_heard_is_found_in_the_stream_after_a_reconnect(nats_server: NatsServer) -> None:
    async def main() -> Any:
        async with streams(nats_server) as connection, reconnecting(nats_server) as client:
            await publish(
                connection, request_event("delete_machine", DATA, id="early", source="/producers/test"), OK
            )
            async with client.send("delete_machine", DATA, id="early") as pending:
                assert client.connection._transport is not None
                client.connection._transport.close()  # type: ignore[no-untyped-call] # as nats-py has it
                return await pending.result()

    assert asyncio.run(main()) == OK


def test_a_result_that_nobody_heard_is_looked_for_from_time_to_time(
    nats_server: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vsphere_events.client.pending._LOOK_SECONDS", 0.0)

    async def main() -> Any:
        async with streams(nats_server) as connection, reconnecting(nats_server) as client:
            await publish(
                connection, request_event("delete_machine", DATA, id="early", source="/producers/test"), OK
            )
            return await client.request("delete_machine", DATA, id="early")

    assert asyncio.run(main()) == OK


def test_a_look_into_the_stream_that_finds_nothing_goes_on_waiting(
    nats_server: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vsphere_events.client.pending._LOOK_SECONDS", 0.0)
    monkeypatch.setattr("vsphere_events.client.pending._TICK_SECONDS", 0.01)

    async def main() -> Any:
        async with streams(nats_server) as connection, reconnecting(nats_server) as client:
            looked = asyncio.Event()

            async def look(_message: Msg) -> None:
                looked.set()

            await connection.subscribe("$JS.API.DIRECT.GET.VSPHERE_RESULTS.>", cb=look)
            await connection.flush()
            async with client.send("delete_machine", DATA) as pending:
                waiting = asyncio.create_task(pending.result())
                await looked.wait()
                await publish(connection, pending.request, OK)
                return await waiting

    assert asyncio.run(main()) == OK


@asynccontextmanager
async def reconnecting(server: NatsServer) -> AsyncIterator[Client]:
    async with Client.connected(server.url, source="/producers/test", reconnect_time_wait=0.1) as client:
        yield client


def test_a_server_that_restarts_between_request_and_result_loses_no_result(nats_server: NatsServer) -> None:
    """E09, the producers' half."""

    async def main() -> Any:
        async with (
            streams(nats_server),
            reconnecting(nats_server) as client,
            client.send("delete_machine", DATA) as pending,
        ):
            await asyncio.to_thread(nats_server.stop)
            nats_server.start()
            async with Client.connected(nats_server.url) as other:
                await publish(other.connection, pending.request, OK)
            return await pending.result()

    assert asyncio.run(main()) == OK


def test_no_result_in_time_is_deadline_exceeded(nats_server: NatsServer) -> None:
    with pytest.raises(CallError) as raised:
        run(nats_server, None, lambda client: client.request("delete_machine", DATA, timeout=0.3))
    assert raised.value.code is Code.DEADLINE_EXCEEDED


@pytest.mark.parametrize("size", [300_000, 2_000_000])
def test_a_request_that_is_too_big_is_refused_and_the_connection_lives(
    nats_server: NatsServer, size: int
) -> None:
    """One is over the stream's limit, one over the server's; the server cuts the connection for the latter."""

    async def ask(client: Client) -> Any:
        with pytest.raises(CallError) as raised:
            await client.request("delete_machine", {"machineName": "x" * size})
        return raised.value.code, await client.request("delete_machine", DATA)

    answered = run(nats_server, succeed, ask, max_msg_size=200_000)
    assert answered == (Code.INVALID_ARGUMENT, OK)


def test_a_connection_that_is_closed_is_unavailable(nats_server: NatsServer) -> None:
    async def ask(client: Client) -> Any:
        await client.connection.close()
        return await client.request("delete_machine", DATA)

    with pytest.raises(CallError) as raised:
        run(nats_server, None, ask)
    assert raised.value.code is Code.UNAVAILABLE


def test_a_result_of_a_newer_contract_is_read_as_far_as_it_is_known() -> None:
    data = {
        "providerID": None,
        "lastKnownState": "s1",
        "detachedVolumes": [{"vmdkPath": "[a] b.vmdk", "new": 1}],
    }
    event = CloudEvent("1", "/x", "io.vspherefunctions.delete_machine.succeeded.v1", data | {"more": True})
    assert result_of("delete_machine", event).detached_volumes[0].vmdk_path == "[a] b.vmdk"


def test_a_result_without_its_shape_is_internal() -> None:
    event = CloudEvent("1", "/x", "io.vspherefunctions.create_machine.succeeded.v1", {"providerID": 7})
    with pytest.raises(CallError, match="Internal"):
        result_of("create_machine", event)


def test_the_request_lies_in_the_stream_without_a_message_id(nats_server: NatsServer) -> None:
    """A wanted resend under the same id has to reach the worker."""

    async def main() -> tuple[int, Any]:
        async with streams(nats_server) as connection, reconnecting(nats_server) as client:
            for _ in range(2):
                async with client.send("delete_machine", DATA, id="again"):
                    pass
            js = connection.jetstream()
            message = await js.get_msg("VSPHERE_REQUESTS", 1)
            return (await js.stream_info("VSPHERE_REQUESTS")).state.messages, json.loads(message.data or b"")

    stored, event = asyncio.run(main())
    assert stored == 2
    assert event["id"] == "again"
