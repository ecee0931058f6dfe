"""Inputs and results of a partition: settings, append and read results, the follower's fetch position."""

from dataclasses import dataclass, field
from enum import Enum, auto

from reference_impl.core.cleaning.compaction import CompactionSettings
from reference_impl.core.identifiers import UNDEFINED_EPOCH, UNKNOWN_OFFSET, ErrorCode
from reference_impl.core.log_transactions import AbortedTransaction
from reference_impl.core.retention import RetentionSettings
from reference_impl.core.timestamps import TimestampSettings


@dataclass(frozen=True, kw_only=True)
class PartitionSettings:
    """The effective configuration of one partition; replaced as a whole when a topic override changes."""

    min_insync_replicas: int
    replica_lag_time_max_ms: int
    unclean_leader_election_enable: bool
    max_message_bytes: int
    retention: RetentionSettings = field(default_factory=RetentionSettings)
    timestamps: TimestampSettings = field(default_factory=TimestampSettings)
    compaction: CompactionSettings | None = None  # None: cleanup.policy has no "compact"
    deletes: bool = True  # cleanup.policy has "delete"
    verifies_transactions: bool = False  # KIP-890
    validate_records: bool = False  # Kafka always does this; here it is a setting (docs/batches.md)

    @property
    def looks_inside(self) -> bool:
        """True if a leader must decode the records of a batch, beyond its header."""
        return self.validate_records or self.timestamps.bound_every_record or self.compaction is not None


class Origin(Enum):
    """Who appends."""

    CLIENT = auto()
    TRANSACTION = auto()  # a client whose request names a transactional id
    ADDED = auto()  # the same, and its transactions have an epoch each: the leader adds the partition (KIP-890)
    COORDINATOR = auto()  # it writes for producers, without their sequence numbers


@dataclass(frozen=True, kw_only=True)
class AppendResult:
    """required_offset is the last offset + 1: an acks=all produce waits until the high watermark reaches it (R9)."""

    error: ErrorCode
    base_offset: int = UNKNOWN_OFFSET
    required_offset: int = UNKNOWN_OFFSET
    leader_epoch: int = UNDEFINED_EPOCH
    log_start_offset: int = UNKNOWN_OFFSET
    log_append_time_ms: int = -1  # -1: the batch keeps the producer's CreateTime
    duplicate: bool = False


@dataclass(frozen=True, kw_only=True)
class ReadResult:
    error: ErrorCode
    records: bytes = b""
    high_watermark: int = UNKNOWN_OFFSET
    log_start_offset: int = UNKNOWN_OFFSET
    last_stable_offset: int = UNKNOWN_OFFSET
    diverging: tuple[int, int] | None = None  # (epoch, end offset): the reader must truncate first (KIP-595)
    aborted: tuple[AbortedTransaction, ...] = ()  # for a reader of committed records (R69)


@dataclass(frozen=True, kw_only=True)
class FetchPosition:
    """What a follower requests from its leader, and the stamp that matches the answer to the request (KAFKA-18991)."""

    fetch_offset: int
    last_fetched_epoch: int
    current_leader_epoch: int


@dataclass(frozen=True, kw_only=True)
class FetchedPartition:
    """One partition of a leader's fetch response, as the follower sees it."""

    error: ErrorCode
    records: bytes = b""
    high_watermark: int = UNKNOWN_OFFSET
    log_start_offset: int = UNKNOWN_OFFSET
    diverging: tuple[int, int] | None = None


class Applied(Enum):
    """How a follower handled a fetch response."""

    APPENDED = auto()
    TRUNCATED = auto()  # diverged: fetch again at once
    NOTHING = auto()  # no records; the high watermark may have moved
    STALE = auto()  # answers an outdated request: ignored
    RETRY_LATER = auto()
    FAILED = auto()  # no fetching until a newer leader epoch arrives
    OUT_OF_RANGE = auto()  # request the leader's log range, then call truncate_out_of_range
