"""The tables about the cluster and what was done to it, each declared as the type of its rows (column_types.py).

`run` is numbered by whoever reads.
"""

from typing import Annotated, Literal, TypedDict

from harness.history.schema.column_types import (
    Added,
    Broker,
    Int16,
    Int32,
    Int64,
    LeaderEpoch,
    Nanoseconds,
    Natural32,
    Natural64,
    Within,
)
from harness.history.schema.typed_rows import RowsOf

StepKind = Literal["act", "wait", "expect"]
StepOutcome = Literal["ok", "failed", "timeout", "skipped"]
FinalReadEvent = Literal["end", "stable", "again"]
Age = Literal["old", "fresh"]
AskedFor = Literal["write", "membership", "read", "stable"]
AskOutcome = Literal["done", "refused", "unanswered", "not_asked"]
# nothing_new: no record was written that it could have been given. unsupported: no client can ask. not_waited_for: the
# old clients had got it, and this one not yet after a moment.
WhyNotAsked = Literal["nothing_new", "unsupported", "not_waited_for"]
SnapshotReason = Literal["kill", "heal", "wipe", "restart", "truncation", "end"]
# Why a process ended, by what it logged in its last seconds (harness/cluster/last_words.py). truncation-refused: it was
# asked to cut what it takes for committed, of a partition or of its metadata. exception: an error of none of the other
# kinds. none: it logged no error.
EndReason = Literal[
    "disk-full",
    "log-directory-failed",
    "truncation-refused",
    "metadata-truncation-refused",
    "registration-failed",
    "other-cluster",
    "out-of-resources",
    "exception",
    "none",
]


class LinkRow(TypedDict):
    """From a broker or node (source), or from a client, to a node."""

    source: Int32 | None
    client: Int32 | None
    target: Int32


class FaultRow(TypedDict):
    """One row per fault. begin_ns/end_ns: null when the effect was never seen; proved: it was seen on the victims.
    kind: kill | stop | pause | cut | slow | impair | wipe | full ... nodes: the victims. links: those that were struck,
    each from a broker or node (source) or a client to a node (target); null: not known which. planned_ns: when the plan
    wanted it to begin; asked_ns: when it was begun; begin_ns: when its effect was seen. scheduled: its place in the
    scenario's [[faults]], step: in its [[steps]], both from 0; one fault of the plan has a row for each victim."""

    run: Int32
    fault: Natural32
    kind: str
    label_text: str | None
    nodes: list[Int32]
    links: list[LinkRow] | None
    proved: bool | None
    trigger_text: str | None
    asked_ns: Nanoseconds | None
    begin_ns: Nanoseconds | None
    end_asked_ns: Nanoseconds | None
    end_ns: Nanoseconds | None
    proof_text: str | None
    healed_proof_text: str | None
    step: Int32 | None
    planned_ns: Added[Nanoseconds | None]
    scheduled: Added[Natural32 | None]


class DiskEventRow(TypedDict):
    """What a fault destroyed on a disk, one row per node and place (disk_facts.py says what each extent means)."""

    run: Int32
    node: Broker
    time_ns: Nanoseconds
    fault: Natural32 | None
    extent: str
    topic: str | None
    partition: Natural32 | None
    from_offset: Int64 | None
    to_offset: Int64 | None


class StepRow(TypedDict):
    """One row per step of an ordered plan. kind: act | wait | expect. outcome: ok | failed | timeout | skipped. act:
    what was done, waited for or expected, as the scenario calls it. arguments: its table there, as JSON: {"elect":
    "unclean", "topic": "orders"}. Either null: not known."""

    run: Int32
    step: Natural32
    kind: StepKind
    act: str | None
    step_text: str
    begin_ns: Nanoseconds | None
    end_ns: Nanoseconds | None
    outcome: StepOutcome
    seen_text: str | None
    arguments: str | None


class PartitionStateRow(TypedDict):
    """The state of a partition from time_ns on, until the next row of the same (topic, partition, observer).
    exact=true: from the coordination log (observer -1); exact=false: polled from broker `observer`. leader -1 = none.
    isr_before: the ISR in the state before; elr: the eligible leader replicas (KIP-966; null where the system has none,
    and in runs stored before this column). unclean: the new leader was in neither before, nor, when both were empty,
    the last known leader. partition_epoch: znode version (null when polled). uncertainty_ns: half-width of time_ns."""

    run: Int32
    topic: str
    partition: Natural32
    time_ns: Nanoseconds
    uncertainty_ns: Natural64 | None
    exact: bool
    observer: Int32
    leader: Broker
    leader_epoch: LeaderEpoch
    partition_epoch: Int32 | None
    controller_epoch: Int32 | None
    isr: list[Int32]
    isr_before: list[Int32] | None
    leader_before: Int32 | None
    unclean: bool | None
    replicas: list[Int32] | None
    elr: list[Int32] | None
    topic_id: str | None


