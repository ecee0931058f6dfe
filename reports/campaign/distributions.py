"""Distributions of what faults did, by fault and system: one axis for each measure, a box and dots for each pair.

Bounded: a pair with many values shows those outside its whiskers and an even choice of the others, and says its
median and number of all of them.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from reports.campaign.data import CampaignData
from reports.campaign.model import Distribution, Dot, Measure, RunLink
from reports.comparison.measures import Unit, number
from reports.run_data import count_of
from reports.scale import Scale

DOTS_MAX = 60  # of one pair of fault and system
PAIRS_MAX = 60  # drawn of one measure
T = TypeVar("T")
_ROWS_OF_DOTS = (14.0, 10.0, 18.0, 12.0, 16.0)


@dataclass(frozen=True, kw_only=True)
class Value:
    """Of one fault of one run. open: it never ended, at least so much."""

    run: int
    fault: str
    system: str
    value: float
    open: bool


Link = Callable[[Value], RunLink]
_MEASURES: Sequence[tuple[str, str, str, Unit]] = (
    (
        "recovery",
        "Recovery time",
        "Until the last partition that had taken no writes for more than a second took them again; faults that stopped "
        "none have no value.",
        "s",
    ),
    (
        "gap",
        "Availability gap",
        "The longest time without an acknowledgement in any one partition, from the fault until the next one.",
        "s",
    ),
    ("throughput", "Throughput", "Records acknowledged per second while the fault was in force.", "records/s"),
)


def measures(campaigns: Sequence[tuple[str, CampaignData]], link: Link) -> list[Measure]:
    """Those that have a value. campaigns: each with its letter, which stands behind the names of its systems."""
    values: Mapping[str, list[Value]] = {key: [] for key, *_ in _MEASURES}
    for letter, data in campaigns:
        for each in data.measures:
            known = {
                "recovery": (each.recovery_s, each.recovery_open),
                "gap": (each.gap_s, each.gap_open),
                "throughput": (each.throughput, False),
            }
            system = f"{each.system} · {letter}" if letter else each.system
            for key, (value, never) in known.items():
                if value is not None:
                    values[key].append(Value(run=each.run, fault=each.fault, system=system, value=value, open=never))
    made = (_measure(key, title, meaning, unit, values[key], link) for key, title, meaning, unit in _MEASURES)
    return [each for each in made if each is not None]


def _measure(key: str, title: str, meaning: str, unit: Unit, values: Sequence[Value], link: Link) -> Measure | None:
    """None without a value."""
    if not values:
        return None
    pairs: dict[tuple[str, str], list[Value]] = defaultdict(list)
    for each in values:
        pairs[each.fault, each.system].append(each)
    drawn = _most(pairs)
    scale = Scale([each.value for each in values], unit="seconds" if unit == "s" else "records per second")
    rows = [_row(pairs[pair], scale, unit, link, first=_is_first(drawn, place)) for place, pair in enumerate(drawn)]
    return Measure(
        key=key,
        title=title,
        meaning=meaning,
        scale=scale.words,
        ticks=scale.ticks(),
        rows=rows,
        hidden=len(pairs) - len(drawn),
    )


def _most(pairs: Mapping[tuple[str, str], Sequence[Value]]) -> list[tuple[str, str]]:
    """The pairs with the most values, sorted by name."""
    by_count = sorted(pairs, key=lambda pair: (-len(pairs[pair]), pair))
    return sorted(by_count[:PAIRS_MAX])


def _is_first(drawn: Sequence[tuple[str, str]], place: int) -> bool:
    return place == 0 or drawn[place - 1][0] != drawn[place][0]


def _row(values: Sequence[Value], scale: Scale, unit: Unit, link: Link, *, first: bool) -> Distribution:
    low, lower, middle, upper, high = (
        float(each) for each in np.percentile([each.value for each in values], (5, 25, 50, 75, 95))
    )
    never = sum(each.open for each in values)
    extreme = max(values, key=lambda each: (each.open, each.value, -each.run))
    if unit == "records/s":
        extreme = min(values, key=lambda each: (each.value, each.run))
    return Distribution(
        fault=values[0].fault,
        system=values[0].system,
        first=first,
        count=len(values),
        dots=[_dot(each, place, scale, unit) for place, each in enumerate(_shown(values, low, high))],
        low=scale.at(low),
        lower=scale.at(lower),
        median=scale.at(middle),
        upper=scale.at(upper),
        high=scale.at(high),
        text=f"{'≥ ' if 2 * never > len(values) else ''}{number(middle, unit)}",
        spread=f"n {count_of(len(values))}" + (f", {count_of(never)} never ended" if never else ""),
        extreme=link(extreme),
        open=never,
    )


def _shown(values: Sequence[Value], low: float, high: float) -> list[Value]:
    """All if these are few, else those outside the whiskers first; in the order of the runs."""
    if len(values) <= DOTS_MAX:
        return sorted(values, key=lambda each: each.run)
    outside = [each for each in values if each.open or not low <= each.value <= high]
    inside = sorted((each for each in values if not each.open and low <= each.value <= high), key=_by_value)
    outside = even(sorted(outside, key=_by_value), DOTS_MAX // 2)
    return sorted([*outside, *even(inside, DOTS_MAX - len(outside))], key=lambda each: each.run)


def _by_value(each: Value) -> tuple[float, int]:
    return each.value, each.run


def even(values: Sequence[T], wanted: int) -> list[T]:
    """So many of them, evenly, both ends among them."""
    if len(values) <= wanted:
        return list(values)
    return [values[round(place * (len(values) - 1) / (wanted - 1))] for place in range(wanted)]


def _dot(each: Value, place: int, scale: Scale, unit: Unit) -> Dot:
    return Dot(
        run=each.run,
        at=scale.at(each.value),
        y=_ROWS_OF_DOTS[place % len(_ROWS_OF_DOTS)],
        title=f"run {each.run}: {'at least ' if each.open else ''}{number(each.value, unit)}",
        open=each.open,
    )
