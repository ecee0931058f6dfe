"""Throughput and latency over the run, from the recorded bins: bars per second, and lines on a log scale.

A stall of seconds and a quiet millisecond both stay visible. Where nothing was answered there is no latency, so the
lines break there instead of running across.
"""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

from harness.history.schema.client_rows import BINS, BinRow
from reports.model import Bar, Chart
from reports.run_data import RunData, count_of

_FLOOR_NS = 5e5
_TOP_SHARE = 95.0  # the highest latency stands a little below the edge
_DECADES_NS = (1e6, 1e7, 1e8, 1e9, 1e10, 1e11)
_TICK_DISTANCE = 19.0  # percent of the height, below which two labels would touch
Point = tuple[float, float]


def chart_tops(data: RunData) -> tuple[float, int]:
    """The highest rate and latency of the run, for a scale that may be shared."""
    bins = data.rows(BINS)
    rate = max((_rate(row) for row in bins), default=0.0) or 1.0
    return rate, max((row["p99_ns"] or 0 for row in bins), default=0) or 1


def _rate(row: BinRow) -> float:
    return float((row["ok"] + row["info"] + row["fail"]) * 1e9 / row["width_ns"])


def chart_of(data: RunData, tops: tuple[float, int] | None = None) -> Chart:
    top, latest = tops or chart_tops(data)
    bins = sorted(data.rows(BINS), key=lambda row: row["time_ns"])
    return Chart(
        bars=[_bar(data, row, 100e9 / row["width_ns"] / top) for row in bins],
        p50=latency_lines(data, bins, "p50_ns", latest),
        p99=latency_lines(data, bins, "p99_ns", latest),
        records_max=f"{count_of(round(top))}/s",
        latency_max=_duration(latest),
        latency_ticks=_latency_ticks(latest),
    )


def _bar(data: RunData, row: BinRow, share: float) -> Bar:
    at = data.seconds(row["time_ns"]) or 0.0
    return Bar(
        x=round(at, 3),
        width=round(row["width_ns"] / 1e9, 3),
        ok=round(row["ok"] * share, 2),
        info=round(row["info"] * share, 2),
        fail=round(row["fail"] * share, 2),
        title=f"{at:.1f} s: {row['ok']} acknowledged, {row['info']} indeterminate, {row['fail']} refused",
    )


def latency_lines(data: RunData, bins: Sequence[BinRow], name: Literal["p50_ns", "p99_ns"], top: int) -> list[str]:
    """One polyline per stretch of neighbouring bins with answers; a lone bin is as wide as it lasted."""
    stretches: list[list[Point]] = []
    end: int | None = None
    for row in bins:
        latency_ns = row[name]
        if latency_ns is None:
            continue
        begin, width = data.seconds(row["time_ns"]) or 0.0, row["width_ns"] / 1e9
        height = 100 - _log_height(latency_ns, top)
        if end is None or row["time_ns"] > end + row["width_ns"] // 2:
            stretches.append([(begin, height)])
        stretches[-1] += [(begin + width / 2, height), (begin + width, height)]
        end = row["time_ns"] + row["width_ns"]
    return [_polyline(points) for points in stretches]


def _polyline(points: Sequence[Point]) -> str:
    """Through the middles of the bins, from the first one's begin to the last one's end."""
    middles = points[1:-1:2] if len(points) > 1 else ()
    kept = [points[0], *middles, points[-1]]
    return " ".join(f"{at:.3f},{height:.2f}" for at, height in kept)


def _log_height(nanoseconds: float, top: int) -> float:
    if nanoseconds <= _FLOOR_NS or top <= _FLOOR_NS:
        return 0.0
    return _TOP_SHARE * math.log(nanoseconds / _FLOOR_NS) / math.log(max(top, _FLOOR_NS * 10) / _FLOOR_NS)


def _latency_ticks(top: int) -> list[tuple[str, float]]:
    """(label, percent from above): the powers of ten, and the highest latency where it stands clear of them."""
    marks = [(_duration(value), round(100 - _log_height(value, top), 1)) for value in _DECADES_NS if value <= top]
    highest = (_duration(top), round(100 - _log_height(top, top), 1))
    if all(abs(share - highest[1]) >= _TICK_DISTANCE for _, share in marks):
        marks.append(highest)
    clear = all(abs(one[1] - other[1]) >= _TICK_DISTANCE for one, other in pairwise(marks))
    return marks if clear else marks[::2]


def _duration(nanoseconds: float) -> str:
    if nanoseconds < 1e9:
        return f"{nanoseconds / 1e6:.0f} ms"
    return f"{nanoseconds / 1e9:.1f} s".replace(".0 s", " s")


def ticks(begin: float, end: float) -> list[float]:
    width = end - begin
    step = next(step for step in (0.1, 0.5, 1, 2, 5, 10, 30, 60, 300, 1800, 1e9) if width / step <= 14)
    return [round(number * step, 3) for number in range(math.ceil(begin / step), math.floor(end / step) + 1)]
