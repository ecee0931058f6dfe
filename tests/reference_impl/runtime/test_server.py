"""A listener survives any input, and answers the requests of a connection in order."""

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Awaitable
from typing import Any

import pytest

from reference_impl.runtime.handlers import api
from reference_impl.runtime.server import NO_ANSWER, Answer, Caller, CloseConnection, Listener
from reference_impl.wire.api_keys import ApiKey
from reference_impl.wire.messages import Request, decode_response, encode_request, request_class, response_class
from tests.waiting import PATIENCE_S

METADATA_VERSION = 9
MAX_REQUEST_BYTES = 10_000


class Handler:
    """Answers metadata requests with their number in place of the controller id, the first as late as it is told to."""

    def __init__(self) -> None:
        self.seen: list[Request] = []
        self.first_may_go = asyncio.Event()
        self.first_may_go.set()

    def dispatch(self, request: Request, caller: Caller) -> Answer | Awaitable[Answer]:
        self.seen.append(request)
        if request.client_id == "refused":
            raise CloseConnection("not welcome")
        if request.client_id == "broken":
            raise KeyError("a bug of ours")
        if request.client_id == "silent":
            return NO_ANSWER
        if request.api_key == ApiKey.API_VERSIONS:
            return api.ApiVersions(transaction_version=2).answer(request, caller)
        return self._later(request) if len(self.seen) == 1 else self._answer(request)

    async def _later(self, request: Request) -> Any:
        await self.first_may_go.wait()
        return self._answer(request)

    @staticmethod
    def _answer(request: Request) -> Any:
        return response_class(ApiKey.METADATA)(
            throttle_time_ms=0, brokers=[], cluster_id=None, controller_id=request.correlation_id, topics=[]
        )


@pytest.fixture
async def handler() -> Handler:
    return Handler()


@pytest.fixture
async def listener(handler: Handler) -> AsyncIterator[Listener]:
    made = Listener(
        name="CLIENT", host="127.0.0.1", port=0, dispatch=handler.dispatch, max_request_bytes=MAX_REQUEST_BYTES
    )
    await made.start()
    yield made
    made.close()
    await made.wait_closed()


def metadata_request(number: int, client_id: str = "test") -> bytes:
    return encode_request(
        ApiKey.METADATA, METADATA_VERSION, number, client_id, request_class(ApiKey.METADATA)(topics=[])
    )


async def read_frame(reader: asyncio.StreamReader) -> bytes:
    return await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))


async def ask(listener: Listener, *frames: bytes) -> list[int]:
    """The correlation ids of the answers, until as many as frames came or the broker closed the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
    found = []
    try:
        writer.write(b"".join(frames))
        for _ in frames:
            found.append(decode_response(ApiKey.METADATA, METADATA_VERSION, await read_frame(reader))[0])
    except (asyncio.IncompleteReadError, ConnectionError):
        return found
    finally:
        writer.close()
    return found


async def test_pipelined_requests_begin_at_once_and_are_answered_in_order(listener: Listener, handler: Handler) -> None:
    handler.first_may_go.clear()
    concurrent_queries = asyncio.ensure_future(ask(listener, *(metadata_request(number) for number in range(5))))
    async with asyncio.timeout(PATIENCE_S):
        while len(handler.seen) < 5:
            await asyncio.sleep(0)
    assert not concurrent_queries.done()
    handler.first_may_go.set()
    assert await concurrent_queries == [0, 1, 2, 3, 4]


async def test_a_request_without_answer_does_not_hold_up_the_next(listener: Listener) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
    writer.write(metadata_request(1) + metadata_request(2, "silent") + metadata_request(3))
    for expected in (1, 3):
        assert decode_response(ApiKey.METADATA, METADATA_VERSION, await read_frame(reader))[0] == expected
    writer.close()


@pytest.mark.parametrize(
    "frame",
    [
        pytest.param(b"\x00\x00\x00\x04\xff\xff\xff\xff", id="too short for a header"),
        pytest.param(b"\x00\x00\x00\x0c" + b"\x7f\x7f" + bytes(10), id="unknown api key"),
        pytest.param(b"\x00\x00\x00\x0c" + b"\x00\x03\x00\x63" + bytes(8), id="unknown version"),
        pytest.param(b"\x00\x00\x00\x10" + b"\x00\x03\x00\x09" + b"\xff" * 12, id="garbage after the header"),
        pytest.param((MAX_REQUEST_BYTES + 1).to_bytes(4, "big"), id="larger than socket.request.max.bytes"),
        pytest.param(b"\xff\xff\xff\xff", id="negative size"),
        pytest.param(b"GET / HTTP/1.1\r\n\r\n", id="another protocol"),
        pytest.param(metadata_request(1, "refused"), id="refused by its handler"),
        pytest.param(metadata_request(1, "broken"), id="the handler fails"),
    ],
)
async def test_nonsense_closes_its_own_connection_and_nothing_else(
    listener: Listener, frame: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, logger="reference_impl"):
        async with asyncio.timeout(PATIENCE_S):
            assert await ask(listener, frame, metadata_request(2)) == []
    assert len(caplog.records) == 1
    assert await ask(listener, metadata_request(7)) == [7]


async def test_an_unknown_api_versions_version_is_answered_in_version_0(listener: Listener) -> None:
    """KIP-511, so that newer clients can find out what we speak."""
    reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
    writer.write(b"\x00\x00\x00\x0e" + b"\x00\x12\x00\x09" + b"\x00\x00\x00\x05" + b"\xff\xff" + b"\x00\x01\x01\x00")
    correlation_id, body = decode_response(ApiKey.API_VERSIONS, 0, await read_frame(reader))
    assert (correlation_id, body.error_code) == (5, 35)
    assert {entry.api_key for entry in body.api_keys} >= {0, 1, 3, 18}
    writer.close()


@pytest.mark.parametrize("turns", range(6))
async def test_nobody_waits_for_a_connection_that_is_accepted_as_the_listener_closes(
    listener: Listener, turns: int
) -> None:
    """A broker that was stopped waited for such a client until it left by itself."""
    with socket.create_connection(("127.0.0.1", listener.port)) as client:
        client.setblocking(False)
        for _ in range(turns):
            await asyncio.sleep(0)
        listener.close()
        for _ in range(10):
            await asyncio.sleep(0)
        stopped_waiting = asyncio.ensure_future(listener.wait_closed())
        await asyncio.wait([stopped_waiting], timeout=PATIENCE_S)
        assert stopped_waiting.done(), "it waits while the client stays"


@pytest.mark.parametrize("turns", range(8))
async def test_a_client_that_leaves_as_the_listener_closes_is_no_error(
    listener: Listener, turns: int, caplog: pytest.LogCaptureFixture
) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
    writer.write(
        encode_request(ApiKey.METADATA, METADATA_VERSION, 1, "slow", request_class(ApiKey.METADATA)(topics=None))
    )
    await reader.readexactly(4)
    writer.transport.abort()
    for _ in range(turns):
        await asyncio.sleep(0)
    listener.close()
    await listener.wait_closed()
    await asyncio.sleep(0)
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == []
