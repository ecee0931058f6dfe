"""A broker's answer that is none costs its question, and is no unforeseen error: whoever asks may ask again."""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator
from typing import Any

import pytest
from kafka.protocol.admin import DeleteTopicsRequest

from harness.cluster.attached.reachability import Reachability, look_at
from harness.cluster.broker_requests import BrokerConnection, UnreadableAnswer

VERSIONS = bytes(4) + b"\x00\x00" + (1).to_bytes(4, "big") + b"\x00\x14\x00\x00\x00\x01"  # DeleteTopics, 0 to 1


@contextlib.asynccontextmanager
async def broker(*answers: bytes, echoes: bool = True) -> AsyncIterator[int]:
    """It gives these answers, of which each begins with its length, one to each request. `echoes`: each names the
    request that it answers."""
    left = list(answers)  # of every connection's requests together

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while left:
                request = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
                answer = left.pop(0)
                writer.write(answer[:4] + (request[4:8] if echoes else answer[4:8]) + answer[8:])
                await writer.drain()
            await reader.read()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


def framed(answer: bytes) -> bytes:
    return len(answer).to_bytes(4, "big") + answer


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (framed(bytes(4) + b"\x00\x00"), "DeleteTopicsRequest version 1 cannot be read"),
        (framed(bytes(8) + b"\x7f\xff\xff\xff" + b"HTTP/1.1 400"), "DeleteTopicsRequest version 1 cannot be read"),
        (b"HTTP" + bytes(20), "would have 1213486160 bytes"),
    ],
    ids=["cut short", "of another form", "of another protocol"],
)
def test_an_answer_that_is_none_is_a_connection_that_failed(answer: bytes, said: str) -> None:
    async def asked() -> None:
        async with broker(framed(VERSIONS), answer) as port:
            connection = BrokerConnection("127.0.0.1", port)
            try:
                request = DeleteTopicsRequest(topic_names=["orders"], timeout_ms=1000)
                with pytest.raises(UnreadableAnswer, match=said):
                    await connection.ask(request, 1, timeout_s=20)
            finally:
                connection.close()

    asyncio.run(asked())


def test_who_answers_what_cannot_be_read_is_not_gone() -> None:
    async def looked() -> Reachability:
        async with broker(framed(bytes(4) + b"\x00")) as port:
            return await look_at("127.0.0.1", port, connect=BrokerConnection)

    assert asyncio.run(looked()).kind == "answers"


DELETED = (
    b"\x00\x00\x00\x00" + (1).to_bytes(4, "big") + b"\x00\x06orders" + b"\x00\x00"
)  # throttle, one topic, no error


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ((1).to_bytes(4, "big") + DELETED, ""),
        ((1).to_bytes(4, "big") + DELETED + b"\x00", "has 1 bytes more than that version"),
        ((1).to_bytes(4, "big") + DELETED[:-1], "cannot be read"),
        ((1).to_bytes(4, "big") + DELETED[:9], "it ends 5 bytes early|cannot be read"),
        ((7).to_bytes(4, "big") + DELETED, "is for request 7, and not for 1"),
    ],
    ids=["whole", "longer", "shorter", "cut within a name", "of another request"],
)
def test_what_cannot_be_read_of_an_answer_in_one_version_is_kept_with_its_bytes(answer: bytes, said: str) -> None:
    async def asked() -> Any:
        async with broker(framed(answer), echoes=False) as port:
            connection = BrokerConnection("127.0.0.1", port)
            request = DeleteTopicsRequest(topic_names=["orders"], timeout_ms=1000)
            try:
                return await connection.ask_exactly(request, 1, timeout_s=20)
            except UnreadableAnswer as error:
                return error
            finally:
                connection.close()

    found = asyncio.run(asked())
    if said:
        assert re.search(said, found.why)
        assert (found.api, found.version, found.answer) == ("DeleteTopicsRequest", 1, answer)
    else:
        assert [each.error_code for each in found.responses] == [0]


def test_an_answer_of_another_protocol_is_told_with_the_version_that_was_asked_for() -> None:
    async def asked() -> UnreadableAnswer:
        async with broker(b"HTTP" + bytes(20)) as port:
            connection = BrokerConnection("127.0.0.1", port)
            request = DeleteTopicsRequest(topic_names=["orders"], timeout_ms=1000)
            try:
                with pytest.raises(UnreadableAnswer, match="would have 1213486160 bytes") as raised:
                    await connection.ask_exactly(request, 1, timeout_s=20)
            finally:
                connection.close()
            return raised.value

    found = asyncio.run(asked())
    assert (found.api, found.version, found.answer) == ("DeleteTopicsRequest", 1, b"HTTP")
