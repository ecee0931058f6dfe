"""The run over time: one axis, lanes in the order of cause and effect, and nothing dropped.

Faults, leaders, ISRs and gaps are intervals at `left: calc((t - from) * 100% / width)`, so that zooming sets two
numbers and text never scales. Partitions with findings come first; beyond twelve the rest fold into a counted row.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Any

from reports.model import Bar, Chart, Lane, Mark, Overview, Span, Story, Tone
from reports.run_data import RunData, count_of, partition_name, readable

SHOWN_PARTITIONS = 12
_STYLES = {"kill": "kill", "stop": "kill", "pause": "pause", "cut": "iso", "slow": "slow", "wipe": "wiped"}
_WORDS = {"kill": "killed", "stop": "stopped", "pause": "paused", "cut": "cut", "slow": "slowed", "wipe": "disk lost"}
TONES: dict[str, Tone] = {"violation": "viol", "permitted": "perm", "observation": "neutral"}


def overview(data: RunData, story: Story | None) -> Overview:
    duration = max(data.end_s, 0.1)
    names = _partitions_in_order(data)
    lanes = [*_step_lanes(data, duration), *fault_lanes(data, duration), _controller_lane(data, duration)]
    shown = [lane for name in names[:SHOWN_PARTITIONS] for lane in partition_lanes(data, name, duration)]
    folded = [lane for name in names[SHOWN_PARTITIONS:] for lane in partition_lanes(data, name, duration)]
    marks = _story_marks(story)
    return Overview(
        duration=round(duration, 3),
        marks=marks,
        finding_marks=_finding_marks(data),
        lanes=[*lanes, *shown],
        folded=folded,
        chart=chart_of(data),
        ticks=ticks(0.0, duration),
        zooms=_zooms(duration, marks),
    )


def _partitions_in_order(data: RunData) -> list[tuple[str, int]]:
    told = {(row["topic"], row["part"]) for row in data.findings if row["topic"] is not None}
    every = {(row["topic"], row["part"]) for row in data.rows("partitions")}
    return sorted(every, key=lambda name: (name not in told, name))


def _span(data: RunData, begin_ns: int, end_ns: int | None, duration: float) -> tuple[float, float] | None:
    """(at, length) on the axis, cut to what is drawn; None when it lies wholly before."""
    first = data.begin_s
    begin = max(data.seconds(begin_ns) or 0.0, first)
    end = data.seconds(end_ns) if end_ns is not None else duration
    assert end is not None, "an end that is given is a moment"
    return None if end < first else (round(begin, 3), round(max(min(end, duration) - begin, 0.0), 3))


def _step_lanes(data: RunData, duration: float) -> list[Lane]:
    spans = []
    for row in sorted(data.rows("steps"), key=lambda row: row["step"]):
        place = _span(data, row["t0"], row["t1"], duration)
        if place is not None:
            style = "stepok" if row["outcome"] == "ok" else "stepbad"
            title = f"step {row['step'] + 1}: {readable(row['text'])} ({row['outcome']}), {data.moment(row['t0'])}"
            number = str(row["step"] + 1)
            spans.append(Span(at=place[0], length=place[1], style=style, text=number, short=number, title=title))
    return [Lane(label="Plan", kind="step", spans=spans, first=True)] if spans else []


def fault_lanes(data: RunData, duration: float) -> list[Lane]:
    """A lane per broker and overlap: faults that overlap on a node get rows of their own."""
    lanes: list[Lane] = []
    faults = sorted((row for row in data.rows("faults") if row["t_begin"] is not None), key=lambda row: row["t_begin"])
    for node in data.brokers:
        rows: list[list[Span]] = []
        for fault in faults:
            place = _span(data, fault["t_begin"], fault["t_end"], duration)
            if node not in (fault["nodes"] or ()) or place is None:
                continue
            span = _fault_span(data, fault, node, place)
            row = next((row for row in rows if row[-1].at + row[-1].length <= span.at), None)
            if row is None:
                rows.append(row := [])
            row.append(span)
        for number, spans in enumerate(rows):
            lanes.append(
                Lane(
                    label=f"broker {node}" if number == 0 else "",
                    kind="fault",
                    spans=spans,
                    first=not lanes,
                    note="Faults" if not lanes else "",
                )
            )
    return lanes or [Lane(label="none", kind="fault", spans=(), first=True, note="Faults")]


def _fault_span(data: RunData, fault: dict[str, Any], node: int, place: tuple[float, float]) -> Span:
    word = _WORDS.get(fault["kind"], fault["kind"])
    if fault["kind"] in ("cut", "slow") and fault["links"]:
        own = [link for link in fault["links"].split() if {str(node), f"n{node}"} & set(link.split(">"))]
        if 0 < len(own) <= 2:
            word = readable(f"{word} {' '.join(own)}")
    end = data.moment(fault["t_end"]) if fault["t_end"] is not None else "the end"
    title = readable(f"{fault['label']}: {data.moment(fault['t_begin'])} to {end}. {fault['proof'] or ''}").rstrip()
    style = _STYLES.get(fault["kind"], "iso")
    return Span(at=place[0], length=place[1], style=style, text=word, short=word[:1], title=title)


def _controller_lane(data: RunData, duration: float) -> Lane:
    rows = sorted(data.rows("controllers"), key=lambda row: row["t"])
    spans = []
    for row, end in _with_ends(rows):
        place = _span(data, row["t"], end, duration)
        if place is None:
            continue
        node = row["node"]
        style = "none" if node < 0 else f"ld L{data.colour(node)}"
        epoch = f", epoch {row['controller_epoch']}" if row["controller_epoch"] is not None else ""
        text = "none" if node < 0 else f"broker {node}"
        title = f"controller {text}{epoch} from {data.moment(row['t'])}"
        spans.append(Span(at=place[0], length=place[1], style=style, text=text, short=str(node), title=title))
    return Lane(label="Controller", kind="role", spans=spans, first=True)


def _with_ends(rows: Sequence[dict[str, Any]]) -> Iterable[tuple[dict[str, Any], int | None]]:
    for number, row in enumerate(rows):
        yield row, rows[number + 1]["t"] if number + 1 < len(rows) else None


def _states(data: RunData, name: tuple[str, int]) -> list[dict[str, Any]]:
    rows = [row for row in data.rows("partition_states") if (row["topic"], row["part"]) == name]
    exact = [row for row in rows if row["exact"]]
    return sorted(exact or rows, key=lambda row: (row["t"], row["partition_epoch"] or 0))


def partition_lanes(data: RunData, name: tuple[str, int], duration: float) -> list[Lane]:
    leaders: list[Span] = []
    isrs: list[Span] = []
    states = _states(data, name)
    unclean = {row["leader_epoch"] for row in states if row["unclean"]}  # an ISR change keeps the epoch's leader
    for row, end in _with_ends(states):
        place = _span(data, row["t"], end, duration)
        if place is None:
            continue
        leader, epoch, isr = row["leader"], row["leader_epoch"], list(row["isr"] or ())
        text = "no leader" if leader < 0 else f"broker {leader} · e{epoch}"
        style = "none" if leader < 0 else f"ld L{data.colour(leader)}" + (" unc" if epoch in unclean else "")
        how = ", elected uncleanly" if epoch in unclean else ""
        title = f"{text}{how}, from {data.moment(row['t'])}"
        _extend(leaders, Span(at=place[0], length=place[1], style=style, text=text, short=f"{leader}", title=title))
        full = len(isr) >= len(row["replicas"] or isr)
        width = "i1" if len(isr) <= 1 else "i3" if full else "i2"
        members = "{" + ", ".join(str(node) for node in isr) + "}"
        few = members.replace(" ", "") if len(isr) <= 2 else f"{len(isr)}"
        title = f"ISR {members} from {data.moment(row['t'])}"
        _extend(isrs, Span(at=place[0], length=place[1], style=width, text=members, short=few, title=title))
    gaps = [span for span in (_gap(data, row, duration) for row in data.evidence("gaps") if _of(row, name)) if span]
    label = f"{name[0]}-{name[1]}"
    lanes = [
        Lane(label=label, kind="role", spans=leaders, first=True),
        Lane(label="ISR", kind="isr", spans=isrs),
    ]
    return [*lanes, Lane(label="no writes", kind="gap", spans=gaps)] if gaps else lanes


def _of(row: dict[str, Any], name: tuple[str, int]) -> bool:
    return (row.get("topic"), row.get("part")) == name


def _gap(data: RunData, row: dict[str, Any], duration: float) -> Span | None:
    place = _span(data, row["begin_t"], row["end_t"], duration)
    if place is None:
        return None
    title = f"no write acknowledged for {place[1]:.1f} s from {place[0]:.3f} s"
    return Span(at=place[0], length=place[1], style="g", text="", short="", title=title)


def _extend(spans: list[Span], new: Span) -> None:
    """Joins an interval to the one before when nothing that is shown changed."""
    if spans and spans[-1].style == new.style and spans[-1].text == new.text:
        before = spans.pop()
        length = round(new.at + new.length - before.at, 3)
        new = Span(
            at=before.at, length=length, style=before.style, text=before.text, short=before.short, title=before.title
        )
    spans.append(new)


def _story_marks(story: Story | None) -> list[Mark]:
    marks: list[Mark] = []
    for step in story.steps if story is not None else ():
        if step.at is None:
            continue
        close = sum(abs(step.at - mark.at) < 0.8 for mark in marks)
        title = f"Step {step.number}: {step.event}"
        mark = Mark(at=step.at, text=str(step.number), title=title, href=f"#s{step.number}", tone="pass", row=close % 3)
        marks.append(mark)
    return marks


def _finding_marks(data: RunData) -> list[Mark]:
    marks: list[Mark] = []
    for row in data.findings:
        at = data.seconds(row["t_first"])
        if at is not None:
            title = f"{row['finding']}: {row['check']}, {row['classification']}, {partition_name(row)}"
            tone = TONES.get(row["classification"], "neutral")
            close = sum(abs(at - mark.at) < 1.0 for mark in marks) % 3
            marks.append(
                Mark(at=round(at, 3), text=row["finding"], title=title, href=f"#{row['finding']}", tone=tone, row=close)
            )
    return marks


def chart_tops(data: RunData) -> tuple[float, int]:
    """The highest rate and latency of the run, for a scale that may be shared."""
    bins = data.rows("bins")
    rate = max((_rate(row) for row in bins), default=0.0) or 1.0
    return rate, max((row["p99_ns"] or 0 for row in bins), default=0) or 1


def _rate(row: dict[str, Any]) -> float:
    return float((row["ok"] + row["info"] + row["fail"]) * 1e9 / row["width_ns"])


def chart_of(data: RunData, tops: tuple[float, int] | None = None) -> Chart:
    top, latest = tops or chart_tops(data)
    bars = []
    points: dict[str, list[str]] = {"p50_ns": [], "p99_ns": []}
    for row in sorted(data.rows("bins"), key=lambda row: row["t"]):
        at = data.seconds(row["t"]) or 0.0
        width = row["width_ns"] / 1e9
        share = 100e9 / row["width_ns"] / top
        title = f"{at:.1f} s: {row['ok']} acknowledged, {row['info']} indeterminate, {row['fail']} refused"
        bars.append(
            Bar(
                x=round(at, 3),
                width=round(width, 3),
                ok=round(row["ok"] * share, 2),
                info=round(row["info"] * share, 2),
                fail=round(row["fail"] * share, 2),
                title=title,
            )
        )
        for name, line in points.items():
            if row[name] is not None:
                # Log scale from 1 ms: a stall of seconds and a quiet millisecond both stay visible.
                height = _log_height(row[name], latest)
                line.append(f"{at + width / 2:.3f},{100 - height:.2f}")
    return Chart(
        bars=bars,
        p50=" ".join(points["p50_ns"]),
        p99=" ".join(points["p99_ns"]),
        records_max=f"{count_of(round(top))}/s",
        latency_max=f"{latest / 1e6:.0f} ms" if latest < 1e9 else f"{latest / 1e9:.1f} s",
    )


def _log_height(nanoseconds: int, top: int) -> float:
    floor = 5e5
    if nanoseconds <= floor or top <= floor:
        return 0.0
    return 95 * math.log(nanoseconds / floor) / math.log(max(top, floor * 10) / floor)


def ticks(begin: float, end: float) -> list[float]:
    width = end - begin
    step = next(step for step in (0.1, 0.5, 1, 2, 5, 10, 30, 60, 300, 1800, 1e9) if width / step <= 14)
    return [round(number * step, 3) for number in range(math.ceil(begin / step), math.floor(end / step) + 1)]


def _zooms(duration: float, marks: Sequence[Mark]) -> list[tuple[str, float, float]]:
    zooms = [("Whole run", 0.0, round(duration, 3))]
    if marks:
        first, last = min(mark.at for mark in marks), max(mark.at for mark in marks)
        width = min(max(last - first + 2, 4.0), duration)
        zooms.append(("Around the loss", round(max(first - 1, 0.0), 3), round(width, 3)))
    return zooms
