"""What a row of each table of Kafka's internal topics holds (internal_schemas.py says what the columns mean)."""

from typing import Literal, TypedDict

from harness.history.schema.cluster_rows import PartitionStateRow
from harness.history.schema.typed_rows import RowsOf

OffsetsKind = Literal["offset", "group", "group_epoch", "assignment_epoch", "member_epoch", "marker", "other"]
TransactionState = Literal[
    "Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead", "PrepareEpochFence"
]


class InternalSnapshotRow(TypedDict):
    run: int
    snapshot: int
    node: int
    time_ns: int
    reason: Literal["wipe", "end"]
    topic: str
    partition: int
    log_start_offset: int
    high_watermark: int | None
    log_end_offset: int
    leader_epochs: str
    topic_id: str | None
    kept_from: int


class ConsumerOffsetsRow(TypedDict):
    run: int
    snapshots: list[int]
    partition: int
    offset: int
    leader_epoch: int | None
    time_ns: int | None
    producer_id: int | None
    producer_epoch: int | None
    transactional: bool
    kind: OffsetsKind
    removed: bool
    group: str | None
    topic: str | None
    topic_partition: int | None
    committed_offset: int | None
    committed_leader_epoch: int | None
    commit_ns: int | None
    expire_ns: int | None
    generation: int | None
    member: str | None
    members: list[str] | None
    commits: bool | None


class PlaceRow(TypedDict):
    """internal_schemas.PLACE"""

    topic: str
    partition: int


class TransactionStateRow(TypedDict):
    run: int
    snapshots: list[int]
    partition: int
    offset: int
    leader_epoch: int | None
    time_ns: int | None
    transactional_id: str | None
    removed: bool
    producer_id: int | None
    producer_epoch: int | None
    state: TransactionState | None
    timeout_ms: int | None
    begun_ns: int | None
    partitions: list[PlaceRow] | None


INTERNAL_STATES = RowsOf("internal_partition_states", PartitionStateRow)
INTERNAL_SNAPSHOTS = RowsOf("internal_replica_snapshots", InternalSnapshotRow)
CONSUMER_OFFSETS = RowsOf("consumer_offsets", ConsumerOffsetsRow)
TRANSACTION_STATE = RowsOf("transaction_state", TransactionStateRow)