class TopicRow(TypedDict):
    """One row per topic that the cluster's books mention: a topic deleted and created anew is another one. topic: what
    it is called in every table: of several of one name the newest has it, those before are NAME#1, NAME#2 ... name:
    what clients call it. created_ns, deleted_ns: null where not known, or never. undecided: no topic, but NAME#0: the
    acknowledged records of which it is unknown which of the topics had them."""

    run: Int32
    topic: str
    name: str
    topic_id: str | None
    created_ns: Nanoseconds | None
    deleted_ns: Nanoseconds | None
    uncertainty_ns: Natural64 | None
    undecided: bool


class ControllerRow(TypedDict):
    """The controller from time_ns on. node -1 = none."""

    run: Int32
    time_ns: Nanoseconds
    uncertainty_ns: Natural64 | None
    node: Broker
    controller_epoch: Int32 | None


class BrokerEventRow(TypedDict):
    """What brokers journalled about themselves. event: truncation | leadership_start | leadership_end |
    high_watermark_checkpoint | broker_start | broker_registered | directory_lost (from the coordination log) ...
    isr_learned: a leader heard of an ISR that its controller had made, to_offset: its high watermark by then;
    detail_text: {"partition_epoch": of that ISR}. isr_expand_asked: a leader asked for another member, which it counts
    from then on. records_deleted: a client had the leader move its log's start to
    to_offset (DeleteRecords).
    unclean_election: node is the broker that was elected, by its own log or its controller's. truncation: log end went
    from from_offset down to to_offset (the new log end); leader_epoch: the one followed."""

    run: Int32
    node: Broker
    time_ns: Nanoseconds
    event: str
    topic: str | None
    partition: Natural32 | None
    leader_epoch: LeaderEpoch | None
    from_offset: Int64 | None
    to_offset: Int64 | None
    reason_text: str | None
    detail_text: str | None


class NodeEndRow(TypedDict):
    """One row per end of a node that no fault had down, as it was seen. Runs sealed before there was this table lack
    it. exit_status, signal: of its process; a status of 128 and more tells the signal that it ended for. Both null: not
    known. reason, line_text: by its log's last seconds, null: that could not be read. back_ns: when it ran again, null:
    never. uncertainty_ns: it ended so long before time_ns at most. fresh: the cluster was started for this run, so that
    nothing struck it before; null: not known."""

    run: Int32
    node: Broker
    time_ns: Nanoseconds
    uncertainty_ns: Natural64 | None
    exit_status: Natural32 | None
    signal: Annotated[Int32, Within(1)] | None
    reason: EndReason | None
    line_text: str | None
    back_ns: Nanoseconds | None
    fresh: bool | None


class ConfigurationRow(TypedDict):
    """Configuration over time, of topics and brokers. node -1 = a topic's or the cluster's. scope: topic | broker |
    cluster, or feature: the level that the cluster finalized of a feature (key), as transaction.version (KIP-584).
    source: start = what a broker said of itself when it started (static settings and defaults, under the brokers'
    names); null: a change in the books."""

    run: Int32
    time_ns: Nanoseconds
    scope: str
    name: str | None
    node: Broker | None
    key: str
    value: str | None
    source: Added[str | None]


class OpenTransactionRow(TypedDict):
    producer_id: Int64
    producer_epoch: Int32
    first_offset: Int64
    last_offset: Int64
    begun_ms: Int64


class SnapshotRow(TypedDict):
    """One row per (snapshot, partition): what one replica's log was when it was read from disk. reason: kill | heal |
    wipe | restart | truncation (cut batches only) | end. digest: of its records below its high watermark
    (log_digest.py); null where that is not known. topic_id: by the replica's own file. open_transactions: those that no
    marker had ended at the log's end, by their first offsets; begun_ms: the timestamp of the first batch. Null: not
    known."""

    run: Int32
    snapshot: Natural32
    node: Broker
    time_ns: Nanoseconds
    reason: SnapshotReason
    topic: str
    partition: Natural32
    log_start_offset: Natural64 | None
    high_watermark: Natural64 | None
    log_end_offset: Natural64
    leader_epochs: str | None
    digest: Int64 | None
    topic_id: str | None
    open_transactions: Added[list[OpenTransactionRow] | None]


