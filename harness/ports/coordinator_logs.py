"""What brokers keep of groups and transactions: the logs of Kafka's internal topics, as read from their disks."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from harness.history.schema.internal_rows import OffsetsKind, TransactionState
from harness.host.clock import Anchor
from harness.ports.cluster import NodeId, StoredLog


@dataclass(frozen=True, kw_only=True)
class OffsetsRecord:
    """A record of __consumer_offsets (schemas.py, table consumer_offsets). removed: a tombstone."""

    kind: OffsetsKind
    removed: bool = False
    group: str | None = None
    topic: str | None = None
    topic_partition: int | None = None
    committed_offset: int | None = None
    committed_leader_epoch: int | None = None
    commit_wall_ms: int | None = None
    expire_wall_ms: int | None = None
    generation: int | None = None
    member: str | None = None
    members: tuple[str, ...] | None = None
    commits: bool | None = None


@dataclass(frozen=True, kw_only=True)
class TransactionRecord:
    """A record of __transaction_state (schemas.py, table transaction_state). transactional_id None: unknown to us."""

    transactional_id: str | None
    removed: bool = False
    producer_id: int | None = None
    producer_epoch: int | None = None
    state: TransactionState | None = None
    timeout_ms: int | None = None
    begun_wall_ms: int | None = None
    partitions: tuple[tuple[str, int], ...] | None = None


@dataclass(frozen=True, kw_only=True)
class CoordinatorRecord:
    """A record with its place in the log. producer_id, transactional: of its batch."""

    offset: int
    epoch: int
    wall_ms: int | None
    producer_id: int | None
    producer_epoch: int | None
    transactional: bool
    content: OffsetsRecord | TransactionRecord


@dataclass(frozen=True, kw_only=True)
class CoordinatorLog(StoredLog):
    """One replica of an internal topic's partition. records: from kept_from on, which is above log_start if the log
    is long. anchor: places the brokers' wall clock on the run's axis."""

    kept_from: int
    records: tuple[CoordinatorRecord, ...]
    anchor: Anchor


@runtime_checkable
class ShowsCoordinatorLogs(Protocol):
    def read_coordinator_logs(self, node: NodeId) -> Sequence[CoordinatorLog]: ...  # those that hold any record
