"""How far a journal has been converted: all that is needed to read on, and what its rows are made of."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from harness.history.journal import Invoke, Process

# What the integers of a row are. begun: the operation's place by its call. told_each, key_each, time_each: the block
# has such an entry for each of its records, not one for all.
FIELDS: Mapping[str, tuple[str, ...]] = {
    "operations": ("begun", "client", "word", "t0", "txn", "t1", "status", "count", "error"),
    "blocks": ("op", "sent", "count", "assignment", "first", "log_append", "told_each", "key_each", "time_each"),
    "told": ("tp", "status", "epoch", "t0", "t1", "error"),
    "off": ("off",),
    "value": ("value",),
    "key": ("key",),
    "timestamp_ms": ("timestamp_ms",),
    "begun": ("client", "t0"),
    "ended": ("txn", "t1", "outcome", "error"),
    "took": ("txn", "client"),
    "events": ("word", "t0", "t1", "status", "generation", "member", "error", "client", "txn", "count"),
    "places": ("tp", "off"),
    "met": ("client", "t0", "word", "node", "of_tp", "epoch", "status", "error"),
}


class Asked(msgspec.Struct, array_like=True, frozen=True):
    """An operation without its answer."""

    begun: int
    client: int
    txn: int
    invoke: Invoke


class State(msgspec.Struct, kw_only=True):
    """All that is needed to read on. `tail`: the bytes before `position`, by which the file is known again."""

    inode: int
    position: int = 0
    tail: bytes = b""
    torn: bool = False  # its last line was cut short
    lines: int = 0
    opened: bool = False  # it has the line that journals begin with; older ones have not
    finished: bool = False  # its writer said that it was done
    operations_begun: int = 0
    operations_ended: int = 0
    clients: list[Process] = []
    numbers: dict[int, int] = {}  # of a topic-partition in the journal: its place in `places`
    places: list[tuple[str, int]] = []
    unanswered: dict[int, Asked] = {}
    assignments: dict[int, dict[int, int]] = {}  # by process and place: how often it was gained
    transactions: dict[int, int] = {}  # number in the journal: place
    transactions_begun: int = 0


@dataclass(kw_only=True)
class Before:
    """What a journal had grown to when it was put away last."""

    state: State = field(default_factory=lambda: State(inode=-1))
    integers: dict[str, list[memoryview]] = field(default_factory=lambda: {name: [] for name in FIELDS})
    words: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
