"""What goes into a partition and what comes out: settings, results, the follower's place in its leader's log."""

from dataclasses import dataclass, field
from enum import Enum, auto

from reference_impl.core.identifiers import UNDEFINED_EPOCH, UNKNOWN_OFFSET, ErrorCode
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


@dataclass(frozen=True, kw_only=True)
class AppendResult:
    """required_offset is last offset + 1: an acks=all produce waits for the high watermark to reach it (1.5)."""

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


@dataclass(frozen=True, kw_only=True)
class FetchPosition:
    """What a follower asks of its leader, and the stamp its answer is matched by (KAFKA-18991)."""

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
    """What became of a fetch response."""

    APPENDED = auto()
    TRUNCATED = auto()  # diverged: fetch again at once
    NOTHING = auto()  # no records; the high watermark may have moved
    STALE = auto()  # answers a question no longer asked: ignored
    RETRY_LATER = auto()
    FAILED = auto()  # no more fetching until a newer leader epoch arrives
    OUT_OF_RANGE = auto()  # ask the leader's log range, then truncate_out_of_range
