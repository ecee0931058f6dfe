"""Time is an argument. One monotonic clock serves every process of a host; wall time appears only in anchors."""

import time
from dataclasses import dataclass
from typing import Protocol


class Clock(Protocol):
    """Where nanoseconds come from: the machine's clocks, or the virtual clock of a simulated run."""

    def monotonic_ns(self) -> int: ...

    def wall_ns(self) -> int: ...


class SystemClock:
    """CLOCK_MONOTONIC, which all processes of one host share, and the wall clock beside it."""

    def monotonic_ns(self) -> int:
        return time.monotonic_ns()

    def wall_ns(self) -> int:
        return time.time_ns()


@dataclass(frozen=True, kw_only=True)
class StandingClock:
    """Of a world whose time has ended: always that moment."""

    now_ns: int
    now_wall_ns: int

    def monotonic_ns(self) -> int:
        return self.now_ns

    def wall_ns(self) -> int:
        return self.now_wall_ns


@dataclass(frozen=True, kw_only=True)
class Anchor:
    """One moment read on both clocks, so that foreign wall-clock stamps can be placed on the run's axis."""

    monotonic_ns: int
    wall_ns: int

    def monotonic_from_wall(self, wall_ns: int) -> int:
        return self.monotonic_ns + (wall_ns - self.wall_ns)


def anchor(clock: Clock) -> Anchor:
    return Anchor(monotonic_ns=clock.monotonic_ns(), wall_ns=clock.wall_ns())
