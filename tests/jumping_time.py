"""A loop whose time jumps: once nothing is left to do before the next timer, that timer is due.

For tests of what happens in memory: a plan of two seconds takes no longer than the work in it, and a busy machine makes
no timer late. Whatever asks for the time has to ask `CLOCK`, which jumps along. Time does not jump while a thread of
the loop's executor works, and a socket whose two ends are in this loop is ready at once; other threads, processes and
hosts have no share in it.
"""

import asyncio
import selectors
import time
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, TypeVar, TypeVarTuple

Arguments = TypeVarTuple("Arguments")
Result = TypeVar("Result")


class JumpingClock:
    """The machine's clocks, ahead of them by what was jumped over since this process began."""

    def __init__(self) -> None:
        self.ahead_ns = 0

    def monotonic_ns(self) -> int:
        return time.monotonic_ns() + self.ahead_ns

    def wall_ns(self) -> int:
        return time.time_ns() + self.ahead_ns


CLOCK = JumpingClock()


class _Jumping(selectors.DefaultSelector):
    """Its loop asks it to wait for a socket or until the next timer."""

    def __init__(self) -> None:
        super().__init__()
        self.threads_at_work = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or timeout <= 0 or self.threads_at_work:
            return super().select(timeout)
        ready = super().select(0)
        if not ready:
            CLOCK.ahead_ns += int(timeout * 1e9) + 1
        return ready


class JumpingLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._jumping = _Jumping()
        super().__init__(self._jumping)

    def time(self) -> float:
        return CLOCK.monotonic_ns() / 1e9

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[*Arguments], Result], *args: *Arguments
    ) -> asyncio.Future[Result]:
        self._jumping.threads_at_work += 1
        future = super().run_in_executor(executor, func, *args)
        future.add_done_callback(self._one_less)
        return future

    def _one_less(self, _: asyncio.Future[Any]) -> None:
        self._jumping.threads_at_work -= 1
