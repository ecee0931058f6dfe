"""Which segments of a log have had their time: by age, by size, or because the log begins behind them (1.14).

Whole segments go, the oldest first, and none that reaches above the high watermark (KAFKA-5634). Every replica decides
for itself, as in Kafka: the leader's log start then carries its followers along. An active segment that has expired is
among them; whoever deletes it gives the log a new one first.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

UNLIMITED = -1


@dataclass(frozen=True, kw_only=True)
class RetentionSettings:
    """retention.ms and retention.bytes; without further word everything is kept."""

    retention_ms: int = UNLIMITED
    retention_bytes: int = UNLIMITED


@dataclass(frozen=True, kw_only=True)
class SegmentView:
    base_offset: int
    next_offset: int
    size: int
    largest_timestamp_ms: int  # of its records; where they have none, when it was written to last


@dataclass(frozen=True, kw_only=True)
class Expired:
    """How many of the oldest segments go, and the settings that say so."""

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
    """An empty active segment stays: there is nothing in it to delete."""
    return segment.next_offset <= high_watermark and not (is_last and segment.size == 0)
