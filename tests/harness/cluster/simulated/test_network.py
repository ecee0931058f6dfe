"""Connections in memory: in order, late, once; and what a cut link does to them."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest

from harness.cluster.simulated.loop import SimulatedLoop
from harness.ports.requests import Requests

LINK, AT, TO, PORT = "n2>n1", "10.0.2.1", "10.0.0.1", 9092


def simulated(work: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner(loop_factory=lambda: SimulatedLoop(1)) as runner:
        runner.run(work)


def network() -> Any:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, SimulatedLoop)
    return loop.network


Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(1 << 16):
        writer.write(data)
    writer.close()


async def linked(serve: Serve = echo) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    network().route(AT, link=LINK, to=TO)
    await asyncio.start_server(serve, TO, PORT)
    return await asyncio.open_connection(AT, PORT)


def test_bytes_come_back_in_order_and_later() -> None:
    async def run() -> None:
        reader, writer = await linked()
        began = asyncio.get_running_loop().time()
        for number in range(200):
            writer.write(b"%03d" % number)
        got = await reader.readexactly(600)
        assert got == b"".join(b"%03d" % number for number in range(200))
        assert asyncio.get_running_loop().time() - began > 0.000_5

    simulated(run())


def test_a_link_that_hangs_holds_bytes_and_ends_and_gives_them_when_it_passes() -> None:
    async def run() -> None:
        reader, writer = await linked()
        network().cut(LINK, "hang")
        writer.write(b"held")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.read(1), 30)
        network().heal(LINK, reset=False)
        assert await reader.readexactly(4) == b"held"
        writer.close()
        assert await reader.read() == b""

    simulated(run())


def test_a_link_that_hangs_holds_answers_too() -> None:
    async def late(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(1)
        await asyncio.sleep(5)
        writer.write(b"answer")

    async def run() -> None:
        reader, writer = await linked(late)
        writer.write(b"?")
        await asyncio.sleep(1)
        network().cut(LINK, "hang")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.read(1), 30)
        network().heal(LINK, reset=False)
        assert await reader.readexactly(6) == b"answer"

    simulated(run())


def test_who_connects_by_a_link_that_hangs_waits_until_it_passes() -> None:
    async def run() -> None:
        await linked()
        network().cut(LINK, "hang")
        connecting = asyncio.ensure_future(asyncio.open_connection(AT, PORT))
        await asyncio.sleep(60)
        assert not connecting.done()
        network().heal(LINK, reset=False)
        await asyncio.wait_for(connecting, 1)

    simulated(run())


def test_who_waits_for_a_link_that_is_cut_again_before_he_gets_on_waits_on() -> None:
    async def run() -> None:
        await linked()
        network().cut(LINK, "hang")
        connecting = asyncio.ensure_future(asyncio.open_connection(AT, PORT))
        await asyncio.sleep(1)
        network().heal(LINK, reset=False)
        network().cut(LINK, "hang")
        await asyncio.sleep(60)
        assert not connecting.done()
        network().heal(LINK, reset=False)
        await asyncio.wait_for(connecting, 1)

    simulated(run())


def test_a_link_that_resets_ends_both_ends_and_refuses_new_connections() -> None:
    ended: list[type[BaseException]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readexactly(1)
        except OSError as error:
            ended.append(type(error))

    async def run() -> None:
        reader, _ = await linked(serve)
        await asyncio.sleep(1)
        network().cut(LINK, "reset")
        with pytest.raises(ConnectionResetError):
            await reader.read(1)
        with pytest.raises(ConnectionResetError):
            await asyncio.open_connection(AT, PORT)
        network().heal(LINK, reset=False)
        await asyncio.open_connection(AT, PORT)

    simulated(run())
    assert ended == [ConnectionResetError]


def test_healing_with_a_reset_loses_what_was_held() -> None:
    async def run() -> None:
        reader, writer = await linked()
        network().cut(LINK, "hang")
        writer.write(b"lost")
        network().heal(LINK, reset=True)
        with pytest.raises(ConnectionResetError):
            await reader.read(1)

    simulated(run())


def test_a_cut_leaves_other_ways_to_the_same_node_alone() -> None:
    async def run() -> None:
        await linked()
        network().cut(LINK, "hang")
        reader, writer = await asyncio.open_connection(TO, PORT)
        writer.write(b"passes")
        assert await asyncio.wait_for(reader.readexactly(6), 1) == b"passes"

    simulated(run())


def test_a_slow_link_delays_every_byte_both_ways() -> None:
    async def run() -> None:
        reader, writer = await linked()
        network().slow(LINK, 0.5)
        began = asyncio.get_running_loop().time()
        writer.write(b"x")
        await reader.readexactly(1)
        assert 1.0 <= asyncio.get_running_loop().time() - began < 1.1

    simulated(run())


def test_nobody_listens_where_nobody_does_and_two_cannot_at_one_place() -> None:
    async def run() -> None:
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(TO, PORT)
        server = await asyncio.start_server(echo, TO, PORT)
        with pytest.raises(OSError, match="somebody listens"):
            await asyncio.start_server(echo, TO, PORT)
        server.close()
        await asyncio.start_server(echo, TO, PORT)

    simulated(run())


def test_who_writes_to_a_peer_that_is_gone_is_reset() -> None:
    async def leaves(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async def run() -> None:
        reader, writer = await linked(leaves)
        assert await reader.read() == b""
        writer.write(b"too late")
        await asyncio.sleep(1)
        assert writer.transport.is_closing()

    simulated(run())


def test_a_writer_of_more_than_is_read_has_to_wait() -> None:
    async def reads_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(3600)

    async def run() -> None:
        _, writer = await linked(reads_nothing)
        writer.write(bytes(4 << 20))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(writer.drain(), 60)

    simulated(run())


# ---- single requests ------------------------------------------------------------------------------------------------

ALTER_PARTITION, FETCH = 56, 1


def request(api_key: int, correlation: int) -> bytes:
    header = api_key.to_bytes(2, "big") + b"\0\0" + correlation.to_bytes(4, "big")
    return len(header).to_bytes(4, "big") + header


async def answering(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answers each request with its correlation id."""
    while header := await reader.read(12):
        writer.write((4).to_bytes(4, "big") + header[8:12])


