"""The tables and pictures of a comparison, made of the questions' measures: verdicts, records, faults, speed."""

import math
from collections.abc import Sequence
from statistics import median
from typing import Literal

from reports.comparison.columns import Column, Run
from reports.comparison.differences import tally, verdict_of
from reports.comparison.measures import Measure, cell, mark, number, span
from reports.comparison.model import (
    Cell,
    Dot,
    Head,
    Latencies,
    LatencyRow,
    Row,
    Strip,
    StripGroup,
    Strips,
    VerdictCell,
    VerdictRow,
)
from reports.comparison.numbers import PERCENTILES
from reports.comparison.questions import (
    PERCENTILE_NAMES,
    PHASES,
    FaultKey,
    fault_keys,
    fault_of,
    latency_measure,
    leader_measure,
    phases_of,
    rate_measure,
    silence_before_measure,
    silence_measure,
    sums_measure,
)
from reports.model import Badge, Tone
from reports.scale import Scale

_TONES: dict[str, Tone] = {"pass": "pass", "violation": "viol"}
_NOTE_LENGTH_MAX = 200


# ---- verdicts -------------------------------------------------------------------------------------------------------


def heads(columns: Sequence[Column]) -> list[Head]:
    return [_head(columns, index) for index in range(len(columns))]


def _head(columns: Sequence[Column], index: int) -> Head:
    column = columns[index]
    counts = tally(column)
    total = len(column.runs)
    badges = [
        Badge(tone=_TONES.get(verdict, "neutral"), text=verdict.upper() + (f" {count} of {total}" if total > 1 else ""))
        for verdict, count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    ]
    excluded = [run for run in column.runs if not run.counted]
    unsure = [run for run in column.runs if run.why]
    note = ""
    if excluded and not column.counted:
        note = _cut(f"No numbers: {excluded[0].why}")
    elif excluded:
        note = _cut(f"Repeat {_listed(excluded)} left out of the numbers: {excluded[0].why}")
    elif unsure:
        note = _cut(f"Repeat {_listed(unsure)}: {unsure[0].why}")
    return Head(
        letter=column.letter,
        label=column.label,
        change=", ".join(column.change),
        badges=badges,
        figures=_figures(columns, index) if column.counted else (),
        note=note,
    )


def _listed(runs: Sequence[Run]) -> str:
    return ", ".join(str(run.repeat) for run in runs)


def _figures(columns: Sequence[Column], index: int) -> list[tuple[str, str]]:
    """The handful of numbers that one asks for first."""
    asked: list[tuple[str, Measure]] = [
        ("Acknowledged", sums_measure(columns, "acknowledged", "")),
        ("Lost of them", sums_measure(columns, "lost", "")),
    ]
    faults = fault_keys(columns)
    leaders = [leader_measure(columns, fault) for fault in faults]
    silences = [silence_measure(columns, fault) for fault in faults]
    for name, measures in (("New leader, slowest", leaders), ("No writes, longest", silences)):
        shown = [measure for measure in measures if any(measure.values)]
        if shown:
            asked.append((name, max(shown, key=lambda each: max(max(values, default=0.0) for values in each.values))))
    phases = phases_of(columns)
    if phases:
        asked.append(
            (f"p99, {PHASES[phases[0]][:1].lower()}{PHASES[phases[0]][1:]}", latency_measure(columns, phases[0], "p99"))
        )
    figures = []
    for name, measure in asked:
        shown_cell = cell(measure, index)
        figures.append((name, f"{shown_cell.text} ({shown_cell.spread})" if shown_cell.spread else shown_cell.text))
    return figures


def verdict_rows(columns: Sequence[Column], hrefs: dict[tuple[str, int], str]) -> list[VerdictRow]:
    return [
        VerdictRow(
            letter=column.letter,
            label=column.label,
            stated=", ".join(dict.fromkeys(run.numbers.stated for run in column.runs if run.numbers is not None)),
            cells=[_verdict_cell(run, hrefs.get((column.letter, run.repeat), "")) for run in column.runs],
        )
        for column in columns
    ]


def _verdict_cell(run: Run, href: str) -> VerdictCell:
    verdict = verdict_of(run) if run.numbers is not None else "no run" if run.path is None else "unreadable"
    return VerdictCell(
        tone=_TONES.get(verdict, "neutral"),
        verdict=verdict,
        note=_cut(run.why or _unmet(run)),
        stated=run.numbers.as_stated if run.numbers is not None else False,
        counted=run.counted,
        href=href,
        title=run.name or run.why,
    )


def _unmet(run: Run) -> str:
    """Which of the scenario's expectations the run did not meet, in a run that came to a verdict all the same."""
    rows = run.data.verdict.get("expectations", ()) if run.data is not None else ()
    unmet = [f"{row['expectation']}: required {row['required']}, seen {row['seen']}" for row in rows if not row["met"]]
    return "; ".join(unmet)