class LogRow(TypedDict):
    """The records of those snapshots. For reason "truncation" only the batches that were cut."""

    run: Int32
    snapshot: Natural32
    node: Broker
    topic: str
    partition: Natural32
    partition_id: Natural32
    offset: Natural64
    leader_epoch: LeaderEpoch | None
    value: Natural64


class PartitionRow(TypedDict):
    """Partitions of the run: the dense id, the assignment (AR), and how the final read of it went. read_to_end: the
    final read reached the end offset that the leader answered; end_offset: that offset. log_start: the earliest offset
    when the final read began. last_stable_offset: at the end of the run."""

    run: Int32
    partition_id: Natural32
    topic: str
    partition: Natural32
    replicas: list[Int32] | None
    read_to_end: bool
    end_offset: Natural64 | None
    note_text: str | None
    log_start_offset: Natural64 | None
    cleanup_policy: str | None
    last_stable_offset: Natural64 | None


class FinalReadRow(TypedDict):
    """What the final read was told and what it fetched again. event: end | stable | again. end: read_uncommitted was
    answered that the log ends at to_offset, first and last asked at invoked_ns and answered at completed_ns;
    from_offset: how far the reader had come when this answer was last given. node: the leader that the client knew, if
    any. stable: the same of read_committed, which is answered the last stable offset. again: offsets from_offset to
    to_offset - 1 were fetched once more at their place between invoked_ns and completed_ns, since `known` offsets in
    it, acknowledged or read before, had not been returned when the final read came to its end at since_ns; found: how
    many of these came. Runs sealed before there was this table lack it."""

    run: Int32
    topic: str
    partition: Natural32
    event: FinalReadEvent
    process: Natural32 | None
    node: Broker | None
    leader_epoch: LeaderEpoch | None
    since_ns: Nanoseconds | None
    invoked_ns: Nanoseconds
    completed_ns: Nanoseconds
    from_offset: Natural64
    to_offset: Natural64
    known: Natural64 | None
    found: Natural64 | None


class ProgressRow(TypedDict):
    """What clients got after the last heal, when each partition and each group was asked for it: one row per client or
    group, thing and partition. age: old, a client of the load; fresh, one that began after the load's had stopped.
    what: write, an answer to acks=all (old: to the load's own acks); membership, a group's member was given the
    partition; read, a record of it came; stable, the last stable offset (offset) passed the fresh write. outcome: done
    | refused (of `error`, with Kafka's `code` if a broker answered one) | unanswered | not_asked (for `reason`).
    asked_ns, until_ns: from the first asking to the answer, or to the end of the asking. leader, isr: as last seen when
    it was over. A fresh client's write is no record of the run: it comes after all that is judged was read, and stands
    nowhere else. Runs sealed before there was this table lack it."""

    run: Int32
    age: Age
    what: AskedFor
    topic: str
    partition: Natural32
    client: str | None
    group: str | None
    outcome: AskOutcome
    reason: WhyNotAsked | None
    error: str | None
    code: Int16 | None
    asked_ns: Nanoseconds
    until_ns: Nanoseconds
    offset: Natural64 | None
    leader: Broker | None
    isr: list[Int32] | None


FAULTS = RowsOf("faults", FaultRow)
DISK_EVENTS = RowsOf("disk_events", DiskEventRow)
STEPS = RowsOf("steps", StepRow)
PARTITION_STATES = RowsOf("partition_states", PartitionStateRow)
TOPICS = RowsOf("topics", TopicRow)
CONTROLLERS = RowsOf("controllers", ControllerRow)
BROKER_EVENTS = RowsOf("broker_events", BrokerEventRow)
NODE_ENDS = RowsOf("node_ends", NodeEndRow)
CONFIGURATION = RowsOf("configuration", ConfigurationRow)
REPLICA_SNAPSHOTS = RowsOf("replica_snapshots", SnapshotRow)
REPLICA_LOG = RowsOf("replica_log", LogRow)
PARTITIONS = RowsOf("partitions", PartitionRow)
FINAL_READS = RowsOf("final_reads", FinalReadRow)
PROGRESS = RowsOf("progress", ProgressRow)
