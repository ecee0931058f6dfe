"""Decides which segments of a log expire: by age, by size, or because they are below the log start.

Only whole segments are deleted, the oldest first, and none that reaches above the high watermark (docs/replication.md
R54). As in Kafka every replica decides for itself, and the leader's log start also moves its followers'. An expired
active segment is included; whoever deletes it rolls a new segment first.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

UNLIMITED = -1


@dataclass(frozen=True, kw_only=True)
class RetentionSettings:
    """retention.ms and retention.bytes; by default everything is kept."""

    retention_ms: int = UNLIMITED
    retention_bytes: int = UNLIMITED


@dataclass(frozen=True, kw_only=True)
class SegmentView:
    base_offset: int
    next_offset: int
    size: int
    first_timestamp_ms: int  # of its first batch; without timestamps, as the next
    largest_timestamp_ms: int  # largest timestamp of its records; without timestamps, the time of the last write


@dataclass(frozen=True, kw_only=True)
class Expired:
    """The number of oldest segments to delete, and the settings that require it."""

    count: int
    reasons: tuple[str, ...]


def expired(
    segments: Sequence[SegmentView],
    *,
    log_start_offset: int,
    high_watermark: int,
    settings: RetentionSettings,
    wall_clock_ms: float,
) -> Expired:
    assert segments, "a log has at least its active segment"
    assert log_start_offset >= 0
    assert high_watermark >= 0
    left = list(segments)
    reasons = []
    begins = [segment.base_offset for segment in segments[1:]]

    def go(reason: str, predicate: Callable[[SegmentView], bool]) -> None:
        count = 0
        while left and _is_committed(left[0], high_watermark, is_last=len(left) == 1) and predicate(left[0]):
            del left[0]
            count += 1
        if count:
            reasons.append(reason)

    def is_below_start(segment: SegmentView) -> bool:
        following = len(segments) - len(left)
        return following < len(begins) and begins[following] <= log_start_offset

    go("log start offset", is_below_start)
    if settings.retention_bytes >= 0:
        surplus = sum(segment.size for segment in left) - settings.retention_bytes

        def is_surplus(segment: SegmentView) -> bool:
            nonlocal surplus
            if surplus < segment.size:
                return False
            surplus -= segment.size
            return True

        go("retention.bytes", is_surplus)
    if settings.retention_ms >= 0:
        oldest_kept_ms = wall_clock_ms - settings.retention_ms
        go("retention.ms", lambda segment: segment.largest_timestamp_ms < oldest_kept_ms)
    return Expired(count=len(segments) - len(left), reasons=tuple(reasons))


def _is_committed(segment: SegmentView, high_watermark: int, *, is_last: bool) -> bool:
    """An empty active segment is not deleted: it contains nothing."""
    return segment.next_offset <= high_watermark and not (is_last and segment.size == 0)
