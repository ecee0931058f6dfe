"""The grid of runs: a row for each scenario, or for each profile where schedules were drawn; a column for each system.

A run is a mark in its cell. Rows, and marks of a cell, are bounded: what is bad is never left out for what is well.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from reports.campaign.data import Run
from reports.campaign.model import Grid, GridCell, GridRow, Square
from reports.run_data import count_of

ROWS_MAX = 150
NAMES = {
    "violation": "violation",
    "error": "error",
    "inconclusive": "inconclusive",
    "vacuous": "vacuous",
    "pass": "pass",
    "not_run": "not run",
}
WORST_FIRST = tuple(NAMES)
_BY_PROFILE = "Profile"
_BY_SCENARIO = "Scenario"
_SENTENCE_WIDTH = 160


def grid(runs: Sequence[Run], anchors: Mapping[int, str]) -> Grid | None:
    """anchors: of the runs that have a row on the page. None when nothing was planned."""
    if not runs:
        return None
    columns = sorted({run.where for run in runs})
    by_row: dict[str, dict[str, list[Run]]] = defaultdict(lambda: defaultdict(list))
    for run in runs:
        by_row[_row_of(run)][run.where].append(run)
    names = _drawn(by_row)
    return Grid(
        rows_are=_rows_are(runs),
        columns=columns,
        rows=[
            GridRow(name=name, cells=[_cell(by_row[name].get(column, ()), anchors) for column in columns])
            for name in names
        ],
        hidden_rows=len(by_row) - len(names),
    )


def _row_of(run: Run) -> str:
    return f"drawn: {run.profile}" if run.profile else run.scenario


def _rows_are(runs: Sequence[Run]) -> str:
    kinds = [
        name
        for name, any_ in (
            (_BY_SCENARIO, any(not run.profile for run in runs)),
            (_BY_PROFILE, any(run.profile for run in runs)),
        )
        if any_
    ]
    return " or ".join([kinds[0], *(kind.lower() for kind in kinds[1:])])


def _drawn(by_row: Mapping[str, Mapping[str, Sequence[Run]]]) -> list[str]:
    """All if they are few, else those with the worst verdicts, in the order of their first run."""

    def worst(name: str) -> tuple[int, int]:
        every = [run for cell in by_row[name].values() for run in cell]
        return min(WORST_FIRST.index(run.verdict) for run in every), min(run.number for run in every)

    chosen = set(sorted(by_row, key=worst)[:ROWS_MAX])
    return [name for name in by_row if name in chosen]


def _cell(runs: Sequence[Run], anchors: Mapping[int, str]) -> GridCell:
    drawn = [run for run in runs if run.number in anchors]
    return GridCell(
        squares=[
            Square(
                number=run.number,
                anchor=anchors[run.number],
                verdict=run.verdict,
                calm=run.as_stated,
                title=_title(run),
            )
            for run in sorted(drawn, key=lambda run: run.number)
        ],
        tally=tally(Counter(run.verdict for run in runs)),
        hidden=len(runs) - len(drawn),
    )


def tally(counts: Mapping[str, int]) -> str:
    """For example "2 violation, 38 pass"."""
    return ", ".join(f"{count_of(counts[verdict])} {NAMES[verdict]}" for verdict in WORST_FIRST if counts.get(verdict))


def _title(run: Run) -> str:
    sentence = cut(run.sentence, _SENTENCE_WIDTH)
    title = (
        f"run {run.number}",
        NAMES[run.verdict] + (", as stated" if run.as_stated else ""),
        f"{run.scenario} on {run.where}",
        f"seed {run.seed}",
        sentence,
    )
    return " · ".join(part for part in title if part)


def cut(words: str, most: int) -> str:
    return words if len(words) <= most else words[:most] + " …"
