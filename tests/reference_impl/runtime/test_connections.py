"""One connection, many questions: each is answered or given up in its own time."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from reference_impl.runtime.connections import PeerConnection, PeerUnreachable
from reference_impl.wire.api_keys import ApiKey
from reference_impl.wire.messages import encode_response, request_class, response_class
from tests.waiting import PATIENCE_S

BODY = request_class(ApiKey.INIT_PRODUCER_ID)
ANSWER = response_class(ApiKey.INIT_PRODUCER_ID)


class Peer:
    """Answers each request when it may, with the number of requests so far."""

    def __init__(self) -> None:
        self.may_answer = asyncio.Event()
        self.requests = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                request = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
                self.requests += 1
                await self.may_answer.wait()
                body = ANSWER(throttle_time_ms=0, error_code=0, producer_id=self.requests, producer_epoch=0)
                correlation_id = int.from_bytes(request[4:8], "big")
                writer.write(encode_response(ApiKey.INIT_PRODUCER_ID, 1, correlation_id, body))


@asynccontextmanager
async def connected(peer: Peer) -> AsyncIterator[PeerConnection]:
    async def nobody_asks(_: object) -> None:
        return

    server = await asyncio.start_server(peer.serve, "127.0.0.1", 0)
    to = server.sockets[0].getsockname()
    connection = PeerConnection(client_id="broker-1", address=lambda: to, opened=nobody_asks)
    try:
        yield connection
    finally:
        connection.close()
        server.close()


async def ask(connection: PeerConnection, timeout_ms: float) -> int:
    body = BODY(transactional_id=None, transaction_timeout_ms=1000)
    answer = await connection.ask(ApiKey.INIT_PRODUCER_ID, 1, body, timeout_ms=timeout_ms)
    producer_id: int = answer.producer_id
    return producer_id


async def test_whoever_waits_for_a_turn_waits_no_longer_than_it_said_and_cuts_off_nobody() -> None:
    async with connected(peer := Peer()) as connection:
        first = asyncio.ensure_future(ask(connection, PATIENCE_S * 1000))
        await asyncio.sleep(0)
        with pytest.raises(PeerUnreachable, match="within 50 ms"):
            await asyncio.wait_for(ask(connection, 50), PATIENCE_S)
        peer.may_answer.set()
        assert await first == 1
        assert await ask(connection, PATIENCE_S * 1000) == 2, "what was given up was never sent"


async def test_the_answer_to_a_question_that_was_given_up_is_nobody_elses() -> None:
    async with connected(peer := Peer()) as connection:
        given_up = asyncio.ensure_future(ask(connection, PATIENCE_S * 1000))
        while not peer.requests:
            await asyncio.sleep(0)
        given_up.cancel()
        peer.may_answer.set()
        assert await ask(connection, PATIENCE_S * 1000) == 2