def _cut(text: str) -> str:
    return text if len(text) <= _NOTE_LENGTH_MAX else text[:_NOTE_LENGTH_MAX].rpartition(" ")[0] + " …"


# ---- records --------------------------------------------------------------------------------------------------------


def accounting_rows(columns: Sequence[Column]) -> list[Row]:
    if not any(numbers.sums for column in columns for numbers in column.counted):
        return []
    shown: tuple[tuple[str, str, int, Literal["", "perm", "viol"]], ...] = (
        ("sent", "Sent", 0, ""),
        ("acknowledged", "Acknowledged", 0, ""),
        ("read", "read in the end", 1, ""),
        ("lost_violation", "lost, violation", 1, "viol"),
        ("lost_permitted", "lost, permitted", 1, "perm"),
        ("unseen_tail", "in the log, not read at the end", 1, ""),
        ("unreadable", "in the log, unreadable", 1, ""),
        ("unknown", "Indeterminate", 0, ""),
        ("unknown_in_log", "of these in the final log", 1, ""),
        ("refused", "Refused", 0, ""),
        ("copies", "Further copies in the final log", 0, ""),
    )
    rows = []
    for key, name, indent, tone in shown:
        measure = sums_measure(columns, key, name)
        if key in ("unseen_tail", "unreadable", "copies") and not any(max(v, default=0) for v in measure.values):
            continue
        rows.append(_row(measure, name, indent=indent, tone=tone))
        if key in ("lost_violation", "lost_permitted"):
            rows += _cause_rows(columns, "violation" if key == "lost_violation" else "permitted", tone)
    return rows


def _cause_rows(columns: Sequence[Column], classification: str, tone: Literal["", "perm", "viol"]) -> list[Row]:
    found = {cause for column in columns for numbers in column.counted for cause in numbers.causes}
    rows = []
    for cause in sorted(each for each in found if each[0] == classification):
        values = [[float(numbers.causes.get(cause, 0)) for numbers in column.counted] for column in columns]
        name = f"by {cause[1].replace('-', ' ')}"
        rows.append(_row(Measure(key=name, name=name, unit="records", values=values), name, indent=2, tone=tone))
    return rows


def _row(
    measure: Measure, name: str, *, indent: int = 0, tone: Literal["", "perm", "viol"] = "", group: str = ""
) -> Row:
    cells = [cell(measure, index, tone=tone) for index in range(len(measure.values))]
    return Row(name=name, cells=cells, mark=mark(measure), indent=indent, tone=tone, group=group)


def anomaly_rows(columns: Sequence[Column]) -> list[Row]:
    """Kinds of findings: in how many runs, and of how many records in the middle one."""
    kinds = {kind for column in columns for numbers in column.counted for kind in numbers.anomalies}
    order = {"violation": 0, "permitted": 1, "observation": 2}
    rows = []
    for check, classification in sorted(kinds, key=lambda kind: (order.get(kind[1], 3), kind[0])):
        tone: Tone = "viol" if classification == "violation" else "perm" if classification == "permitted" else "neutral"
        cells = []
        counts: list[list[float]] = []
        for column in columns:
            own = [numbers.anomalies.get((check, classification), (0, 0)) for numbers in column.counted]
            counts.append([float(records) for _, records in own])
            cells.append(_anomaly_cell(own, tone))
        measure = Measure(key=f"{check}/{classification}", name=check, unit="records", values=counts)
        rows.append(Row(name=check, cells=cells, mark=mark(measure), tone=tone, group=classification))
    return rows


def _anomaly_cell(own: Sequence[tuple[int, int]], tone: Tone) -> Cell:
    if not own:
        return Cell(text="–", spread="", tone="zero")
    hit = [(findings, records) for findings, records in own if findings]
    if not hit:
        return Cell(text="0", spread="", tone="zero")
    records = [float(count) for _, count in hit]
    runs = f"in {len(hit)} of {len(own)} runs" if len(own) > 1 else ""
    range_ = span(records, "records")
    return Cell(
        text=number(median(records), "records"),
        spread=", ".join(part for part in (range_, runs) if part),
        tone="viol" if tone == "viol" else "perm" if tone == "perm" else "",
    )


# ---- faults on one axis ---------------------------------------------------------------------------------------------


def strips(columns: Sequence[Column]) -> Strips | None:
    """None when no fault took effect in any run."""
    faults = fault_keys(columns)
    if not faults:
        return None
    drawn: list[tuple[str, str, Measure, FaultKey | None]] = []
    before = silence_before_measure(columns)
    if any(before.values):
        drawn.append(("Before the first fault", "longest time without a write", before, None))
    for fault in faults:
        leader, silence = leader_measure(columns, fault), silence_measure(columns, fault)
        kinds = [("until a new leader", leader), ("longest time without a write", silence)]
        for name, measure in kinds:
            if any(measure.values) or _any_dot(columns, fault, measure):
                drawn.append((fault.title, name, measure, fault))
    points = [_dots(columns, measure, fault) for _, _, measure, fault in drawn]
    values = [value for group in points for dots in group for value, *_ in dots]
    scale = Scale(values)
    groups = []
    for number_, ((title, name, measure, _), group) in enumerate(zip(drawn, points, strict=True)):
        first = number_ == 0 or drawn[number_ - 1][0] != title
        groups.append(
            StripGroup(
                fault=title if first else "",
                measure=name,
                strips=[_strip(columns[i], measure.values[i], group[i], scale) for i in range(len(columns))],
                mark=mark(measure),
            )
        )
    return Strips(groups=groups, ticks=scale.ticks(), scale=scale.words)


