"""The tables of what coordinators keep of groups and transactions, in Kafka's internal topics.

They are apart from the tables of the scenario's topics, so that nobody takes an internal topic for one of these.
`internal_partition_states` has the columns of `partition_states`: leader, ISR and epochs of those partitions of
__consumer_offsets and __transaction_state that the run's groups and transactional ids belong to (internal_topics.py);
`internal_broker_events` has those of `broker_events`: what brokers told of the same partitions.
Runs that were sealed before there were these tables lack them: nothing is known then.
"""

from typing import Literal, TypedDict

from harness.history.schema.cluster_rows import BrokerEventRow, PartitionStateRow
from harness.history.schema.column_types import Broker, Int32, Int64, LeaderEpoch, Nanoseconds, Natural32, Natural64
from harness.history.schema.typed_rows import RowsOf

OffsetsKind = Literal["offset", "group", "group_epoch", "assignment_epoch", "member_epoch", "marker", "other"]
TransactionState = Literal[
    "Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead", "PrepareEpochFence"
]


class InternalSnapshotRow(TypedDict):
    """Replicas of those partitions, as they were read: before each wipe, and at the end. kept_from: the first offset of
    which records are in the next two tables; of a long log only the newest are."""

    run: Int32
    snapshot: Natural32
    node: Broker
    time_ns: Nanoseconds
    reason: Literal["wipe", "end"]
    topic: str
    partition: Natural32
    log_start_offset: Natural64
    high_watermark: Natural64 | None
    log_end_offset: Natural64
    leader_epochs: str
    topic_id: str | None
    kept_from: Natural64


class ConsumerOffsetsRow(TypedDict):
    """Their records, each once: in those snapshots. time_ns: when the broker wrote it, by its clock. producer_id,
    producer_epoch, transactional: of its batch (an offset that was sent to a transaction counts only when a marker of
    its producer has committed it). kind: offset (of group, topic and topic_partition) | group (its generation and
    members; classic protocol) | group_epoch | assignment_epoch | member_epoch (KIP-848; generation has the epoch) |
    marker (commits: or aborts) | other. removed: a tombstone."""

    run: Int32
    snapshots: list[Int32]
    partition: Natural32
    offset: Natural64
    leader_epoch: LeaderEpoch | None
    time_ns: Nanoseconds | None
    producer_id: Int64 | None
    producer_epoch: Int32 | None
    transactional: bool
    kind: OffsetsKind
    removed: bool
    group: str | None
    topic: str | None
    topic_partition: Int32 | None
    committed_offset: Int64 | None
    committed_leader_epoch: Int32 | None
    commit_ns: Nanoseconds | None
    expire_ns: Nanoseconds | None
    generation: Int32 | None
    member: str | None
    members: list[str] | None
    commits: bool | None


class PlaceRow(TypedDict):
    topic: str
    partition: Int32


class TransactionStateRow(TypedDict):
    """state: as Kafka calls it: Empty | Ongoing | PrepareCommit | PrepareAbort | CompleteCommit | CompleteAbort | Dead
    | PrepareEpochFence. begun_ns: when the transaction began, by the broker's clock."""

    run: Int32
    snapshots: list[Int32]
    partition: Natural32
    offset: Natural64
    leader_epoch: LeaderEpoch | None
    time_ns: Nanoseconds | None
    transactional_id: str | None
    removed: bool
    producer_id: Int64 | None
    producer_epoch: Int32 | None
    state: TransactionState | None
    timeout_ms: Int32 | None
    begun_ns: Nanoseconds | None
    partitions: list[PlaceRow] | None


INTERNAL_STATES = RowsOf("internal_partition_states", PartitionStateRow)
INTERNAL_EVENTS = RowsOf("internal_broker_events", BrokerEventRow)
INTERNAL_SNAPSHOTS = RowsOf("internal_replica_snapshots", InternalSnapshotRow)
CONSUMER_OFFSETS = RowsOf("consumer_offsets", ConsumerOffsetsRow)
TRANSACTION_STATE = RowsOf("transaction_state", TransactionStateRow)
