"""The run over time: one axis, lanes in the order of cause and effect, and nothing dropped.

Faults, leaders, ISRs and gaps are intervals at `left: calc((t - from) * 100% / width)`, so that zooming sets two
numbers and text never scales. Partitions with findings come first; beyond twelve the rest fold into a counted row.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

from harness.history.facts.fault_facts import begin_of, begun, struck_links
from harness.history.facts.node_end_facts import how_words
from harness.history.schema.cluster_rows import (
    CONTROLLERS,
    FAULTS,
    NODE_ENDS,
    PARTITION_STATES,
    PARTITIONS,
    STEPS,
    ControllerRow,
    FaultRow,
    NodeEndRow,
    PartitionStateRow,
    StepRow,
)
from harness.history.schema.evidence_rows import GAPS, GapRow
from reports.model import Lane, Mark, Overview, Span, Story
from reports.run.axis_notes import axis_notes, legend
from reports.run.chart import chart_of, ticks
from reports.run.crowds import fewer, many_partitions
from reports.run.marks import Place, finding_marks, story_marks
from reports.run_data import RunData

SHOWN_PARTITIONS = 12
FOLDED_PARTITIONS = 120
_SHORT_MAX = 5
_BEFORE = {"wait": "until ", "expect": "expect "}
_STYLES = {
    "kill": "kill",
    "stop": "kill",
    "pause": "pause",
    "cut": "iso",
    "slow": "slow",
    "impair": "slow",
    "damage": "wiped",
    "full": "wiped",
    "wipe": "wiped",
    "power-loss": "wiped",
}
_WORDS = {
    "kill": "killed",
    "stop": "stopped",
    "pause": "paused",
    "cut": "cut",
    "slow": "slowed",
    "impair": "impaired",
    "damage": "log damaged",
    "full": "disk full",
    "wipe": "disk lost",
    "power-loss": "unflushed records lost",
}
Timed = TypeVar("Timed", ControllerRow, PartitionStateRow)


def overview(data: RunData, story: Story | None, place: Place) -> Overview:
    """`place`: where the mark of a finding leads."""
    duration = max(data.end_s, 0.1)
    names = _partitions_in_order(data)
    lanes = [*_step_lanes(data, duration), *fault_lanes(data, duration), _controller_lane(data, duration)]
    shown = [lane for name in names[:SHOWN_PARTITIONS] for lane in partition_lanes(data, name, duration)]
    last = SHOWN_PARTITIONS + FOLDED_PARTITIONS
    folded = [lane for name in names[SHOWN_PARTITIONS:last] for lane in partition_lanes(data, name, duration)]
    folded += many_partitions(data, names[last:], duration)
    marks = story_marks(story, duration)
    found = [finding_marks(data, duration, place, observations=minor) for minor in (False, True)]
    chart = chart_of(data)
    return Overview(
        duration=round(duration, 3),
        marks=marks,
        finding_marks=found[0],
        observation_marks=found[1],
        lanes=[*lanes, *shown],
        folded=folded,
        chart=chart,
        ticks=ticks(0.0, duration),
        zooms=_zooms(duration, marks),
        legend=legend([*lanes, *shown, *folded], [chart], [*found[0], *found[1]]),
        notes=axis_notes(data, [*shown, *folded]),
    )


def _partitions_in_order(data: RunData) -> list[tuple[str, int]]:
    named = {(row["topic"], row["partition"]) for row in data.findings if row["topic"] is not None}
    every = {(row["topic"], row["partition"]) for row in data.rows(PARTITIONS)}
    return sorted(every, key=lambda name: (name not in named, name))


def _span(data: RunData, begin_ns: int | None, end_ns: int | None, duration: float) -> tuple[float, float] | None:
    """(at, length) on the axis, cut to what is drawn; None when it lies wholly before."""
    first = data.begin_s
    begin = max(data.seconds(begin_ns) or 0.0, first)
    end = data.seconds(end_ns) if end_ns is not None else duration
    assert end is not None, "an end that is given is a moment"
    return None if end < first else (round(begin, 3), round(max(min(end, duration) - begin, 0.0), 3))


def _step_lanes(data: RunData, duration: float) -> list[Lane]:
    """What was done, in words, each until the next thing; what it waited for meanwhile is in its title."""
    groups: list[list[StepRow]] = []
    for row in sorted(data.rows(STEPS), key=lambda row: row["step"]):
        if not groups or row["kind"] != "wait" or row["outcome"] != "ok" or groups[-1][-1]["outcome"] != "ok":
            groups.append([])
        groups[-1].append(row)
    spans = []
    for group in groups:
        place = _span(data, group[0]["begin_ns"], group[-1]["end_ns"], duration)
        if place is None:
            continue
        first, failed = group[0], any(row["outcome"] != "ok" for row in group)
        text = data.readable(_words(first))
        lanes = [
            f"step {row['step'] + 1}: {_words(row)} ({row['outcome']}), {data.moment(row['begin_ns'])}" for row in group
        ]
        spans.append(
            Span(
                at=place[0],
                length=place[1],
                style="stepbad" if failed else "stepok",
                text=text,
                short=_short(first),
                title=data.readable("; ".join(lanes)),
            )
        )
    return [Lane(label="Plan", kind="step", spans=fewer(spans, duration), first=True)] if spans else []


def _words(step: StepRow) -> str:
    """A wait is until something is so."""
    return f"{_BEFORE.get(step['kind'], '')}{step['step_text']}"


def _short(step: StepRow) -> str:
    """The verb, where it fits in the narrowest span that has words at all."""
    verb = step["act"] if step["kind"] == "act" else "" if step["kind"] == "wait" else step["kind"]
    return verb if verb and len(verb) <= _SHORT_MAX else ""


def fault_lanes(data: RunData, duration: float) -> list[Lane]:
    """A lane per struck node and one for links, with rows of their own for what overlaps: faults, and ends of nodes."""
    faults = sorted(begun(data.rows(FAULTS)), key=begin_of)
    ends = data.rows(NODE_ENDS)
    struck = {node for row in faults for node in row["nodes"] or () if _strikes(row, node)}
    apart = sorted({*struck, *(end["node"] for end in ends)} - set(data.brokers))
    groups = [
        (
            data.node_name(node),
            [
                *(found for row in faults if _strikes(row, node) for found in _fault_span(data, row, duration)),
                *(found for end in ends if end["node"] == node for found in _end_span(data, end, duration)),
            ],
        )
        for node in (*apart, *data.brokers)
    ]
    groups.append(("links", [found for row in faults if row["links"] for found in _fault_span(data, row, duration)]))
    lanes: list[Lane] = []
    for label, own in groups:
        for number, spans in enumerate(_in_rows(own)):
            lanes.append(
                Lane(
                    label=label if number == 0 else "",
                    kind="fault",
                    spans=fewer(spans, duration),
                    first=not lanes,
                    note="Faults" if not lanes else "",
                )
            )
    return lanes or [Lane(label="none", kind="fault", spans=(), first=True, note="Faults")]


def _strikes(fault: FaultRow, node: int) -> bool:
    return not fault["links"] and node in (fault["nodes"] or ())


def _in_rows(spans: Iterable[Span]) -> list[list[Span]]:
    """One row, and a further one for each that overlaps those before."""
    rows: list[list[Span]] = []
    for span in sorted(spans, key=lambda span: span.at):
        row = next((row for row in rows if row[-1].at + row[-1].length <= span.at), None)
        if row is None:
            rows.append(row := [])
        row.append(span)
    return rows


def _fault_span(data: RunData, fault: FaultRow, duration: float) -> list[Span]:
    """None for a fault before what is drawn."""
    word = _WORDS.get(fault["kind"], fault["kind"])
    text = word
    if fault["links"]:
        links = [str(link) for link in struck_links(fault)]
        text = f"{word} {' '.join(links)}" if len(links) <= 3 else str(fault["label_text"] or word)
    end = data.moment(fault["end_ns"]) if fault["end_ns"] is not None else "the end"
    title = f"{fault['label_text']}: {data.moment(fault['begin_ns'])} to {end}. {fault['proof_text'] or ''}".rstrip()
    style = _STYLES.get(fault["kind"], "other")
    place = _span(data, begin_of(fault), fault["end_ns"], duration)
    if place is None:
        return []
    at, length = place
    shown = (data.readable(text), data.readable(title))
    return [Span(at=at, length=length, style=style, text=shown[0], short=fault["kind"], title=shown[1])]


def _end_span(data: RunData, end: NodeEndRow, duration: float) -> list[Span]:
    """A node that was down by itself; none before what is drawn."""
    place = _span(data, end["time_ns"], end["back_ns"], duration)
    if place is None:
        return []
    until = data.moment(end["back_ns"]) if end["back_ns"] is not None else "the end"
    title = f"{data.ended_words(end)}: {data.moment(end['time_ns'])} to {until}. {end['line_text'] or ''}".rstrip()
    at, length = place
    return [
        Span(
            at=at,
            length=length,
            style="kill",
            text=f"ended {how_words(end)}",
            short="ended",
            title=data.readable(title),
        )
    ]


def _controller_lane(data: RunData, duration: float) -> Lane:
    rows = sorted(data.rows(CONTROLLERS), key=lambda row: row["time_ns"])
    spans = []
    for row, end in _with_ends(rows):
        place = _span(data, row["time_ns"], end, duration)
        if place is None:
            continue
        node = row["node"]
        style = "none" if node < 0 else f"ld L{data.colour(node)}"
        epoch = f", epoch {row['controller_epoch']}" if row["controller_epoch"] is not None else ""
        text = "none" if node < 0 else data.node_name(node)
        title = f"controller {text}{epoch} from {data.moment(row['time_ns'])}"
        spans.append(Span(at=place[0], length=place[1], style=style, text=text, short=str(node), title=title))
    return Lane(label="Controller", kind="role", spans=fewer(spans, duration), first=True)


def _with_ends(rows: Sequence[Timed]) -> Iterable[tuple[Timed, int | None]]:
    for number, row in enumerate(rows):
        yield row, rows[number + 1]["time_ns"] if number + 1 < len(rows) else None


def _states(data: RunData, name: tuple[str, int]) -> list[PartitionStateRow]:
    rows = [row for row in data.rows(PARTITION_STATES) if (row["topic"], row["partition"]) == name]
    exact = [row for row in rows if row["exact"]]
    return sorted(exact or rows, key=lambda row: (row["time_ns"], row["partition_epoch"] or 0))


def partition_lanes(data: RunData, name: tuple[str, int], duration: float) -> list[Lane]:
    leaders: list[Span] = []
    isrs: list[Span] = []
    states = _states(data, name)
    unclean = {row["leader_epoch"] for row in states if row["unclean"]}  # an ISR change keeps the epoch's leader
    for row, end in _with_ends(states):
        for begin, until, word in _alive_or_not(data, row["leader"], row["time_ns"], end):
            place = _span(data, begin, until, duration)
            if place is not None:
                _extend(leaders, _leader_span(data, row, place, begin, word, row["leader_epoch"] in unclean))
        place = _span(data, row["time_ns"], end, duration)
        if place is not None:
            _extend(isrs, _isr_span(data, row, place))
    own = [row for row in data.evidence(GAPS) if _of(row, name)]
    gaps = [span for row in own if row["reader"] is None and (span := _gap(data, row, duration))]
    unread = [span for row in own if row["reader"] is not None and (span := _gap(data, row, duration))]
    label = f"{name[0]}-{name[1]}"
    elr = any(row["elr"] for row in states)
    lanes = [
        Lane(label=label, kind="role", spans=fewer(leaders, duration), first=True),
        Lane(label="ISR, ELR" if elr else "ISR", kind="isr", spans=fewer(isrs, duration)),
    ]
    for word, spans in (("no writes", gaps), ("no reads", unread)):
        lanes += [Lane(label=word, kind="gap", spans=fewer(spans, duration))] if spans else []
    return lanes


def _alive_or_not(data: RunData, leader: int, begin: int, end: int | None) -> list[tuple[int, int | None, str]]:
    """The time of one leader in parts: ("" | "dead" | "down" | "paused"), as faults were seen to strike it."""
    parts: list[tuple[int, int | None, str]] = []
    at = begin
    for since, until, word in data.down(leader) if leader >= 0 else ():
        first = max(since, at)
        last = end if until is None else until if end is None else min(until, end)
        if (last is not None and last <= first) or (end is not None and first >= end):
            continue
        if first > at:
            parts.append((at, first, ""))
        parts.append((first, last, word))
        if last is None:
            return parts
        at = last
    return [*parts, (at, end, "")] if end is None or at < end else parts


def _leader_span(
    data: RunData, row: PartitionStateRow, place: tuple[float, float], begin: int, word: str, unclean: bool
) -> Span:
    leader, epoch = row["leader"], row["leader_epoch"]
    who = "no leader" if leader < 0 else f"{data.node_name(leader)}{' ' if word else ''}{word}"
    style = "none" if leader < 0 else f"ld L{data.colour(leader)}{' unc' if unclean else ''}{' dead' if word else ''}"
    how = ", elected uncleanly" if unclean and leader >= 0 else ""
    late = ", and no other leader yet" if word else ""
    return Span(
        at=place[0],
        length=place[1],
        style=style,
        text=f"{who} · e{epoch}",
        short=word or ("none" if leader < 0 else f"{leader}"),
        title=f"{who} · e{epoch}{how}, from {data.moment(begin)}{late}",
        epoch=epoch,
    )


def _isr_span(data: RunData, row: PartitionStateRow, place: tuple[float, float]) -> Span:
    isr, elr = list(row["isr"] or ()), list(row["elr"] or ())
    full = len(isr) >= len(row["replicas"] or isr)
    members = f"{isr}" + (f" ELR {elr}" if elr else "")
    few = f"{isr}".replace(" ", "") if len(isr) <= 2 else f"{len(isr)}"
    title = f"ISR {isr}" + (f", eligible leader replicas {elr}" if elr else "") + f" from {data.moment(row['time_ns'])}"
    style = "i1" if len(isr) <= 1 else "i3" if full else "i2"
    return Span(at=place[0], length=place[1], style=style, text=members, short=few, title=title)


def _of(row: GapRow, name: tuple[str, int]) -> bool:
    return (row["topic"], row["partition"]) == name


def _gap(data: RunData, row: GapRow, duration: float) -> Span | None:
    place = _span(data, row["begin_ns"], row["end_ns"], duration)
    if place is None:
        return None
    what = "no write acknowledged" if row["reader"] is None else f"nothing for {row['reader']}"
    title = f"{what} for {place[1]:.1f} s from {place[0]:.3f} s"
    return Span(at=place[0], length=place[1], style="g", text="", short="", title=title)


def _extend(spans: list[Span], new: Span) -> None:
    """Joins an interval to the one before when nothing that is shown changed."""
    if spans and spans[-1].style == new.style and spans[-1].text == new.text:
        before = spans.pop()
        length = round(new.at + new.length - before.at, 3)
        new = replace(before, length=length)
    spans.append(new)


def _zooms(duration: float, marks: Sequence[Mark]) -> list[tuple[str, float, float]]:
    zooms = [("Whole run", 0.0, round(duration, 3))]
    if marks:
        first, last = min(mark.at for mark in marks), max(mark.at for mark in marks)
        width = min(max(last - first + 2, 4.0), duration)
        zooms.append(("Around the loss", round(max(first - 1, 0.0), 3), round(width, 3)))
    return zooms
