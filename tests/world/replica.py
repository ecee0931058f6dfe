"""One replica of one partition: its log, epochs and high watermark, and, where it leads, what it knows of others."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from tests.world.chronicle import Entry, Node, Partition, State

UNKNOWN = -1


@dataclass(kw_only=True, slots=True)
class Remote:
    """A follower as its leader sees it."""

    log_end: int = UNKNOWN
    caught_up_at: int = 0
    leader_end_then: int = 0  # the leader's log end at the fetch before, and its time
    fetched_at: int = 0


@dataclass(kw_only=True, slots=True)
class Waiting:
    """An acks=all answer that waits for the high watermark."""

    end: int
    answer: Callable[[str | None], None]  # None: acknowledged; else the error


@dataclass(kw_only=True)
class Replica:
    partition: Partition
    node: Node
    start: int = 0
    log: list[Entry] = field(default_factory=list)
    epochs: list[tuple[int, int]] = field(default_factory=list)  # (epoch, its start offset)
    high_watermark: int = 0
    checkpoint: int | None = None
    damaged_from: int | None = None  # the batch at this offset has a wrong checksum
    flushed: int = 0  # what a loss of power leaves
    batches: list[int] = field(default_factory=list)  # first offsets
    times: dict[int, int] = field(default_factory=dict)  # when each was appended here, where settings change

    # What it learnt. `state`: of the newest epoch that it heard of.
    state: State | None = None
    known_since: int = 0  # when it learnt of that
    leading: bool = False
    epoch_start: int = 0
    remotes: dict[Node, Remote] = field(default_factory=dict)
    adding: Node | None = None  # proposed, not yet confirmed: counts at once for the high watermark
    waiting: list[Waiting] = field(default_factory=list)
    checked_epoch: int = -1  # a follower that truncates by high watermark has done so for this epoch

    @property
    def end(self) -> int:
        return self.start + len(self.log)

    def at(self, offset: int) -> Entry | None:
        place = offset - self.start
        return self.log[place] if 0 <= place < len(self.log) else None

    def slice(self, first: int, end: int) -> Sequence[Entry]:
        return self.log[max(first - self.start, 0) : max(end - self.start, 0)]

    # -- epochs (KIP-101) ---------------------------------------------------------------------------------------------

    def assign_epoch(self, epoch: int, start: int) -> None:
        if self.epochs and self.epochs[-1][0] == epoch:
            return
        self.epochs = [(e, s) for e, s in self.epochs if e < epoch and s < start]
        self.epochs.append((epoch, start))

    def end_of_epoch(self, epoch: int) -> tuple[int, int] | None:
        """(the epoch found, where it ends): of the greatest epoch not above the one asked for."""
        if not self.epochs or epoch > self.epochs[-1][0]:
            return None
        if epoch == self.epochs[-1][0]:
            return epoch, self.end
        if epoch < self.epochs[0][0]:
            return epoch, self.epochs[0][1]
        for (found, _), (following, start) in pairwise(self.epochs):
            if found <= epoch < following:
                return found, start
        raise AssertionError((epoch, self.epochs))

    # -- the log ------------------------------------------------------------------------------------------------------

    def append(self, entries: Sequence[Entry]) -> int:
        first = self.end
        for place, entry in enumerate(entries):
            if not self.epochs or entry.epoch > self.epochs[-1][0]:
                self.assign_epoch(entry.epoch, first + place)
        self.batches.append(first)
        self.log.extend(entries)
        return first

    def cut(self, to: int) -> Sequence[Entry]:
        gone = self.slice(to, self.end)
        del self.log[max(to - self.start, 0) :]
        self.start = min(self.start, to)
        self.epochs = [(e, s) for e, s in self.epochs if s < to]
        self.batches = [first for first in self.batches if first < to]
        self.high_watermark = min(self.high_watermark, self.end)
        self.flushed = min(self.flushed, self.end)
        if self.damaged_from is not None and self.damaged_from >= to:
            self.damaged_from = None
        return gone

    def remove_below(self, to: int) -> None:
        del self.log[: max(to - self.start, 0)]
        self.start = max(self.start, to)
        self.batches = [first for first in self.batches if first >= self.start]
        below = [(e, s) for e, s in self.epochs if s <= to]
        self.epochs = [(e, max(s, to)) for e, s in below[-1:]] + [(e, s) for e, s in self.epochs if s > to]

    def empty(self) -> Sequence[Entry]:
        gone = list(self.log)
        self.log, self.epochs, self.batches = [], [], []
        self.start = self.high_watermark = self.flushed = 0
        self.checkpoint = self.damaged_from = None
        return gone

    def forget_role(self) -> None:
        self.leading, self.adding = False, None
        self.remotes = {}
        self.state = None
