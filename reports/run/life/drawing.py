"""The life of a lost record as a picture in time: a lane for its sender, one for readers, and one per replica.

Time runs from left to right and keeps its order; moments that lie close are drawn apart, so lengths are no measure.
What no record shows is dashed, or not drawn.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby, pairwise
from typing import Literal

from harness.history.schema.cluster_rows import PARTITIONS
from harness.history.schema.evidence_rows import LOG_ROWS, FindingRow
from reports.model import CauseStep
from reports.run.life.axis import LEFT, WIDTH, Axis
from reports.run.life.model import Band, Bar, BarStyle, Dot, DotStyle, Guide, Life, LifeLane, LifeRow
from reports.run.life.sightings import ClientReport, Followed, Seen, State, followed, reports_to_clients, seen_in_logs
from reports.run_data import RunData

_LETTER = 5.9
_DOTS: Mapping[State, DotStyle] = {"record": "seen", "nothing": "absent", "other": "other"}
_LABELS: Mapping[State, str] = {"record": "in its log", "nothing": "not in its log", "other": "another record"}
_TITLES: Mapping[BarStyle, str] = {
    "holds": "in its log",
    "other": "another record has its place",
    "maybe": "what happened in between is not recorded",
}


def life(data: RunData, finding: FindingRow | None, steps: Sequence[CauseStep]) -> Life | None:
    """None where no lost record is known well enough to be followed. steps: of the chain of causes, for its numbers."""
    record = followed(data, finding) if finding is not None else None
    if record is None or finding is None:
        return None
    reports = sorted(reports_to_clients(data, record, finding["finding"]), key=lambda one: one.time_ns)
    seen = seen_in_logs(data, record, finding)
    moments = [_at(data, t_ns) for t_ns in (*(one.time_ns for one in reports), *(one.time_ns for one in seen))]
    guides = [(step, step.at) for step in steps if step.at is not None and _stands_in(step, min(moments), max(moments))]
    axis = Axis([*moments, *(at for _, at in guides)])
    nodes = sorted({*_replicas(data, record), *(one.node for one in seen)})
    readers = [one for one in reports if one.style == "read"]
    return Life(
        title=f"One of them followed: {data.value(record.value)}, offset {record.offset} of {record.place}",
        caption=_caption(data, record, readers, finding),
        lanes=[
            _sender_lane(data, axis, record, [one for one in reports if one.style != "read"]),
            _lane_of_readers(data, axis, readers),
            *(_replica_lane(data, axis, record, node, [one for one in seen if one.node == node]) for node in nodes),
        ],
        ticks=axis.ticks(),
        guides=[
            Guide(x=axis.x(at), number=step.number, title=step.event, decisive=step.decisive) for step, at in guides
        ],
        rows=_rows(data, reports, seen),
    )


def _at(data: RunData, time_ns: int) -> float:
    seconds = data.seconds(time_ns)
    assert seconds is not None, "what was seen has a moment"
    return seconds


def _stands_in(step: CauseStep, begin: float, end: float) -> bool:
    """What came before the record was sent stands in its picture only where it decided, as of a zombie's record."""
    return step.at is not None and (begin <= step.at <= end or (step.at < begin and step.turns))


def _replicas(data: RunData, record: Followed) -> Sequence[int]:
    return next((list(row["replicas"] or ()) for row in data.rows(PARTITIONS) if record.is_of(row)), [])


def _sender_lane(data: RunData, axis: Axis, record: Followed, reports: Sequence[ClientReport]) -> LifeLane:
    sent, answered = axis.x(_at(data, record.sent_ns)), axis.x(_at(data, record.answered_ns))
    flight = Bar(x=sent, width=round(answered - sent, 1), style="maybe", title="on its way, and back")
    dots = _report_dots(data, axis, reports)
    return LifeLane(label=f"producer p{record.process}", note="", colour=4, bars=[flight], bands=(), dots=dots)


def _lane_of_readers(data: RunData, axis: Axis, reports: Sequence[ClientReport]) -> LifeLane:
    note = "" if reports else "no read recorded"
    return LifeLane(label="consumers", note=note, colour=4, bars=(), bands=(), dots=_report_dots(data, axis, reports))


def _report_dots(data: RunData, axis: Axis, reports: Sequence[ClientReport]) -> list[Dot]:
    return _dots(
        (axis.x(_at(data, one.time_ns)), one.style, one.label, f"{data.moment(one.time_ns)}: {one.what}")
        for one in reports
    )


