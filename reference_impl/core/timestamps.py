"""Record timestamps: whose time a topic's records carry, and which producer timestamps a leader refuses (KIP-32,
KIP-937)."""

from dataclasses import dataclass

from reference_impl.wire.looks import Look
from reference_impl.wire.record_batches import BatchHeader
from reference_impl.wire.record_timestamps import NO_TIMESTAMP

NO_LIMIT_MS = 2**63 - 1


@dataclass(frozen=True, kw_only=True)
class TimestampSettings:
    """message.timestamp.type and the two limits of a producer's timestamp relative to the leader's clock, in ms."""

    is_log_append_time: bool = False
    before_max_ms: int = NO_LIMIT_MS
    after_max_ms: int = NO_LIMIT_MS

    @property
    def bound_every_record(self) -> bool:
        """True if the oldest record matters, which only decoding shows; a header has the largest timestamp only."""
        return not self.is_log_append_time and self.before_max_ms != NO_LIMIT_MS


def is_refused(header: BatchHeader, settings: TimestampSettings, wall_clock_ms: int, look: Look | None) -> bool:
    """Only a leader may set LogAppendTime; with it the producer's timestamps do not matter. Without decoded records the
    header's largest timestamp is checked."""
    if header.has_log_append_time:
        return True
    if settings.is_log_append_time:
        return False
    youngest = header.max_timestamp if look is None else look.youngest
    if youngest != NO_TIMESTAMP and youngest - wall_clock_ms > settings.after_max_ms:
        return True
    return look is not None and look.oldest != NO_TIMESTAMP and wall_clock_ms - look.oldest > settings.before_max_ms
