"""Marks on the time axis: each stands at its own moment, in the first row where its label touches no other's."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from harness.history.schema.evidence_rows import FindingRow
from reports.model import Mark, Story, Tone
from reports.run_data import RunData, partition_name

_NARROW_PX = 640.0  # the axis on a page of 800 px; wider pages have room to spare
_STEP_PX = 19.0
_LETTER_PX = 8.0
_ICON_PX = 18.0
LABELS_MAX = 60
COLUMNS = 160
Timed = tuple[float, FindingRow]
Place = Callable[[FindingRow], str]  # where a finding's mark leads
TONES: dict[str, Tone] = {"violation": "viol", "permitted": "perm", "observation": "neutral"}


def story_marks(story: Story | None, duration: float) -> list[Mark]:
    marks = [
        Mark(
            at=step.at,
            text=str(step.number),
            title=f"{step.number}: {step.event}",
            href=f"#s{step.number}",
            tone="pass",
        )
        for step in (story.steps if story is not None else ())
        if step.at is not None
    ]
    half = _STEP_PX / 2 * duration / _NARROW_PX
    return _packed(marks, [(mark.at - half, mark.at + half) for mark in marks])


def finding_marks(data: RunData, duration: float, place: Place, *, observations: bool) -> list[Mark]:
    """Every finding with a moment; those about data and the observations apart, so that none hides another.

    Too many for a label each: one mark per class and column of the axis, which counts what it stands for.
    """
    found = [
        (at, row)
        for row in data.findings
        for at in [data.seconds(row["first_ns"])]
        if at is not None and (row["classification"] == "observation") is observations
    ]
    if len(found) > LABELS_MAX:
        return _dense(data, duration, place, found)
    second_per_px = duration / _NARROW_PX
    marks, places = [], []
    for at, row in found:
        width = (_ICON_PX + _LETTER_PX * len(row["finding"])) * second_per_px
        back = _ICON_PX / 2 * second_per_px
        flips = at + width > duration
        marks.append(
            Mark(
                at=round(at, 3),
                text=row["finding"],
                title=f"{_sentence(row)}, {data.moment(row['first_ns'])}",
                href=place(row),
                tone=TONES.get(row["classification"], "neutral"),
                flips=flips,
            )
        )
        places.append((at - width, at + back) if flips else (at - back, at + width))
    return _packed(marks, places)


def _sentence(row: FindingRow) -> str:
    where = partition_name(row)
    return f"{row['finding']}: {row['check']}, {row['classification']}{', ' if where else ''}{where}"


def _dense(data: RunData, duration: float, place: Place, found: Sequence[tuple[float, FindingRow]]) -> list[Mark]:
    columns: dict[tuple[int, str], list[tuple[float, FindingRow]]] = {}
    for at, row in found:
        columns.setdefault((int(at / duration * COLUMNS), row["classification"]), []).append((at, row))
    half = _ICON_PX / 2 * duration / _NARROW_PX
    marks, places = [], []
    for (_, classification), members in sorted(columns.items(), key=lambda item: item[0]):
        first, last = min(at for at, _ in members), max(at for at, _ in members)
        row = members[0][1]
        title = f"{_sentence(row)}, {first:.3f} s"
        if len(members) > 1:
            kinds = Counter(row["check"] for _, row in members)
            words = ", ".join(f"{count} {check}" for check, count in kinds.most_common())
            title = f"{len(members)} findings from {first:.3f} to {last:.3f} s: {words}; the first: {title}"
        tone = TONES.get(classification, "neutral")
        marks.append(Mark(at=round(first, 3), text="", title=title, href=place(row), tone=tone))
        places.append((first - half, first + half))
    return _packed(marks, places)


def _packed(marks: Sequence[Mark], places: Sequence[tuple[float, float]]) -> list[Mark]:
    rows: list[list[tuple[float, float]]] = []
    made = []
    for mark, (begin, end) in zip(marks, places, strict=True):
        row = next(
            (
                number
                for number, taken in enumerate(rows)
                if all(end <= other[0] or begin >= other[1] for other in taken)
            ),
            len(rows),
        )
        if row == len(rows):
            rows.append([])
        rows[row].append((begin, end))
        made.append(replace(mark, row=row))
    return made
