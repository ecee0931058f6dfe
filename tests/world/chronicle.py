"""What happened in the world, in order, as the world itself knows it. Evidence and truth are both read from here."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

Node = int
Partition = tuple[str, int]


class Cause(Enum):
    """Why records left a replica's log."""

    FOLLOWED = "followed its leader's epochs"
    HIGH_WATERMARK = "truncated to its own high watermark"  # a flaw of the world's
    DROPPED = "dropped without a reason"  # a flaw of the world's
    WIPED = "its disk was lost"
    POWER = "its unflushed tail was lost"
    DAMAGED = "cut before a damaged batch"
    REMOVED = "removed on request"


DESTROYED = (Cause.WIPED, Cause.POWER, Cause.DAMAGED)
FLAWED = (Cause.HIGH_WATERMARK, Cause.DROPPED)


@dataclass(frozen=True, slots=True)
class Sequenced:
    """A batch of an idempotent producer with several under way: its number within the producer's epoch."""

    process: int
    epoch: int
    number: int


@dataclass(frozen=True, slots=True)
class Entry:
    """A record in a log. `epoch`: of the leader that appended it.

    producer: id and epoch of a transactional one; marks: a marker, and whether it commits; kept: what a coordinator
    wrote, or, of a marker, the coordinator's own epoch; sequenced: its batch.
    """

    value: int
    epoch: int
    producer: tuple[int, int] | None = None
    marks: bool | None = None
    kept: object = None
    sequenced: Sequenced | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class State:
    """What the controller committed of a partition."""

    leader: Node
    epoch: int
    partition_epoch: int
    isr: tuple[Node, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Committed:
    """`unclean`: the new leader was not in the ISR before. `allowed`: unclean elections were, of this topic, then."""

    time_ns: int
    partition: Partition
    before: State | None
    state: State
    unclean: bool
    allowed: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Appended:
    time_ns: int
    partition: Partition
    node: Node
    offset: int
    entries: Sequence[Entry]
    by_leader: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Cut:
    """Entries from `to` on left the log. `epoch`: of the leader that it followed; `journalled`: the broker tells."""

    time_ns: int
    partition: Partition
    node: Node
    to: int
    end: int
    entries: Sequence[Entry]
    cause: Cause
    epoch: int | None = None
    journalled: bool = True


@dataclass(frozen=True, kw_only=True, slots=True)
class Removed:
    """The log starts later: nothing is lost, it was asked for; otherwise no setting and no request did that."""

    time_ns: int
    partition: Partition
    node: Node
    to: int
    asked: bool = True


@dataclass(frozen=True, kw_only=True, slots=True)
class Compacted:
    """Records left a replica's log, and their offsets stayed. records: offset, value, and whether the policy allowed it
    and a later record of the key was there."""

    time_ns: int
    partition: Partition
    node: Node
    records: Sequence[tuple[int, int, bool]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Led:
    """A broker took office."""

    time_ns: int
    partition: Partition
    node: Node
    epoch: int
    start: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Learned:
    """A broker heard a state from the controller; the observer hears it from the broker at its next poll."""

    time_ns: int
    partition: Partition
    node: Node
    state: State


@dataclass(frozen=True, kw_only=True, slots=True)
class Checkpointed:
    """A broker wrote its high watermark down."""

    time_ns: int
    partition: Partition
    node: Node
    high_watermark: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Reported:
    """Broker events without a partition: broker_start, broker_registered, broker_gone, directory_lost."""

    time_ns: int
    node: Node
    event: str
    detail: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Destroyed:
    """A node's copy of what a fault took: all of it, of a partition from an offset on, or to before another one."""

    node: Node
    extent: str  # disk | tail | batch
    partition: Partition | None = None
    from_offset: int | None = None
    to_offset: int | None = None


@dataclass(kw_only=True, slots=True)
class Fault:
    number: int
    kind: str
    label: str
    nodes: tuple[Node, ...]
    links: Sequence[Mapping[str, int]]  # source or client, and target
    destroyed: Sequence[Destroyed]
    begin_ns: int
    proof: str
    end_ns: int | None = None
    healed_proof: str | None = None


@dataclass(kw_only=True, slots=True)
class NodeEnd:
    """A process that ended while no fault had it down. reason, line: of what it logged last."""

    node: Node
    time_ns: int
    exit_status: int | None
    signal: int | None
    reason: str
    line: str
    back_ns: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Snapshot:
    time_ns: int
    partition: Partition
    node: Node
    reason: str
    log_start: int
    log_end: int
    entries: Sequence[Entry]  # as far as they can be read
    high_watermark: int | None
    epochs: Sequence[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Failed:
    """An attempt to have a batch appended that failed. refused: before it was, for certain."""

    time_ns: int
    refused: bool
    error: str


@dataclass(kw_only=True, slots=True)
class Send:
    """The records of one batch. `status` as in the tables; t1 when it was answered for good.

    returned_ns: when the call had returned, of a producer with several sends under way; operation: that it is a part
    of, with others of its process; failed: the attempts that did, of such a producer.
    """

    process: int
    partition: Partition
    values: Sequence[int]
    acks: int
    idempotent: bool
    invoked_ns: int
    completed_ns: int = -1
    status: int = 2
    base: int | None = None
    error: str | None = None
    acknowledged_by: Node | None = None
    acknowledged_in: int | None = None  # the epoch of the leader that acknowledged it
    in_sync: int = 0  # how many the leader took to be in sync when it appended the batch
    appended_at: int | None = None
    below_minimum: bool = False  # for certain acknowledged against min.insync.replicas
    perhaps_below: bool = False  # so it was, and it is not certain that its leader knew that
    transaction: int | None = None
    returned_ns: int | None = None
    operation: int | None = None
    failed: list[Failed] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True, slots=True)
class Read:
    """What one poll returned of one partition. offsets: where some between were not given."""

    partition: Partition
    node: Node
    leader_epoch: int
    first: int
    entries: Sequence[Entry]
    offsets: Sequence[int] | None = None

    def placed(self) -> Iterator[tuple[int, Entry]]:
        offsets = range(self.first, self.first + len(self.entries)) if self.offsets is None else self.offsets
        return zip(offsets, self.entries, strict=True)


@dataclass(kw_only=True, slots=True)
class Poll:
    process: int
    assignment: int
    final: bool
    invoked_ns: int
    completed_ns: int
    reads: Sequence[Read]
    error: str | None = None
    transaction: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Assigned:
    process: int
    time_ns: int
    count: int


@dataclass(frozen=True, kw_only=True, slots=True)
class FinalState:
    partition: Partition
    read_to_end: bool
    end: int | None
    log_start: int | None
    unread: Sequence[Entry]  # in the leader's log, above the end that it answers
    stable: int | None = None  # the last stable offset, where there are transactions


@dataclass(kw_only=True, slots=True)
class Transaction:
    """outcome: as in the tables: 0 committed, 1 aborted for certain, 2 nobody knows, 3 no broker was told of it."""

    number: int
    process: int
    transactional_id: str
    producer: tuple[int, int]
    begun_ns: int
    ended_ns: int | None = None
    outcome: int = 2
    error: str | None = None
    group: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class GroupEvent:
    """As a member tells it. source: the value of the coordinator's record that was written, or answered from."""

    process: int
    event: str
    generation: int
    member: str
    partition: Partition
    offset: int | None
    status: int
    invoked_ns: int
    completed_ns: int
    error: str | None = None
    source: int | None = None
    deposed: bool = False  # whether a deposed coordinator answered
    transaction: int | None = None  # it was sent to
    require_stable: bool | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Passed:
    """read_committed was served what lies above the last stable offset. value: of the first open record."""

    time_ns: int
    partition: Partition
    value: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Kept:
    """What a coordinator wrote, or a marker that it had written, and was acknowledged by all in sync."""

    send: Send
    what: object


Happening = Committed | Appended | Cut | Removed | Compacted | Led | Learned | Checkpointed | Reported


@dataclass(kw_only=True)
class Chronicle:
    happenings: list[Happening] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    node_ends: list[NodeEnd] = field(default_factory=list)
    snapshots: list[Snapshot] = field(default_factory=list)
    sends: list[Send] = field(default_factory=list)
    polls: list[Poll] = field(default_factory=list)
    assigned: list[Assigned] = field(default_factory=list)
    final: dict[Partition, FinalState] = field(default_factory=dict)
    last_logs: dict[Partition, Sequence[Entry]] = field(default_factory=dict)  # of coordinators' partitions
    configuration: list[tuple[int, str, str, str]] = field(default_factory=list)  # t, topic, key, value
    keys: dict[int, int] = field(default_factory=dict)  # of values
    names: dict[int, str] = field(default_factory=dict)  # of values that tell what they were made of
    transactions: list[Transaction] = field(default_factory=list)
    group_events: list[GroupEvent] = field(default_factory=list)
    crashed: dict[int, int] = field(default_factory=dict)  # processes, and when
    reset: set[Partition] = field(default_factory=set)  # where a member's position did not exist any more
    passed: list[Passed] = field(default_factory=list)
    kept: list[Kept] = field(default_factory=list)
    flaws_acted: set[str] = field(default_factory=set)  # planted flaws that really did something
