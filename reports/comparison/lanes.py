"""The systems' histories one above the other: faults, leaders and ISRs on one axis whose second 0 is the first fault.

Of each column one repeat is drawn, the one nearest to the column's medians; the others are folded below it. Lanes and
charts are those of a single run's page.
"""

from collections.abc import Sequence
from statistics import median

from harness.history.schema.cluster_rows import PARTITION_STATES, PARTITIONS
from reports.comparison.columns import AlignedRun, Column, Run
from reports.comparison.model import ChartRow, History, LaneBlock
from reports.model import Lane
from reports.run import timeline
from reports.run.axis_notes import legend
from reports.run.chart import chart_of, chart_tops, ticks

PARTITIONS_MAX = 6
_BEFORE_ZOOM_S = 1.0
_AFTER_ZOOM_S = 4.0


def history(columns: Sequence[Column]) -> History | None:
    """None when no run has a leader on record."""
    chosen = [(column, run) for column in columns if (run := _typical(column)) is not None]
    aligned = {
        (column.letter, run.repeat): AlignedRun(run.path)
        for column in columns
        for run in column.readable
        if run.path is not None
    }
    drawn = [(column, aligned[column.letter, run.repeat]) for column, run in chosen]
    others = [
        (column, run, aligned[column.letter, run.repeat])
        for column in columns
        for run in column.readable
        if (column, run) not in chosen
    ]
    if not any(data.rows(PARTITION_STATES) for _, data in drawn):
        return None
    begin = min(data.begin_s for data in aligned.values())
    end = max(data.end_s for data in aligned.values())
    faulted = any(data.first_fault_ns is not None for data in aligned.values())
    tops = [chart_tops(data) for _, data in drawn]
    shared = (max(top for top, _ in tops), max(top for _, top in tops))
    blocks = _blocks(drawn, others)
    charts = [ChartRow(letter=column.letter, chart=chart_of(data, shared)) for column, data in drawn]
    return History(
        begin=round(begin, 3),
        duration=round(end - begin, 3),
        aligned="the first fault took effect" if faulted else "the load began",
        chosen=[
            (column.letter, f"repeat {run.repeat} of {len(column.runs)}")
            for column, run in chosen
            if len(column.runs) > 1
        ],
        blocks=blocks,
        charts=charts,
        ticks=ticks(begin, end),
        zooms=_zooms(begin, end, [run for _, run in chosen]),
        legend=legend(
            [lane for block in blocks for _, lane in (*block.lanes, *block.folded)], [row.chart for row in charts]
        ),
    )


def _typical(column: Column) -> Run | None:
    """The repeat nearest to the medians of its column's silences and elections; the first of equals."""
    runs = [run for run in column.readable if run.counted] or column.readable
    if not runs:
        return None
    weights_of_runs = [_weights(run) for run in runs]
    length = min(len(weights) for weights in weights_of_runs)
    middle = [median(weights[index] for weights in weights_of_runs) for index in range(length)]
    return min(runs, key=lambda run: sum(abs(a - b) for a, b in zip(_weights(run), middle, strict=False)))


def _weights(run: Run) -> list[float]:
    assert run.numbers is not None, "readable runs have numbers"
    return [value or 0.0 for fault in run.numbers.faults for value in (fault.silent_s, fault.leader_s)]


def _blocks(
    drawn: Sequence[tuple[Column, AlignedRun]], others: Sequence[tuple[Column, Run, AlignedRun]]
) -> list[LaneBlock]:
    blocks = [
        LaneBlock(
            title="Faults",
            lanes=[(column.letter, lane) for column, data in drawn for lane in timeline.fault_lanes(data, data.end_s)],
            folded=[
                (f"{column.letter}{run.repeat}", lane)
                for column, run, data in others
                for lane in timeline.fault_lanes(data, data.end_s)
            ],
        )
    ]
    for name in _partitions(drawn):
        folded = [(f"{column.letter}{run.repeat}", lane) for column, run, data in others for lane in _lanes(data, name)]
        lanes = [(column.letter, lane) for column, data in drawn for lane in _lanes(data, name)]
        blocks.append(LaneBlock(title=f"{name[0]}-{name[1]}", lanes=lanes, folded=folded))
    return blocks


def _lanes(data: AlignedRun, name: tuple[str, int]) -> list[Lane]:
    return timeline.partition_lanes(data, name, data.end_s)


def _partitions(drawn: Sequence[tuple[Column, AlignedRun]]) -> list[tuple[str, int]]:
    """Those whose leader or ISR changed most, then by name; at most so many that the page stays one to read."""
    changes: dict[tuple[str, int], int] = {}
    for _, data in drawn:
        for partition in data.rows(PARTITIONS):
            changes.setdefault((partition["topic"], partition["partition"]), 0)
        for row in data.rows(PARTITION_STATES):
            name = (row["topic"], row["partition"])
            changes[name] = changes.get(name, 0) + bool(row["exact"])
    busiest = sorted(changes, key=lambda name: (-changes[name], name))[:PARTITIONS_MAX]
    return sorted(busiest)


def _zooms(begin: float, end: float, runs: Sequence[Run]) -> list[tuple[str, float, float]]:
    zooms = [("Whole run", round(begin, 3), round(end - begin, 3))]
    faults = [fault for run in runs if run.numbers is not None for fault in run.numbers.faults]
    if faults:
        since = max(begin, -_BEFORE_ZOOM_S)
        until = min(end, max(_reaction_s(run) for run in runs) + _AFTER_ZOOM_S)
        if until - since < 0.8 * (end - begin):
            zooms.append(("Around the faults", round(since, 3), round(until - since, 3)))
    return zooms


def _reaction_s(run: Run) -> float:
    """From the first fault until the last one's new leader, or its begin."""
    faults = run.numbers.faults if run.numbers is not None else ()
    first = min((fault.begin for fault in faults), default=0.0)
    return max((fault.begin + (fault.leader_s or 0.0) - first for fault in faults), default=0.0)
