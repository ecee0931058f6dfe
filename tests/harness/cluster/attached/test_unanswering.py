"""Of somebody else's cluster an end is an address where nobody listens any more, while nothing of the harness is in
force."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from harness.cluster.attached.reachability import UnansweringBrokers
from harness.cluster.broker_requests import BrokerConnection
from harness.host.clock import SystemClock
from harness.ports.cluster import NodeId

ONE = NodeId(1)


@contextlib.asynccontextmanager
async def listening(port: int = 0) -> AsyncIterator[int]:
    """Somebody who takes connections and answers nothing."""

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            await reader.read()
        writer.close()

    server = await asyncio.start_server(take, "127.0.0.1", port)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


class Watched:
    """One broker, at a port that nobody listens on once `start_server` has closed it."""

    def __init__(self, *, code: int | None = None) -> None:
        self.struck = False
        self.code = code
        self.brokers = UnansweringBrokers(
            clock=SystemClock(),
            is_struck=lambda node: self.struck,
            code_of=self._code_of,
            connect=BrokerConnection,
        )

    async def _code_of(self, node: NodeId) -> int | None:
        return self.code

    async def look(self, port: int, *, answers: bool) -> list[tuple[int | None, int | None, bool]]:
        await self.brokers.look({ONE} if answers else set(), {ONE: ("127.0.0.1", port)})
        return [(end.exit_status, end.signal, end.back_ns is not None) for end in self.brokers.found()]


async def a_free_port() -> int:
    async with listening() as port:
        return port


async def test_a_broker_that_answered_and_refuses_connections_has_ended_in_a_way_that_nobody_saw() -> None:
    watched, port = Watched(), await a_free_port()
    await watched.look(port, answers=True)
    assert await watched.look(port, answers=False) == [(None, None, False)]
    [end] = watched.brokers.found()
    assert end.uncertainty_ns > 0
    assert end.fresh is False


@pytest.mark.parametrize(("code", "status", "signal"), [(1, 1, None), (137, 137, 9)])
async def test_a_container_tells_how(code: int, status: int, signal: int | None) -> None:
    watched, port = Watched(code=code), await a_free_port()
    await watched.look(port, answers=True)
    assert await watched.look(port, answers=False) == [(status, signal, False)]


async def test_it_is_told_once_and_until_it_answers_again() -> None:
    watched, port = Watched(), await a_free_port()
    for answers in (True, False, False, True):
        seen = await watched.look(port, answers=answers)
    assert seen == [(None, None, True)]


async def test_one_that_is_slow_to_answer_has_not_ended() -> None:
    watched = Watched()
    async with listening() as port:
        await watched.look(port, answers=True)
        assert await watched.look(port, answers=False) == []


async def test_while_a_fault_may_be_why_nothing_is_concluded() -> None:
    watched, port = Watched(), await a_free_port()
    await watched.look(port, answers=True)
    watched.struck = True
    assert await watched.look(port, answers=False) == []


async def test_one_that_never_answered_is_unknown() -> None:
    watched, port = Watched(), await a_free_port()
    assert await watched.look(port, answers=False) == []