async def read_answer(reader: asyncio.StreamReader) -> int:
    frame = await reader.readexactly(8)
    return int.from_bytes(frame[4:8], "big")


async def kafka_linked() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    network().route(AT, link=LINK, to=TO, is_kafka=True)
    await asyncio.start_server(answering, TO, PORT)
    return await asyncio.open_connection(AT, PORT)


@pytest.mark.parametrize("answers", [False, True])
def test_one_kind_of_request_waits_and_others_pass(answers: bool) -> None:
    async def run() -> None:
        reader, writer = await kafka_linked()
        other_reader, other_writer = await asyncio.open_connection(AT, PORT)
        network().strike([LINK], Requests(request="AlterPartition", answers=answers))
        writer.write(request(ALTER_PARTITION, 1))
        other_writer.write(request(FETCH, 2))

        assert await asyncio.wait_for(read_answer(other_reader), 1) == 2
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.read(1), 30)
        assert network().let_pass([LINK], Requests(request="AlterPartition", answers=answers)) == (1, 1)
        assert await asyncio.wait_for(read_answer(reader), 1) == 1

    simulated(run())


def test_what_comes_behind_a_held_request_waits_with_it() -> None:
    async def run() -> None:
        reader, writer = await kafka_linked()
        network().strike([LINK], Requests(request="AlterPartition"))
        for number, api_key in enumerate((FETCH, ALTER_PARTITION, FETCH)):
            writer.write(request(api_key, number))

        assert await read_answer(reader) == 0
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.read(1), 30)
        network().let_pass([LINK], Requests(request="AlterPartition"))
        assert [await read_answer(reader) for _ in range(2)] == [1, 2]

    simulated(run())


