"""Measures: one number per run, held against each other column by column.

Two columns differ only when their medians are further apart than the repeats of either spread, and no run of the one
lies among the runs of the other; or when something that is counted happened in every run of the one and in none of the
other, however often. With a single run a spread is not known, and that is said instead.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import median
from typing import Literal

from reports.comparison.model import Cell, Kind
from reports.run_data import count_of

Unit = Literal["s", "ms", "records", "records/s", "times"]


@dataclass(frozen=True, kw_only=True)
class Measure:
    """values: per column those of the runs that count. resolution: what the recording cannot tell apart."""

    key: str
    name: str
    unit: Unit
    values: Sequence[Sequence[float]]
    resolution: float = 0.0
    about: Literal["", "leader", "silence"] = ""  # of a fault: what its seconds are counted until
    starred: Sequence[bool] = ()  # per column: a percentile of too few records is the highest of them


@dataclass(frozen=True, kw_only=True)
class Compared:
    kind: Kind
    spread: float  # the widest range within one column
    medians: Sequence[float | None]

    @property
    def apart(self) -> float:
        known = [each for each in self.medians if each is not None]
        return max(known) - min(known) if known else 0.0


def compare(measure: Measure) -> Compared:
    medians = [median(values) if values else None for values in measure.values]
    known = [values for values in measure.values if values]
    spread = max((max(values) - min(values) for values in known), default=0.0)
    kind: Kind
    if len(known) < 2:
        kind = "unknown"
    elif all(value == known[0][0] for values in known for value in values):
        kind = "same"
    elif any(_differ(measure, one, other) for one, other in combinations(known, 2)):
        kind = "differs"
    elif min(len(values) for values in known) < 2:
        kind = "unknown"
    else:
        kind = "within"
    return Compared(kind=kind, spread=spread, medians=medians)


def mark(measure: Measure) -> Kind | Literal[""]:
    """How the columns compare, for a table; nothing where only one of them has such a number."""
    return compare(measure).kind if sum(bool(values) for values in measure.values) > 1 else ""


def _differ(measure: Measure, one: Sequence[float], other: Sequence[float]) -> bool:
    if min(len(one), len(other)) < 2:
        return False
    if always_or_never(measure, one, other):
        return True
    spread = max(max(one) - min(one), max(other) - min(other), measure.resolution)
    disjoint = max(one) < min(other) or max(other) < min(one)
    return disjoint and abs(median(one) - median(other)) > spread


def always_or_never(measure: Measure, one: Sequence[float], other: Sequence[float]) -> bool:
    """Whether it happened in every run of the one and in no run of the other."""
    low, high = sorted((one, other), key=max)
    return measure.unit in ("records", "times") and max(low) == 0 < min(high)


# ---- numbers as text ------------------------------------------------------------------------------------------------


def number(value: float, unit: Unit) -> str:
    """With its unit, in as many digits as it deserves."""
    return "".join(_parts(value, unit))


def _parts(value: float, unit: Unit) -> tuple[str, str]:
    """(the digits, the unit behind them)"""
    if unit == "ms" and value >= 1000:
        return _short(value / 1e3), " s"
    if unit in ("s", "ms"):
        return _short(value), f" {unit}"
    if unit == "records/s":
        return _short(value) if value < 100 else count_of(round(value)), "/s"
    return count_of(round(value)), ""


def _short(value: float) -> str:
    if value >= 99.95:
        return count_of(round(value))
    return f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"


def is_shown_as_zero(value: float, unit: Unit) -> bool:
    return number(value, unit) == number(0.0, unit)


def span(values: Sequence[float], unit: Unit) -> str:
    """The range of the repeats, or "" when they are all the same as they are shown."""
    if not values:
        return ""
    (low, low_unit), (high, high_unit) = _parts(min(values), unit), _parts(max(values), unit)
    if (low, low_unit) == (high, high_unit):
        return ""
    return f"{low}{'' if low_unit == high_unit else low_unit}–{high}{high_unit}"


def cell(measure: Measure, column: int, *, tone: Literal["", "perm", "viol"] = "") -> Cell:
    values = measure.values[column]
    if not values:
        return Cell(text="–", spread="", tone="zero")
    middle = median(values)
    star = "*" if measure.starred and measure.starred[column] else ""
    shade: Literal["", "perm", "viol", "zero"] = (tone if max(values) > 0 else "zero") if tone else ""
    return Cell(text=number(middle, measure.unit) + star, spread=span(values, measure.unit), tone=shade)