def _replica_lane(data: RunData, axis: Axis, record: Followed, node: int, seen: Sequence[Seen]) -> LifeLane:
    kept = _ends_of_stretches(seen)
    places = [axis.x(_at(data, one.time_ns)) for one in kept]
    bars = _first_bar(kept, places, axis.x(_at(data, record.sent_ns)))
    for (before, after), (x, end) in zip(pairwise(kept), pairwise(places), strict=True):
        style = _between(before, after)
        if style is not None:
            bars.append(Bar(x=x, width=round(end - x, 1), style=style, title=_TITLES[style]))
    bands = []
    for begin, end_ns, word in data.down(node):
        first, last = axis.clipped(data.seconds(begin), data.seconds(end_ns))
        if last > first:
            bands.append(Band(x=first, width=round(last - first, 1), text=word))
    dots = _dots(
        (
            x,
            "cut" if one.change else _DOTS[one.state],
            "gone" if one.change else _LABELS[one.state],
            f"{data.moment(one.time_ns)}: broker {node} {one.what}",
        )
        for x, one in zip(places, kept, strict=True)
    )
    led = f"led in epoch {record.epoch}" if node == record.leader else ""
    return LifeLane(
        label=f"broker {node}",
        note=led or ("" if seen else "nothing recorded"),
        colour=data.colour(node),
        bars=bars,
        bands=bands,
        dots=dots,
    )


def _first_bar(kept: Sequence[Seen], places: Sequence[float], sent: float) -> list[Bar]:
    if not kept or kept[0].state != "record" or places[0] <= sent:
        return []
    return [Bar(x=sent, width=round(places[0] - sent, 1), style="maybe", title="appended at a moment in between")]


def _between(before: Seen, after: Seen) -> BarStyle | None:
    """What lies between two sightings of one log: it keeps what it has until it is cut, which brokers report."""
    if before.state == "record":
        return "holds" if after.state == "record" or after.change else "maybe"
    if after.state == "nothing":
        return None
    return "other" if before.state == after.state == "other" else "maybe"


def _ends_of_stretches(seen: Sequence[Seen]) -> list[Seen]:
    """Of sightings of the same, one after the other, the first and the last."""
    kept: list[Seen] = []
    for _, group in groupby(seen, key=lambda one: (one.state, one.change)):
        same = list(group)
        kept += same[:1] if len(same) == 1 else [same[0], same[-1]]
    return kept


def _dots(points: Iterable[tuple[float, DotStyle, str, str]]) -> list[Dot]:
    """Labels above, below where that is taken, and none where both are: the title and the table say it."""
    taken = [LEFT - 12, LEFT - 12]
    made, before = [], ""
    for x, style, label, title in points:
        half = len(label) * _LETTER / 2
        anchor: Literal["start", "middle", "end"] = (
            "end" if x + half > WIDTH else "start" if x - half < LEFT else "middle"
        )
        begin = x - {"end": 2 * half, "start": 0.0, "middle": half}[anchor]
        row = next((number for number, end in enumerate(taken) if begin >= end), None)
        shown = label if row is not None and label != before else ""
        if row is not None and shown:
            taken[row] = begin + 2 * half + 5
        before = label
        made.append(Dot(x=x, style=style, title=title, label=shown, row=row or 0, anchor=anchor))
    return made


def _anchor(x: float, half: float) -> Literal["start", "middle", "end"]:
    """So that a label stays in the drawing."""
    if x + half > WIDTH:
        return "end"
    return "start" if x - half < LEFT else "middle"


def _rows(data: RunData, reports: Sequence[ClientReport], seen: Sequence[Seen]) -> list[LifeRow]:
    timed = [
        *((one.time_ns, "clients", one.what, one.source) for one in reports),
        *((one.time_ns, f"broker {one.node}", one.what, one.source) for one in seen),
    ]
    return [
        LifeRow(time=data.moment(at), where=where, what=data.readable(what), source=data.readable(source))
        for at, where, what, source in sorted(timed, key=lambda row: row[0])
    ]


def _caption(data: RunData, record: Followed, readers: Sequence[ClientReport], finding: FindingRow) -> str:
    finals = [
        row["final_value"]
        for row in data.evidence_of_finding(LOG_ROWS, finding["finding"])
        if row["offset"] == record.offset
    ]
    words = []
    if finals:
        found = "nothing" if finals[0] is None else data.value(finals[0])
        words.append(f"The final read found {found} at its offset.")
    if not readers:
        words.append("No consumer is recorded to have read it.")
    words.append(
        "In order of time, with moments that lie close drawn apart. Dashed: it happened in between, and nobody "
        "recorded when. Circled numbers are those of the causes above."
    )
    return " ".join(words)
