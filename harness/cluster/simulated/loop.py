"""An asyncio loop whose time is its own: once nothing is left to do before the next timer, that timer is due.

Nothing comes from outside: there are no sockets, threads or signals, so the same calls give the same run. Tasks and
futures are numbered, and hash by their number: a set of them is walked in the same order in every process. Each turn of
the loop takes a little time, so that whoever asks again and again gets an end.
"""

import asyncio
import contextvars
import heapq
import math
import random
from collections.abc import Callable, Coroutine, Generator, Sequence
from concurrent.futures import Executor
from typing import Any, TypeVar, TypeVarTuple

from harness.cluster.simulated.beginning import BEGINS_NS, BEGINS_WALL_NS
from harness.cluster.simulated.machines import Machine, machine_of
from harness.cluster.simulated.network import Network
from harness.cluster.simulated.no_way_out import refused
from harness.host.randomness import stream

_Arguments = TypeVarTuple("_Arguments")
_Result = TypeVar("_Result")

_TURN_NS = 2_000


class Stuck(AssertionError):
    """Nothing is left to do, and nothing is waited for that could happen."""


class SimulatedClock:
    """Implements harness.host.clock.Clock by a loop's time."""

    def __init__(self, loop: "SimulatedLoop") -> None:
        self._loop = loop

    def monotonic_ns(self) -> int:
        return self._loop.now_ns

    def wall_ns(self) -> int:
        return BEGINS_WALL_NS + self._loop.now_ns - BEGINS_NS


class _Task(asyncio.Task[Any]):
    def __init__(self, work: Any, *, loop: "SimulatedLoop", number: int, **more: Any) -> None:
        self._number = number
        super().__init__(work, loop=loop, **({"name": f"task-{number}"} | more))

    def __hash__(self) -> int:
        return self._number


class _Future(asyncio.Future[Any]):
    def __init__(self, *, loop: "SimulatedLoop", number: int) -> None:
        self._number = number
        super().__init__(loop=loop)

    def __hash__(self) -> int:
        return self._number


class _Timer(asyncio.TimerHandle):
    """It waits when its machine stands still, and can be cancelled for as long as it has not run."""

    _scheduled: bool  # whether it is in the loop's heap

    def __init__(
        self,
        when: float,
        callback: Callable[..., object],
        args: Sequence[Any],
        loop: "SimulatedLoop",
        context: contextvars.Context,
    ) -> None:
        super().__init__(when, callback, args, loop, context)
        self._machine = machine_of(context)
        self._standing_of = loop.waiting_of

    def _run(self) -> None:
        waiting = self._standing_of(self._machine)
        if waiting is None:
            super()._run()
        else:
            waiting.append(self)


def _run_unless_cancelled(handle: asyncio.Handle) -> None:
    if not handle.cancelled():
        handle._run()


class _Jump:
    """What the loop asks to wait: it jumps."""

    def __init__(self, loop: "SimulatedLoop") -> None:
        self._loop = loop

    def select(self, timeout: float | None) -> list[Any]:
        if timeout is None:
            raise Stuck("nothing is scheduled any more, and the run is not over")
        self._loop.now_ns += max(math.ceil(timeout * 1e9), _TURN_NS)
        return []


