"""What a row of each table about the cluster and what was done to it holds (schemas.py says what the columns mean).

A column is `X | None` where it may be null by `lawful_rows.REQUIRED`; a test holds every type against its schema.
`run` is numbered by whoever reads.
"""

from typing import Literal, TypedDict

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
    """schemas.LINK"""

    source: int | None
    client: int | None
    target: int


class FaultRow(TypedDict):
    run: int
    fault: int
    kind: str
    label_text: str | None
    nodes: list[int]
    links: list[LinkRow] | None
    proved: bool | None
    trigger_text: str | None
    asked_ns: int | None
    begin_ns: int | None
    end_asked_ns: int | None
    end_ns: int | None
    proof_text: str | None
    healed_proof_text: str | None
    step: int | None
    planned_ns: int | None
    scheduled: int | None


class DiskEventRow(TypedDict):
    run: int
    node: int
    time_ns: int
    fault: int | None
    extent: str
    topic: str | None
    partition: int | None
    from_offset: int | None
    to_offset: int | None


class StepRow(TypedDict):
    run: int
    step: int
    kind: StepKind
    act: str | None
    step_text: str
    begin_ns: int | None
    end_ns: int | None
    outcome: StepOutcome
    seen_text: str | None
    arguments: str | None


class PartitionStateRow(TypedDict):
    run: int
    topic: str
    partition: int
    time_ns: int
    uncertainty_ns: int | None
    exact: bool
    observer: int
    leader: int
    leader_epoch: int
    partition_epoch: int | None
    controller_epoch: int | None
    isr: list[int]
    isr_before: list[int] | None
    leader_before: int | None
    unclean: bool | None
    replicas: list[int] | None
    elr: list[int] | None
    topic_id: str | None


class TopicRow(TypedDict):
    run: int
    topic: str
    name: str
    topic_id: str | None
    created_ns: int | None
    deleted_ns: int | None
    uncertainty_ns: int | None
    undecided: bool


class ControllerRow(TypedDict):
    run: int
    time_ns: int
    uncertainty_ns: int | None
    node: int
    controller_epoch: int | None


class BrokerEventRow(TypedDict):
    run: int
    node: int
    time_ns: int
    event: str
    topic: str | None
    partition: int | None
    leader_epoch: int | None
    from_offset: int | None
    to_offset: int | None
    reason_text: str | None
    detail_text: str | None


class NodeEndRow(TypedDict):
    run: int
    node: int
    time_ns: int
    uncertainty_ns: int | None
    exit_status: int | None
    signal: int | None
    reason: EndReason | None
    line_text: str | None
    back_ns: int | None
    fresh: bool | None


class ConfigurationRow(TypedDict):
    run: int
    time_ns: int
    scope: str
    name: str | None
    node: int | None
    key: str
    value: str | None
    source: str | None


class OpenTransactionRow(TypedDict):
    """schemas.OPEN_TRANSACTION"""

    producer_id: int
    producer_epoch: int
    first_offset: int
    last_offset: int
    begun_ms: int


class SnapshotRow(TypedDict):
    run: int
    snapshot: int
    node: int
    time_ns: int
    reason: SnapshotReason
    topic: str
    partition: int
    log_start_offset: int | None
    high_watermark: int | None
    log_end_offset: int
    leader_epochs: str | None
    digest: int | None
    topic_id: str | None
    open_transactions: list[OpenTransactionRow] | None


class LogRow(TypedDict):
    run: int
    snapshot: int
    node: int
    topic: str
    partition: int
    partition_id: int
    offset: int
    leader_epoch: int | None
    value: int


class PartitionRow(TypedDict):
    run: int
    partition_id: int
    topic: str
    partition: int
    replicas: list[int] | None
    read_to_end: bool
    end_offset: int | None
    note_text: str | None
    log_start_offset: int | None
    cleanup_policy: str | None
    last_stable_offset: int | None


class FinalReadRow(TypedDict):
    run: int
    topic: str
    partition: int
    event: FinalReadEvent
    process: int | None
    node: int | None
    leader_epoch: int | None
    since_ns: int | None
    invoked_ns: int
    completed_ns: int
    from_offset: int
    to_offset: int
    known: int | None
    found: int | None


class ProgressRow(TypedDict):
    run: int
    age: Age
    what: AskedFor
    topic: str
    partition: int
    client: str | None
    group: str | None
    outcome: AskOutcome
    reason: WhyNotAsked | None
    error: str | None
    code: int | None
    asked_ns: int
    until_ns: int
    offset: int | None
    leader: int | None
    isr: list[int] | None


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
