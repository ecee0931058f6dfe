"""A simulated loop: its time jumps, its order repeats, a machine that stands still does nothing."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import pytest

from harness.cluster.simulated.beginning import BEGINS_NS
from harness.cluster.simulated.loop import SimulatedClock, SimulatedLoop, Stuck
from harness.cluster.simulated.machines import Machine, begun_on, context_on, machine_of
from harness.cluster.simulated.no_way_out import Escape, NoWayOut

Result = TypeVar("Result")


def simulated(work: Coroutine[Any, Any, Result], *, loop: SimulatedLoop | None = None) -> Result:
    with asyncio.Runner(loop_factory=lambda: loop or SimulatedLoop(1)) as runner:
        return runner.run(work)


def test_an_hour_of_sleep_takes_no_time_and_is_over_to_the_microsecond() -> None:
    loop = SimulatedLoop(1)
    clock = SimulatedClock(loop)

    simulated(asyncio.sleep(3600), loop=loop)

    assert 3600_000_000_000 <= clock.monotonic_ns() - BEGINS_NS < 3600_000_100_000


def test_timers_come_in_the_order_of_their_times() -> None:
    came: list[int] = []

    async def one(number: int) -> None:
        await asyncio.sleep(number / 10)
        came.append(number)

    async def all_of_them() -> None:
        await asyncio.gather(*(one(number) for number in (5, 3, 9, 1)))

    simulated(all_of_them())

    assert came == [1, 3, 5, 9]


def test_a_set_of_tasks_is_walked_in_the_same_order_in_every_loop() -> None:
    async def names() -> list[str]:
        tasks = {asyncio.create_task(asyncio.sleep(0.001), name=f"number {number}") for number in range(50)}
        await asyncio.wait(tasks)
        return [task.get_name() for task in tasks]

    assert simulated(names()) == simulated(names())


def test_whoever_waits_for_nothing_is_told_so() -> None:
    async def forever() -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(Stuck, match="nothing is scheduled"):
        simulated(forever())


def test_who_asks_again_and_again_gets_to_the_end_of_his_time() -> None:
    async def busy() -> int:
        loop, turns = asyncio.get_running_loop(), 0
        end = loop.time() + 0.01
        while loop.time() < end:
            await asyncio.sleep(0)
            turns += 1
        return turns

    assert 0 < simulated(busy()) <= 10_000


def test_work_for_a_thread_is_done_at_once_and_its_error_is_its_callers() -> None:
    async def asked() -> tuple[int, str]:
        done = await asyncio.to_thread(lambda: 7)
        with pytest.raises(ZeroDivisionError) as raised:
            await asyncio.to_thread(lambda: 1 / 0)
        return done, str(raised.value)

    assert simulated(asked()) == (7, "division by zero")


async def _asks_for_a_thread() -> None:
    await asyncio.get_running_loop().run_in_executor(object(), print)  # type: ignore[arg-type]


async def _asks_for_tls() -> None:
    await asyncio.open_connection("10.0.0.1", 9092, ssl=True)


@pytest.mark.parametrize(
    ("asks", "message"), [(_asks_for_a_thread, "a thread is wanted"), (_asks_for_tls, "connection has no TLS")]
)
def test_nobody_gets_a_thread_of_his_own_or_tls(asks: Callable[[], Coroutine[Any, Any, None]], message: str) -> None:
    with pytest.raises(Escape, match=message):
        simulated(asks())


@pytest.mark.parametrize(
    ("asks", "place"),
    [(_asks_for_a_thread, "test_loop.py"), (_asks_for_tls, "streams.py")],  # of asyncio
)
def test_what_the_loop_refuses_is_remembered_where_nobody_hears_it(
    asks: Callable[[], Coroutine[Any, Any, None]], place: str
) -> None:
    async def unheard() -> None:
        await asyncio.gather(asks(), return_exceptions=True)

    loop = SimulatedLoop(1)
    with (
        asyncio.Runner(loop_factory=lambda: loop) as runner,
        NoWayOut(clock=SimulatedClock(loop), chance=loop.chance("libraries")) as guard,
    ):
        runner.run(unheard())

    assert len(guard.escapes) == 1
    assert f"{place}:" in guard.escapes[0]


async def _ticking(came: list[float]) -> None:
    while True:
        await asyncio.sleep(1)
        came.append(asyncio.get_running_loop().time())


def test_a_machine_that_stands_still_does_nothing_until_it_goes_on() -> None:
    machine = Machine(name="broker 1")
    before: list[int] = []

    async def paused() -> list[float]:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SimulatedLoop)
        came: list[float] = []
        ticking = begun_on(machine, _ticking(came))
        await asyncio.sleep(2.5)
        loop.stand_still(machine)
        before.append(len(came))
        await asyncio.sleep(10)
        before.append(len(came))
        loop.go_on(machine)
        await asyncio.sleep(0.5)
        ticking.cancel()
        return came

    came = simulated(paused())

    assert before == [2, 2]
    assert len(came) == 3, "the tick that became due meanwhile comes once it goes on"


@pytest.mark.parametrize("ends", [False, True])
def test_what_became_due_on_a_machine_that_stands_still_can_be_cancelled(ends: bool) -> None:
    machine = Machine(name="broker 1")
    came: list[str] = []

    async def paused() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SimulatedLoop)
        timers: dict[str, asyncio.Handle] = {}

        def cancels_another() -> None:
            came.append("first")
            timers["of its machine"].cancel()

        async def begins() -> None:
            timers["from outside"] = loop.call_later(1, came.append, "cancelled from outside")
            loop.call_later(2, cancels_another)
            timers["of its machine"] = loop.call_later(3, came.append, "cancelled by its machine")
            loop.call_later(4, came.append, "last")

        await begun_on(machine, begins())
        loop.stand_still(machine)
        timers["soon"] = loop.call_soon(came.append, "soon", context=context_on(machine))
        await asyncio.sleep(10)
        timers["from outside"].cancel()
        timers["soon"].cancel()
        assert came == []
        (loop.end_standing if ends else loop.go_on)(machine)
        await asyncio.sleep(10)

    simulated(paused())

    assert sorted(came) == ["first", "last"]


def test_what_a_machine_begins_is_the_machines() -> None:
    machine = Machine(name="broker 1")
    seen: list[Machine | None] = []

    async def inner() -> None:
        asyncio.get_running_loop().call_later(1, lambda: seen.append(machine_of()))
        await asyncio.create_task(asyncio.sleep(2))
        seen.append(machine_of())

    async def outer() -> None:
        await begun_on(machine, inner())
        seen.append(machine_of())

    simulated(outer())

    assert seen == [machine, machine, None]
