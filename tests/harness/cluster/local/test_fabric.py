"""The link forwarder, between sockets of this process."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from harness.cluster.local.fabric import LinkForwarder, Route
from tests.harness.cluster.local.streams import Streams, exchange, is_silent
from tests.waiting import PATIENCE_S

_HOST = "127.0.0.1"


class World:
    """An echo server, a link to it and the connections made in a test."""

    def __init__(self) -> None:
        self.received = 0
        self.ended = asyncio.Event()
        self._servers: list[asyncio.Server] = []
        self._links: list[LinkForwarder] = []
        self._writers: list[asyncio.StreamWriter] = []

    async def echo(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        with contextlib.suppress(ConnectionError):
            while piece := await reader.read(1 << 16):
                self.received += len(piece)
                writer.write(piece)
                await writer.drain()
        self.ended.set()
        writer.close()

    async def serve(self, handler: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]) -> int:
        server = await asyncio.start_server(handler, _HOST, 0)
        self._servers.append(server)
        return int(server.sockets[0].getsockname()[1])

    async def link(self, target_port: int | None = None) -> LinkForwarder:
        port = target_port if target_port is not None else await self.serve(self.echo)
        forwarder = LinkForwarder(Route(link="n1-n2", listen=(_HOST, 0), target=(_HOST, port)))
        await forwarder.start()
        self._links.append(forwarder)
        return forwarder

    async def connect(self, link: LinkForwarder) -> Streams:
        server = link._server
        assert server is not None
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname()[:2])
        self._writers.append(writer)
        return reader, writer

    async def close(self) -> None:
        for writer in self._writers:
            writer.transport.abort()
        for link in self._links:
            link.stop()
            server = link._server
            assert server is not None
            assert not server.is_serving()
        for server in self._servers:
            server.close()
        await asyncio.sleep(0)


@pytest.fixture
async def world() -> AsyncIterator[World]:
    made = World()
    yield made
    await made.close()


async def _is_reset(reader: asyncio.StreamReader) -> bool:
    try:
        async with asyncio.timeout(PATIENCE_S):
            await reader.read(1)
    except ConnectionResetError:
        return True
    return False


async def _until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not holds():
            await asyncio.sleep(0.005)


async def test_bytes_pass_both_ways_and_are_counted(world: World) -> None:
    link = await world.link()
    data = bytes(range(256)) * 4000
    assert await exchange(await world.connect(link), data) == data
    assert link.bytes_forwarded == 2 * len(data)
    assert link.connections == 1
    assert not link.cut_now


async def test_a_hanging_link_holds_requests_and_delivers_them_at_the_heal(world: World) -> None:
    link = await world.link()
    reader, writer = await world.connect(link)
    await exchange((reader, writer), b"before")
    link.cut("hang")
    assert link.cut_now
    writer.write(b"held")
    assert await is_silent(reader)
    assert world.received == len(b"before")
    link.heal("resume")
    async with asyncio.timeout(PATIENCE_S):
        assert await reader.readexactly(4) == b"held"


async def test_a_hanging_link_holds_answers_and_delivers_them_at_the_heal(world: World) -> None:
    asked, go_on = asyncio.Event(), asyncio.Event()

    async def slow_to_answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        asked.set()
        await go_on.wait()
        writer.write(b"answer")
        await writer.drain()
        await reader.read(100)
        writer.close()

    link = await world.link(await world.serve(slow_to_answer))
    reader, writer = await world.connect(link)
    writer.write(b"question")
    await asked.wait()
    link.cut("hang")
    go_on.set()
    assert await is_silent(reader)
    link.heal("resume")
    async with asyncio.timeout(PATIENCE_S):
        assert await reader.readexactly(6) == b"answer"


async def test_a_new_connection_is_silent_while_the_link_hangs_and_works_after_the_heal(world: World) -> None:
    link = await world.link()
    link.cut("hang")
    reader, writer = await world.connect(link)
    writer.write(b"hello")
    assert await is_silent(reader)
    assert world.received == 0
    link.heal("resume")
    async with asyncio.timeout(PATIENCE_S):
        assert await reader.readexactly(5) == b"hello"


async def test_an_end_does_not_pass_through_a_link_that_hangs(world: World) -> None:
    link = await world.link()
    reader, writer = await world.connect(link)
    await exchange((reader, writer), b"x")
    link.cut("hang")
    writer.write_eof()
    assert await is_silent(reader)
    assert not world.ended.is_set()
    link.heal("resume")
    async with asyncio.timeout(PATIENCE_S):
        await world.ended.wait()


async def test_a_resetting_link_ends_connections_and_refuses_new_ones(world: World) -> None:
    link = await world.link()
    reader, writer = await world.connect(link)
    await exchange((reader, writer), b"x")
    link.cut("reset")
    assert link.cut_now
    assert link.connections == 0
    assert await _is_reset(reader)
    later, _ = await world.connect(link)
    assert await _is_reset(later)
    link.heal("reset")
    assert await exchange(await world.connect(link), b"again") == b"again"


async def test_a_link_that_refused_and_hangs_now_is_silent_and_no_longer_refuses(world: World) -> None:
    link = await world.link()
    link.cut("reset")
    link.cut("hang")
    assert link.cut_now
    reader, writer = await world.connect(link)
    writer.write(b"later")
    assert await is_silent(reader)
    link.heal("resume")
    async with asyncio.timeout(PATIENCE_S):
        assert await reader.readexactly(5) == b"later"


async def test_healing_by_reset_ends_what_hung(world: World) -> None:
    link = await world.link()
    old = await world.connect(link)
    await exchange(old, b"x")
    link.cut("hang")
    waiting = await world.connect(link)
    await _until(lambda: link.connections == 2)
    old[1].write(b"lost")
    link.heal("reset")
    assert await _is_reset(old[0])
    assert await _is_reset(waiting[0])
    assert await exchange(await world.connect(link), b"new") == b"new"
    assert world.received == len(b"x") + len(b"new")


async def test_a_delay_holds_every_byte_each_way_and_keeps_their_order(world: World) -> None:
    link = await world.link()
    streams = await world.connect(link)
    await exchange(streams, b"x")
    link.delay_s = 0.1
    began = asyncio.get_running_loop().time()
    assert await exchange(streams, b"slow") == b"slow"
    assert asyncio.get_running_loop().time() - began >= 0.2
    streams[1].write(b"1")
    await _until(lambda: world.received == 6)
    link.delay_s = 0.0
    assert await exchange(streams, b"23") == b"12"
    assert await streams[0].readexactly(1) == b"3"


async def test_a_half_closed_connection_still_gets_its_whole_answer(world: World) -> None:
    answer = bytes(8 << 20)

    async def answer_and_close(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert await reader.read() == b"question"
        writer.write(answer)
        writer.close()

    link = await world.link(await world.serve(answer_and_close))
    reader, writer = await world.connect(link)
    writer.write(b"question")
    writer.write_eof()
    got = b""
    async with asyncio.timeout(PATIENCE_S):
        while piece := await reader.read(1 << 20):
            got += piece
            await asyncio.sleep(0.005)  # a slow reader, so that the answer's end waits inside the link
    assert len(got) == len(answer)
    await _until(lambda: link.connections == 0)


async def test_a_target_where_nobody_listens_is_a_reset(world: World) -> None:
    port = await world.serve(world.echo)
    world._servers[0].close()
    await world._servers[0].wait_closed()
    reader, _ = await world.connect(await world.link(port))
    assert await _is_reset(reader)


async def test_a_reset_by_the_target_passes_on(world: World) -> None:
    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.abort()  # with unread bytes: the kernel resets

    link = await world.link(await world.serve(hang_up))
    reader, writer = await world.connect(link)
    writer.write(b"x")
    async with asyncio.timeout(PATIENCE_S):
        with contextlib.suppress(ConnectionResetError):
            assert await reader.read(1) == b""
    writer.close()
    await _until(lambda: link.connections == 0)


async def test_stopping_ends_all_connections(world: World) -> None:
    link = await world.link()
    reader, _ = streams = await world.connect(link)
    await exchange(streams, b"x")
    link.stop()
    assert await _is_reset(reader)
