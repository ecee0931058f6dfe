"""Where a number of many nights changed for good.

The method, which the page states too: at each night the median of up to WINDOW nights from it on is held against the
median of up to WINDOW nights before it. It is a change where they are further apart than three times the larger spread
of both sides (the median deviation from the median, times 1.4826) and than a tenth of the earlier median. Of changes
that are nearer to each other than a window, the largest counts.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

WINDOW = 7
LEAST = 3  # nights on each side
_SPREADS = 3.0
_SHARE = 0.1
_TO_DEVIATION = 1.4826


@dataclass(frozen=True, kw_only=True)
class ChangePoint:
    """place: of the first value of the new level; before, after: medians."""

    place: int
    before: float
    after: float


def change_points(values: Sequence[float]) -> list[ChangePoint]:
    """In order. values: a number for each night that has one, oldest first."""
    found: list[tuple[float, ChangePoint]] = []
    for place in range(LEAST, len(values) - LEAST + 1):
        before = np.asarray(values[max(0, place - WINDOW) : place])
        after = np.asarray(values[place : place + WINDOW])
        low, high = float(np.median(before)), float(np.median(after))
        apart = abs(high - low)
        spread = _TO_DEVIATION * max(_deviation(before, low), _deviation(after, high))
        if apart > max(_SPREADS * spread, _SHARE * abs(low)) and apart > 0:
            clear = apart / (spread + float(np.abs(np.concatenate([before - low, after - high])).mean()) + 1e-9)
            found.append((clear, ChangePoint(place=place, before=low, after=high)))
    kept: list[ChangePoint] = []
    for _, change in sorted(found, key=lambda each: -each[0]):
        if all(abs(change.place - other.place) >= WINDOW for other in kept):
            kept.append(change)
    return sorted(kept, key=lambda change: change.place)


def _deviation(values: "np.ndarray[tuple[int, ...], np.dtype[np.float64]]", middle: float) -> float:
    return float(np.median(np.abs(values - middle)))