def test_a_request_that_two_faults_hold_waits_for_both() -> None:
    async def run() -> None:
        reader, writer = await kafka_linked()
        for _ in range(2):
            network().strike([LINK], Requests(request="Fetch"))
        writer.write(request(FETCH, 1))
        assert network().let_pass([LINK], Requests(request="Fetch"))[1] == 0
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.read(1), 30)
        assert network().let_pass([LINK], Requests(request="Fetch")) == (1, 1)

    simulated(run())


def test_a_held_request_stays_held_when_a_cut_is_over() -> None:
    async def run() -> None:
        reader, writer = await kafka_linked()
        network().strike([LINK], Requests(request="Fetch"))
        network().cut(LINK, "hang")
        writer.write(request(FETCH, 1))
        network().heal(LINK, reset=False)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.read(1), 30)

    simulated(run())


def test_whoever_waits_for_a_request_hears_of_the_next_one() -> None:
    async def run() -> None:
        _, writer = await kafka_linked()
        waiting = asyncio.ensure_future(network().requested(ALTER_PARTITION))
        await asyncio.sleep(0)
        writer.write(request(FETCH, 1))
        await asyncio.sleep(1)
        assert not waiting.done()
        writer.write(request(ALTER_PARTITION, 2))
        await asyncio.wait_for(waiting, 1)

    simulated(run())


@pytest.mark.parametrize("nth", [1, 2])
def test_the_nth_request_alone_waits(nth: int) -> None:
    async def run() -> None:
        reader, writer = await kafka_linked()
        network().strike([LINK], Requests(request="Fetch", nth=nth))
        for number in range(4):
            writer.write(request(FETCH, number))

        assert [await read_answer(reader) for _ in range(nth - 1)] == list(range(nth - 1))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.read(1), 30)
        assert network().let_pass([LINK], Requests(request="Fetch", nth=nth)) == (1, 5 - nth)
        assert [await read_answer(reader) for _ in range(5 - nth)] == list(range(nth - 1, 4))

    simulated(run())


@pytest.mark.parametrize("answers", [False, True])
def test_a_lost_request_ends_its_connection_and_what_went_before_has_arrived(answers: bool) -> None:
    async def run() -> None:
        asked: list[int] = []

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while header := await reader.read(12):
                asked.append(int.from_bytes(header[8:12], "big"))
                writer.write((4).to_bytes(4, "big") + header[8:12])

        network().route(AT, link=LINK, to=TO, is_kafka=True)
        await asyncio.start_server(serve, TO, PORT)
        reader, writer = await asyncio.open_connection(AT, PORT)
        network().strike([LINK], Requests(request="Fetch", nth=2, answers=answers, lost=True))
        writer.write(request(FETCH, 1))
        assert await read_answer(reader) == 1
        for number in (2, 3):
            writer.write(request(FETCH, number))
            await asyncio.sleep(0.001)
        with pytest.raises(ConnectionResetError):
            await asyncio.wait_for(reader.read(1), 1)
        assert asked[:2] == ([1, 2] if answers else [1])
        assert network().let_pass([LINK], Requests(request="Fetch", nth=2, answers=answers, lost=True)) == (1, 0)

        _, again = await asyncio.open_connection(AT, PORT)
        again.write(request(FETCH, 4))
        await asyncio.sleep(1)
        assert asked[-1] == 4

    simulated(run())


def test_whoever_waits_for_the_nth_request_hears_of_it_alone() -> None:
    async def run() -> None:
        _, writer = await kafka_linked()
        waiting = asyncio.ensure_future(network().requested(FETCH, 3))
        await asyncio.sleep(0)
        for number in range(2):
            writer.write(request(FETCH, number))
        await asyncio.sleep(1)
        assert not waiting.done()
        writer.write(request(FETCH, 2))
        await asyncio.wait_for(waiting, 1)

    simulated(run())