class SimulatedLoop(asyncio.BaseEventLoop):
    """`now_ns`: its time. `network`: what its connections are made of. `seed`: of all chance in it.
    `after_each_turn` is called when what was due has run; no code of a machine runs meanwhile."""

    _scheduled: list[asyncio.TimerHandle]  # of asyncio's own loop: its heap

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._seed = seed
        self.now_ns = BEGINS_NS
        self.network = Network(self.chance("network"))
        self._selector = _Jump(self)
        self._clock_resolution = 1e-9
        self._standing: dict[Machine | None, list[asyncio.Handle]] = {}
        self._numbers = 0
        self.after_each_turn: Callable[[], None] = lambda: None
        self.set_task_factory(self._numbered)

    def _run_once(self) -> None:
        super()._run_once()  # type: ignore[misc]  # asyncio's own, which its stubs leave out
        self.after_each_turn()

    def chance(self, name: str) -> random.Random:
        return stream(self._seed, name)

    def time(self) -> float:
        return self.now_ns / 1e9

    # -- order that repeats -------------------------------------------------------------------------------------------

    def _next_number(self) -> int:
        self._numbers += 1
        return self._numbers

    def _numbered(
        self, loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Any] | Generator[Any, None, Any], **more: Any
    ) -> asyncio.Task[Any]:
        return _Task(work, loop=self, number=self._next_number(), **more)

    def create_future(self) -> asyncio.Future[Any]:
        return _Future(loop=self, number=self._next_number())

    # -- machines that stand still ------------------------------------------------------------------------------------

    def stand_still(self, machine: Machine) -> None:
        """From now on nothing of it runs, as after SIGSTOP: what becomes due waits."""
        self._standing.setdefault(machine, [])

    def go_on(self, machine: Machine) -> None:
        """What has waited runs now, in order."""
        self._run_soon(self._standing.pop(machine, []))

    def end_standing(self, machine: Machine) -> None:
        """It goes on to end: what it began last runs first, and what has waited finds it ended."""
        waiting = self._standing.pop(machine, [])
        self._run_soon(waiting[-1:] + waiting[:-1])

    def _run_soon(self, handles: Sequence[asyncio.Handle]) -> None:
        """Each in its own context. Until then it may still be cancelled, by one of them too."""
        for handle in handles:
            super().call_soon(_run_unless_cancelled, handle)

    def waiting_of(self, machine: Machine | None) -> list[asyncio.Handle] | None:
        """What is to run once it goes on; None: it does not stand still."""
        return self._standing.get(machine)

    def is_standing(self, machine: Machine) -> bool:
        return machine in self._standing

    def call_soon(
        self,
        callback: Callable[[*_Arguments], object],
        *args: *_Arguments,
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        if self._standing:
            own = contextvars.copy_context() if context is None else context
            waiting = self.waiting_of(machine_of(own))
            if waiting is not None:
                handle = asyncio.Handle(callback, args, self, own)
                waiting.append(handle)
                return handle
        return super().call_soon(callback, *args, context=context)

    call_soon_threadsafe = call_soon  # there is one thread

    def call_at(
        self,
        when: float,
        callback: Callable[[*_Arguments], object],
        *args: *_Arguments,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        own = contextvars.copy_context() if context is None else context
        timer = _Timer(when, callback, args, self, own)
        heapq.heappush(self._scheduled, timer)
        timer._scheduled = True
        return timer

    # -- what a loop has to do with its machine -----------------------------------------------------------------------

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[*_Arguments], _Result], *args: *_Arguments
    ) -> asyncio.Future[_Result]:
        """At once: there is no other thread, and no time passes in it."""
        if executor is not None:
            raise refused(f"a thread is wanted for {func!r}; give it to asyncio.to_thread", by=__file__)
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:  # noqa: BLE001  # it is the caller's, as a thread's would be
            future.set_exception(error)
        return future

    async def create_connection(  # type: ignore[override]
        self, protocol_factory: Callable[[], asyncio.BaseProtocol], host: str, port: int, **more: Any
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        if more.get("ssl"):
            raise refused("a simulated connection has no TLS", by=__file__)
        return await self.network.connect(protocol_factory, host, port)

    async def create_server(  # type: ignore[override]
        self, protocol_factory: Callable[[], asyncio.BaseProtocol], host: str, port: int, **more: Any
    ) -> asyncio.AbstractServer:
        return self.network.listen(protocol_factory, host, port)

    def _process_events(self, event_list: list[Any]) -> None:
        assert not event_list, "nothing comes from outside"

    def _write_to_self(self) -> None:
        """There is no other thread that would have to wake it."""
