"""What a search for cycles answers: components, what Jepsen says of each, cycles step by step, what was left out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

# The relations of two operations, as bits of an edge: Elle's order, which decides what is tried first.
WW, WR, RW, REALTIME = 1, 2, 4, 8
RELATION_NAMES = {WW: "ww", WR: "wr", RW: "rw", REALTIME: "realtime"}


class Mode(Enum):
    """JEPSEN: Jepsen's edges, statements and choice of cycle. FULL: read-write edges too, shortest cycle per kind.
    UNTIMED: as FULL, of the kinds that need no edge of real time."""

    JEPSEN = "jepsen"
    FULL = "full"
    UNTIMED = "untimed"


class Kind:
    """Names of cycles. FULL sets those of write-read edges alone (`G1c-wr`) apart from those that need ww (`G1c`)."""

    G0 = "G0"
    G1C_WR = "G1c-wr"
    G1C = "G1c"
    G_SINGLE = "G-single"
    G2_ITEM = "G2-item"
    REALTIME_SUFFIX = "-realtime"


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Work is bounded by counts, never by time, so that every machine answers the same."""

    collected_rows: int = 5_000_000  # more than this of a kind: the intervals are searched in Spark's workers
    interval_operations: int = 1_000_000  # a longer interval is not searched, and said so
    path_steps: int = 200_000  # Jepsen's search tries paths; beyond this many the shortest cycle stands in
    shortest_visits: int = 2_000_000  # edges looked at per component for the shortest cycle of all


@dataclass(frozen=True, kw_only=True)
class Step:
    """`source` happened before `target` because of `relation`; the evidence is filled in once a cycle is chosen.

    ww: source sent `value`, target the next one, `next_value`. wr: source sent `value`, target read it. rw: source
    read `value` last, target sent the next one. realtime: source completed before `begin`, when target was invoked.
    """

    source: int
    target: int
    relation: int
    partition_id: int | None = None
    value: int | None = None
    next_value: int | None = None
    source_mop: int | None = None
    target_mop: int | None = None
    begin: int | None = None

    @property
    def name(self) -> str:
        return RELATION_NAMES[self.relation]


@dataclass(frozen=True, kw_only=True)
class Cycle:
    """`steps[-1].target` is `steps[0].source`. `shortest`: no shorter one of its kind lies in its component."""

    kind: str
    steps: Sequence[Step]
    shortest: bool = True

    @property
    def operations(self) -> list[int]:
        return [step.source for step in self.steps]

    @property
    def relations(self) -> int:
        found = 0
        for step in self.steps:
            found |= step.relation
        return found


@dataclass(frozen=True, kw_only=True)
class Statement:
    """Jepsen's "a cycle exists": the weakest model that cannot hold, and the smallest component that shows it."""

    model: str  # PL-1, PL-2, strong-PL-1, strong-PL-2
    operations: Sequence[int]


@dataclass(frozen=True, kw_only=True)
class Component:
    """Operations each of which happened before every other: at least two of them."""

    run: int
    operations: Sequence[int]
    statements: Sequence[Statement] = ()
    cycles: Sequence[Cycle] = ()
    times: Mapping[int, tuple[int, int | None]] = field(default_factory=dict)  # of the operations on its cycles


@dataclass(frozen=True, kw_only=True)
class NotSearched:
    """What was left out. `first`, `last`: the places (event index or ns) between which no cycle was looked for.

    is_unread: since a partition was not read that far.
    """

    run: int
    reason: str
    is_unread: bool = False
    first: int | None = None
    last: int | None = None
    operations: int | None = None
    interval: int | None = None


@dataclass(frozen=True, kw_only=True)
class Search:
    """The answer for all runs; runs without a component have no key. `runs_with_edges`: filled in Jepsen's mode."""

    mode: Mode
    components: Mapping[int, Sequence[Component]] = field(default_factory=dict)
    runs_with_edges: frozenset[int] = frozenset()
    not_searched: Mapping[int, Sequence[NotSearched]] = field(default_factory=dict)