_Point = tuple[float, Run, bool]


def _dots(columns: Sequence[Column], measure: Measure, fault: FaultKey | None) -> list[list[_Point]]:
    return [[point for run in column.runs if (point := _point(run, measure, fault)) is not None] for column in columns]


def _point(run: Run, measure: Measure, fault: FaultKey | None) -> _Point | None:
    """(seconds, the run, whether it never ended)"""
    if run.numbers is None:
        return None
    if fault is None:
        before = run.numbers.silence_before_s
        return None if before is None else (before, run, False)
    own = fault_of(run.numbers, fault)
    if own is None:
        return None
    value, never = (own.leader_s, own.leader_open) if measure.about == "leader" else (own.silent_s, own.silent_open)
    return None if value is None else (value, run, never)


def _any_dot(columns: Sequence[Column], fault: FaultKey, measure: Measure) -> bool:
    return any(_dots(columns, measure, fault))


def _strip(column: Column, values: Sequence[float], points: Sequence[_Point], scale: Scale) -> Strip:
    dots = []
    for value, run, never in points:
        title = f"{column.label}, repeat {run.repeat}: {'at least ' if never else ''}{number(value, 's')}"
        title += "" if run.counted else f" (not counted: {run.numbers.verdict if run.numbers else 'no run'})"
        dots.append(Dot(at=scale.at(value), title=title, hollow=not run.counted, open=never))
    middle = median(values) if values else None
    ended_never = any(never for _, run, never in points if run.counted)
    text = "–" if middle is None else f"{'≥ ' if ended_never else ''}{number(middle, 's')}"
    reason = "it moved no leader" if points or column.readable else "no run"
    return Strip(
        letter=column.letter,
        label=column.label,
        dots=dots,
        median=None if middle is None else scale.at(middle),
        low=scale.at(min(values)) if values else 0.0,
        high=scale.at(max(values)) if values else 0.0,
        text=text,
        spread=span(values, "s"),
        title=f"{column.label}: {reason}" if middle is None else f"{column.label}: median {text} of {len(values)} runs",
    )


# ---- throughput and latency -----------------------------------------------------------------------------------------


def phase_rows(columns: Sequence[Column]) -> list[Row]:
    rows = []
    for phase in phases_of(columns):
        rows.append(_row(rate_measure(columns, phase), "acknowledged per second", group=PHASES[phase]))
        for percentile in PERCENTILES:
            rows.append(_row(latency_measure(columns, phase, percentile), PERCENTILE_NAMES[percentile]))
    return rows


def latencies(columns: Sequence[Column]) -> Latencies | None:
    phases = phases_of(columns)
    measures = {(phase, name): latency_measure(columns, phase, name) for phase in phases for name in PERCENTILES}
    every = [value for measure in measures.values() for values in measure.values for value in values if value > 0]
    if not every:
        return None
    low = 10 ** math.floor(math.log10(min(every)))
    high = 10 ** math.ceil(math.log10(max(every) * 1.001))

    def at(value: float | None) -> float | None:
        if value is None:
            return None
        return round(100 * math.log(max(value, low) / low) / math.log(high / low), 2)

    rows = []
    for phase in phases:
        for index, column in enumerate(columns):
            values = {name: measures[phase, name].values[index] for name in PERCENTILES}
            middle = {name: median(own) if own else None for name, own in values.items()}
            parts = [f"{PERCENTILE_NAMES[n]} {number(m, 'ms')}" for n, m in middle.items() if m is not None]
            rows.append(
                LatencyRow(
                    letter=column.letter,
                    label=column.label,
                    phase=PHASES[phase] if index == 0 else "",
                    p50=at(middle["p50"]),
                    p99=at(middle["p99"]),
                    p999=at(middle["p999"]),
                    text=" · ".join(number(m, "ms") for m in middle.values() if m is not None) or "–",
                    title=f"{column.label}, {PHASES[phase].lower()}: {', '.join(parts) or 'nothing acknowledged'}",
                )
            )
    decades = range(round(math.log10(low)), round(math.log10(high)) + 1)
    marks = [(at(10.0**d) or 0.0, f"{10.0**d:g} ms" if d < 3 else f"{10.0 ** (d - 3):g} s") for d in decades]
    return Latencies(rows=rows, ticks=marks)
