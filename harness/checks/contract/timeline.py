"""A record's timeline: where and when it was last seen, and from when on it was gone. Its loss lies between the two.

Each is known as far as the evidence goes: surely, and perhaps, where a deposed leader may have shown it, or somebody
else may have outlived what shows it. Whoever judges takes every reading of it (`windows`), and where they differ
nothing is decided. Where a later record of its epoch is still there at the end, there is nothing to search
(outlived.py).
"""

from dataclasses import dataclass
from typing import Generic, TypeVar

from harness.checks.model.elections import Election

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Known(Generic[T]):
    """What is surely so, and what may be so instead."""

    sure: T
    perhaps: T

    @property
    def readings(self) -> tuple[T, ...]:
        return (self.sure,) if self.perhaps == self.sure else (self.sure, self.perhaps)


@dataclass(frozen=True, kw_only=True)
class Seen:
    """It was there in the line of that epoch's leader, and it was there at that time."""

    epoch: int
    time_ns: int


@dataclass(frozen=True, kw_only=True)
class Gone:
    """It was not there any more under that epoch's leader, and not at that time; None where nothing shows that."""

    epoch: int | None = None
    time_ns: int | None = None


@dataclass(frozen=True, kw_only=True)
class Window:
    """Where to search for the cause of a loss: one reading of the timeline.

    on_nodes: of each node that is known to have had it, when it was last seen there. lacking: (node, time), a log that
    was read then, later, and lacked it.
    """

    seen: Seen
    gone: Gone = Gone()
    on_nodes: tuple[tuple[int, int], ...] = ()
    lacking: tuple[tuple[int, int], ...] = ()

    def seen_on(self, node: int) -> int:
        return dict(self.on_nodes).get(node, self.seen.time_ns)

    def had_lost_it(self, node: int, *, since: int, time_ns: int) -> bool:
        """Whether a node in sync since `since` was without it already at that time."""
        return any(each == node and since <= t <= time_ns for each, t in self.lacking)

    def admits(self, election: Election) -> bool:
        return election.epoch > self.seen.epoch and (self.gone.epoch is None or election.epoch <= self.gone.epoch)


@dataclass(frozen=True, kw_only=True)
class Timeline:
    seen: Known[Seen]
    gone: Known[Gone]
    on_nodes: tuple[tuple[int, int], ...]
    lacking: tuple[tuple[int, int], ...]

    @property
    def windows(self) -> list[Window]:
        """Every reading of it, the sure one first."""
        return [
            Window(seen=seen, gone=gone, on_nodes=self.on_nodes, lacking=self.lacking)
            for gone in self.gone.readings
            for seen in self.seen.readings
        ]
