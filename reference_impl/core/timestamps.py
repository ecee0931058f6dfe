"""Whose time a topic's records carry, and which producers' times a leader refuses (KIP-32, KIP-937)."""

from dataclasses import dataclass

from reference_impl.wire.record_batches import BatchHeader, Buffer
from reference_impl.wire.record_timestamps import NO_TIMESTAMP, record_times

NO_LIMIT_MS = 2**63 - 1


@dataclass(frozen=True, kw_only=True)
class TimestampSettings:
    """message.timestamp.type and the two limits of a producer's time, measured from the leader's clock."""

    is_log_append_time: bool = False
    before_max_ms: int = NO_LIMIT_MS
    after_max_ms: int = NO_LIMIT_MS


def is_refused(batch: Buffer, header: BatchHeader, settings: TimestampSettings, wall_clock_ms: int) -> bool:
    """Only a leader may call a time the append time. Where it does, the producer's own times do not matter."""
    if header.has_log_append_time:
        return True
    if settings.is_log_append_time or header.max_timestamp == NO_TIMESTAMP:
        return False
    if header.max_timestamp - wall_clock_ms > settings.after_max_ms:
        return True
    if settings.before_max_ms == NO_LIMIT_MS:
        return False  # the usual case: no record need be decoded
    oldest = min((time for _, time in record_times(batch, header) if time != NO_TIMESTAMP), default=wall_clock_ms)
    return wall_clock_ms - oldest > settings.before_max_ms
