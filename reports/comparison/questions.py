"""What is asked of every run of a comparison: measures in the order in which a reader wants them, each with its words.

A question is a measure and the words around it: `sentence` makes "reference lost 20 (18–23) acknowledged records" of a
column's label and its numbers. The tables, the dots and the sentences all come from the same questions.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from reports.comparison.columns import Column
from reports.comparison.faults import FaultNumbers
from reports.comparison.measures import Measure, Unit, is_shown_as_zero, number, span
from reports.comparison.numbers import PERCENTILES, RunNumbers

PHASES = {
    "before": "Before the first fault",
    "during": "During the faults",
    "after": "After the last fault",
    "whole": "The whole run",
}
PERCENTILE_NAMES = {"p50": "p50", "p99": "p99", "p999": "p99.9"}
_SAMPLES_FOR = {"p50": 1, "p99": 100, "p999": 1000}


@dataclass(frozen=True, kw_only=True)
class Question:
    """object: what the verb's number counts, one of it and several. again: the verb where it was said before.

    context: what the sentence needs to be understood alone. anchor: the page's section of its numbers.
    """

    measure: Measure
    topic: str
    verb: str
    none: str  # what stands for the value 0
    anchor: str
    object: tuple[str, str] = ("", "")
    tail: str = ""
    again: str | None = None
    context: str = ""

    def sentence(self, label: str, middle: float, values: Sequence[float], *, first: bool) -> str:
        """For example "reference lost 20 (18–23) acknowledged records"; middle: the median of the values."""
        unit = self.measure.unit
        text, spread = number(middle, unit), span(values, unit)
        if is_shown_as_zero(middle, unit) and not spread and self.none:
            return f"{label} {self.none}"
        counted = self.object[0 if round(middle) == 1 and not spread else 1]
        verb = self.verb if first or self.again is None else self.again
        words = (label, verb, text, f"({spread})" if spread else "", counted)
        return " ".join(word for word in words if word) + self.tail


@dataclass(frozen=True, kw_only=True)
class FaultKey:
    """One fault of the scenario, as the runs had it."""

    key: tuple[str, int]
    label: str
    place: str

    @property
    def title(self) -> str:
        return f"{self.place[:1].upper()}{self.place[1:]}: {self.label}"


def _values(columns: Sequence[Column], of: Callable[[RunNumbers], float | None]) -> list[list[float]]:
    values_of_columns = [[of(numbers) for numbers in column.counted] for column in columns]
    return [[value for value in values if value is not None] for values in values_of_columns]


def sums_measure(columns: Sequence[Column], key: str, name: str) -> Measure:
    def of(numbers: RunNumbers) -> float | None:
        return float(numbers.sums[key]) if key in numbers.sums else None

    return Measure(key=key, name=name, unit="records", values=_values(columns, of))


def records(columns: Sequence[Column]) -> list[Question]:
    """Acknowledged and gone, first; then what nobody knows."""
    record = ("acknowledged record", "acknowledged records")
    asked = (
        ("lost_violation", "Lost in violation", "lost", record, ", in violation", "lost none in violation"),
        ("lost_permitted", "Lost, permitted", "lost", record, ", as its configuration permits", "lost none"),
        ("unseen_tail", "Not read at the end", "hid", record, " from the last read", "hid none"),
        ("unreadable", "Unreadable", "kept", record, " that nobody can read", "kept none that nobody can read"),
        (
            "unknown",
            "Indeterminate",
            "left",
            ("record", "records"),
            " without a definite answer",
            "left none unanswered",
        ),
        ("refused", "Refused", "refused", ("record", "records"), "", "refused none"),
    )
    return [
        Question(
            measure=sums_measure(columns, key, topic),
            topic=topic,
            verb=verb,
            object=what,
            tail=tail,
            none=none,
            anchor="acc",
        )
        for key, topic, verb, what, tail, none in asked
    ]


def elections(columns: Sequence[Column]) -> list[Question]:
    asked: tuple[tuple[str, str, Callable[[RunNumbers], float | None]], ...] = (
        ("elections", "election", lambda numbers: numbers.elections),
        ("unclean_elections", "unclean election", lambda numbers: numbers.unclean_elections),
        ("isr_shrinks", "ISR shrink", lambda numbers: numbers.isr_shrinks),
    )
    return [
        Question(
            measure=Measure(key=key, name=f"{name}s", unit="times", values=_values(columns, of)),
            topic=f"{name[:1].upper()}{name[1:]}s",
            verb="had",
            object=(name, f"{name}s"),
            none=f"had no {name}",
            anchor="lanes",
        )
        for key, name, of in asked
    ]


# ---- faults ---------------------------------------------------------------------------------------------------------


def fault_keys(columns: Sequence[Column]) -> list[FaultKey]:
    """All faults of all runs in the order of the plan; labels of the first run that had them."""
    found: dict[tuple[str, int], FaultKey] = {}
    order: dict[tuple[str, int], float] = {}
    for column in columns:
        for run in column.runs:
            for position, fault in enumerate(run.numbers.faults if run.numbers is not None else ()):
                found.setdefault(fault.key, FaultKey(key=fault.key, label=fault.label, place=fault.place))
                order.setdefault(fault.key, position)
    return sorted(found.values(), key=lambda fault: order[fault.key])


def fault_of(numbers: RunNumbers, fault: FaultKey) -> FaultNumbers | None:
    return next((each for each in numbers.faults if each.key == fault.key), None)


def leader_measure(columns: Sequence[Column], fault: FaultKey) -> Measure:
    def of(numbers: RunNumbers) -> float | None:
        own = fault_of(numbers, fault)
        return own.leader_s if own is not None else None

    every = [fault_of(numbers, fault) for column in columns for numbers in column.counted]
    resolution = max((2 * own.leader_uncertainty_s for own in every if own is not None), default=0.0)
    return Measure(
        key=f"leader/{fault.place}",
        name="new leader",
        unit="s",
        about="leader",
        values=_values(columns, of),
        resolution=resolution,
    )


def silence_measure(columns: Sequence[Column], fault: FaultKey) -> Measure:
    def of(numbers: RunNumbers) -> float | None:
        own = fault_of(numbers, fault)
        return own.silent_s if own is not None else None

    return Measure(
        key=f"silence/{fault.place}", name="no writes", unit="s", about="silence", values=_values(columns, of)
    )


def silence_before_measure(columns: Sequence[Column]) -> Measure:
    values = _values(columns, lambda numbers: numbers.silence_before_s)
    return Measure(key="silence/before", name="no writes", unit="s", about="silence", values=values)


def availability(columns: Sequence[Column]) -> list[Question]:
    asked = []
    for fault in fault_keys(columns):
        context = f"After {fault.label} ({fault.place}): "
        leader = Question(
            measure=leader_measure(columns, fault),
            topic=f"{fault.title}, new leader",
            context=context,
            verb="had a new leader within",
            again="within",
            none="had its new leader before the fault took effect",
            anchor="faults",
        )
        silence = Question(
            measure=silence_measure(columns, fault),
            topic=f"{fault.title}, no writes",
            context=context,
            verb="took no write in some partition for",
            again="for",
            none="never stopped",
            anchor="faults",
        )
        asked += [question for question in (leader, silence) if any(question.measure.values)]
    return asked


# ---- throughput and latency -----------------------------------------------------------------------------------------


def phases_of(columns: Sequence[Column]) -> list[str]:
    seen = {phase for column in columns for numbers in column.counted for phase in numbers.phases}
    return [phase for phase in PHASES if phase in seen]


def rate_measure(columns: Sequence[Column], phase: str) -> Measure:
    def of(numbers: RunNumbers) -> float | None:
        own = numbers.phases.get(phase)
        return own.rate if own is not None else None

    return Measure(key=f"rate/{phase}", name="acknowledged per second", unit="records/s", values=_values(columns, of))


def latency_measure(columns: Sequence[Column], phase: str, percentile: str) -> Measure:
    def of(numbers: RunNumbers) -> float | None:
        own = numbers.phases.get(phase)
        return own.latencies.get(percentile) if own is not None else None

    def few(column: Column) -> bool:
        samples = [numbers.phases[phase].sample for numbers in column.counted if phase in numbers.phases]
        return min(samples, default=0) < _SAMPLES_FOR[percentile]

    unit: Unit = "ms"
    return Measure(
        key=f"{percentile}/{phase}",
        name=f"{PERCENTILE_NAMES[percentile]} of acknowledgements",
        unit=unit,
        values=_values(columns, of),
        starred=[few(column) for column in columns],
    )


def speed(columns: Sequence[Column]) -> list[Question]:
    """The median and the 99th percentile; the 99.9th stands in the table."""
    asked = []
    for phase in phases_of(columns):
        name = PHASES[phase]
        rate = Question(
            measure=rate_measure(columns, phase),
            topic=f"{name}, throughput",
            context=f"{name}: ",
            verb="acknowledged",
            again="",
            none="acknowledged nothing",
            anchor="speed",
        )
        latencies = [
            Question(
                measure=latency_measure(columns, phase, percentile),
                topic=f"{name}, {PERCENTILE_NAMES[percentile]}",
                context=f"{name}, {PERCENTILE_NAMES[percentile]}: ",
                verb="answered in",
                again="in",
                none="",
                anchor="speed",
            )
            for percentile in list(PERCENTILES)[:2]
        ]
        asked += [rate, *latencies]
    return asked


def questions(columns: Sequence[Column]) -> list[Question]:
    return [*records(columns), *availability(columns), *elections(columns), *speed(columns)]
