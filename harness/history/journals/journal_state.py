"""The state of a journal's conversion: everything needed to continue reading, and the layout of its rows."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from harness.history.journals.journal import Invoke, Process

# The integers of a row. begun: the operation's index by its call. told_each, key_each, time_each: the block has such an
# entry for each of its records instead of one for all.
FIELDS: Mapping[str, tuple[str, ...]] = {
    "operations": ("begun", "client", "word", "invoked_ns", "transaction", "completed_ns", "status", "count", "error"),
    "blocks": ("operation", "sent", "count", "assignment", "first", "log_append", "told_each", "key_each", "time_each"),
    "told": ("partition_id", "status", "leader_epoch", "invoked_ns", "completed_ns", "error", "returned_ns"),
    "offset": ("offset",),
    "value": ("value",),
    "key": ("key",),
    "timestamp_ms": ("timestamp_ms",),
    "begun": ("client", "invoked_ns"),
    "ended": ("transaction", "completed_ns", "outcome", "error"),
    "took": ("transaction", "client"),
    "events": (
        "word",
        "invoked_ns",
        "completed_ns",
        "status",
        "generation",
        "member",
        "error",
        "client",
        "transaction",
        "count",
        "require_stable",
    ),
    "places": ("partition_id", "offset"),
    "met": (
        "client",
        "invoked_ns",
        "word",
        "node",
        "of_tp",
        "leader_epoch",
        "status",
        "error",
        "request",
        "version",
        "code",
    ),
}


class Asked(msgspec.Struct, array_like=True, frozen=True):
    """An operation without its answer."""

    begun: int
    client: int
    transaction: int
    invoke: Invoke


class State(msgspec.Struct, kw_only=True):
    """Everything needed to continue reading. `tail`: the bytes before `position`, to recognise the file."""

    inode: int
    position: int = 0
    tail: bytes = b""
    torn: bool = False  # its last line is torn
    lines: int = 0
    opened: bool = False  # it has the first line J; older journals do not
    finished: bool = False  # its writer wrote the last line F
    operations_begun: int = 0
    operations_ended: int = 0
    clients: list[Process] = []
    numbers: dict[int, int] = {}  # number of a topic-partition in the journal: its index in `places`
    places: list[tuple[str, int]] = []
    unanswered: dict[int, Asked] = {}
    assignments: dict[int, dict[int, int]] = {}  # by process and place: the number of assignments
    transactions: dict[int, int] = {}  # number in the journal: index
    transactions_begun: int = 0


@dataclass(kw_only=True)
class Before:
    """The sizes of a journal's columns when it was last stored."""

    state: State = field(default_factory=lambda: State(inode=-1))
    integers: dict[str, list[memoryview]] = field(default_factory=lambda: {name: [] for name in FIELDS})
    words: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
