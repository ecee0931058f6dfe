"""Marks on the time axis: each stands at its own moment, in the first row where its label touches no other's."""

from collections.abc import Sequence
from dataclasses import replace

from reports.model import Mark, Story, Tone
from reports.run_data import RunData, partition_name

_NARROW_PX = 640.0  # the axis on a page of 800 px; wider pages have room to spare
_STEP_PX = 19.0
_LETTER_PX = 8.0
_ICON_PX = 18.0
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


def finding_marks(data: RunData, duration: float, *, observations: bool) -> list[Mark]:
    """Every finding with a moment; those about data and the observations apart, so that none hides another."""
    marks, places = [], []
    second_per_px = duration / _NARROW_PX
    for row in data.findings:
        at = data.seconds(row["t_first"])
        if at is None or (row["classification"] == "observation") is not observations:
            continue
        width = (_ICON_PX + _LETTER_PX * len(row["finding"])) * second_per_px
        back = _ICON_PX / 2 * second_per_px
        flips = at + width > duration
        where = partition_name(row)
        title = f"{row['finding']}: {row['check']}, {row['classification']}{', ' if where else ''}{where}"
        marks.append(
            Mark(
                at=round(at, 3),
                text=row["finding"],
                title=f"{title}, {data.moment(row['t_first'])}",
                href=f"#{row['finding']}",
                tone=TONES.get(row["classification"], "neutral"),
                flips=flips,
            )
        )
        places.append((at - width, at + back) if flips else (at - back, at + width))
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
