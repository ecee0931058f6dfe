"""The drill-down of a loss: the replicas' logs side by side around the lost offsets, and the operations on them.

The checks wrote both down (evidence_log_rows, evidence_operations): what each replica held before the deciding
election, when it cut it, and what the final read found. Here they only become rows and words. Up to 200 lost records
are in the page, all of them in the run folder.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, Literal

from harness.history.schema.cluster_rows import PARTITION_STATES
from harness.history.schema.evidence_rows import (
    LOG_ROWS,
    SHOWN_OPERATIONS,
    FindingRow,
    LogComparisonRow,
    ShownOperationRow,
)
from reports.evidence_model import LogCell, LogRow, LogTable, OperationRow
from reports.run.nearby import client_events, cluster_events, event, nearest
from reports.run.story import evidence_of
from reports.run_data import RunData, span_of

ROWS_OPEN = 14
ROWS_TAIL = 6
OPERATIONS_HEAD = 8
OPERATIONS_TAIL = 4
INSIDE_MAX = 250  # rows that open in one place
LOST_CHECKS = ("lost-write", "dirty-read", "compacted-away")  # whose values are gone from the final log
_BEFORE_NS = 5_000_000_000
NIL = LogCell(text="–", epoch="", colour=4, cut="")
Tone = Literal["yes", "no", "na", "event", "key"]


def log_table(data: RunData, finding: FindingRow, *, whole: bool = False, opens: bool = False) -> LogTable | None:
    """None when the checks wrote no log rows for the finding. whole: nothing folded; opens: what is can be unfolded."""
    rows = data.evidence_of_finding(LOG_ROWS, finding["finding"])
    if not rows:
        return None
    lost = set(finding["offsets"] or ())
    nodes = sorted({row["replica"] for row in rows})
    colours = _epoch_colours(data, finding)
    evidence = evidence_of(finding)
    made = []
    rows.sort(key=lambda row: (row["offset"], row["replica"]))
    for offset, group in groupby(rows, key=lambda row: row["offset"]):
        cells = {row["replica"]: row for row in group}
        boundary = _boundary(evidence, lost, offset, gone=finding["check"] in LOST_CHECKS)
        made.append(_log_row(data, offset, cells, nodes, colours, lost, boundary))
    return LogTable(heads=[f"Broker {node}" for node in nodes], rows=made if whole else _folded(made, opens=opens))


def _log_row(
    data: RunData,
    offset: int,
    cells: Mapping[int, LogComparisonRow],
    nodes: Sequence[int],
    colours: Mapping[int, int],
    lost: set[int],
    boundary: str,
) -> LogRow:
    first = next(iter(cells.values()))
    value = first["acknowledged_value"]
    acknowledged = "" if value is None else f"{data.value(value)}  {data.moment(first['acknowledged_ns'])}"
    return LogRow(
        offset=offset,
        acknowledged=acknowledged,
        replicas=[
            _cell(
                data,
                cells[node]["value"],
                cells[node]["leader_epoch"],
                colours,
                data.moment(cells[node]["truncated_ns"]) if cells[node]["truncated"] else "",
            )
            if node in cells
            else NIL
            for node in nodes
        ],
        final=_cell(data, first["final_value"], first["final_epoch"], colours, ""),
        lost=offset in lost,
        boundary=boundary,
    )


def _boundary(evidence: Mapping[str, Any], lost: set[int], offset: int, *, gone: bool) -> str:
    """The line drawn above an offset: where the elected leader's log ended, and where the loss begins and ends."""
    verb = "were lost" if gone else "are what this is about"
    words = []
    if offset == evidence.get("elected_log_end"):
        words.append(
            f"Broker {evidence['elected']}'s log ended here when it was elected: epoch {evidence.get('elected_epoch')} "
            f"begins at {offset}"
        )
    if lost and offset == min(lost):
        words.append(f"offsets {span_of(min(lost), max(lost))} {verb}")
    elif lost and offset == max(lost) + 1:
        words.append("after the last lost record" if gone else "after the last of them")
    sentence = "; ".join(words)
    return sentence[:1].upper() + sentence[1:]


def _cell(data: RunData, value: int | None, epoch: int | None, colours: Mapping[int, int], cut: str) -> LogCell:
    if value is None:
        return NIL
    known = epoch is not None and epoch >= 0
    return LogCell(
        text=data.value(value), epoch=f"e{epoch}" if known else "", colour=colours.get(epoch or 0, 4), cut=cut
    )


def _folded(rows: Sequence[LogRow], *, opens: bool) -> list[LogRow]:
    """The head and the tail of a long table, and a row that counts what lies between."""
    if len(rows) <= ROWS_OPEN + ROWS_TAIL + 4:
        return list(rows)
    hidden = len(rows) - ROWS_OPEN - ROWS_TAIL
    inside = rows[ROWS_OPEN:-ROWS_TAIL][:INSIDE_MAX] if opens else ()
    fold = LogRow(
        offset=-1, acknowledged="", replicas=(), final=NIL, lost=False, boundary="", fold=hidden, inside=inside
    )
    return [*rows[:ROWS_OPEN], fold, *rows[-ROWS_TAIL:]]


def _epoch_colours(data: RunData, finding: FindingRow) -> dict[int, int]:
    """An epoch has the colour of the broker that led in it."""
    where = (finding["topic"], finding["partition"])
    return {
        row["leader_epoch"]: data.colour(row["leader"])
        for row in data.rows(PARTITION_STATES)
        if (row["topic"], row["partition"]) == where and row["leader"] >= 0
    }


def operations(data: RunData, finding: FindingRow, *, whole: bool = False, opens: bool = False) -> list[OperationRow]:
    """Sends and reads of the lost records with the cluster's events between them, ordered by their begin."""
    rows = data.evidence_of_finding(SHOWN_OPERATIONS, finding["finding"])
    of_clients = client_events(data, finding)
    if not rows and not of_clients:
        return []
    lost = set(finding["values"] or ()) if finding["check"] in LOST_CHECKS else set()
    shown, hidden = rows, [] if whole else rows[OPERATIONS_HEAD:-OPERATIONS_TAIL]
    if len(hidden) > 2:
        shown = [*rows[:OPERATIONS_HEAD], *rows[-OPERATIONS_TAIL:]]
    timed = [(row["invoked_ns"] or row["completed_ns"] or 0, _operation(data, row, lost)) for row in shown]
    if len(hidden) > 2:
        where = f"kafka-chaos show {data.place} {finding['finding']} --all"
        inside = [_operation(data, row, lost) for row in hidden[:INSIDE_MAX]] if opens else ()
        remark = f"{len(hidden)} more operations on these records"
        remark += f", {len(inside)} of them here" if 0 < len(inside) < len(hidden) else ""
        remark += f"; all: {where}" if len(inside) < len(hidden) else ""
        at = hidden[0]["invoked_ns"] or hidden[0]["completed_ns"] or 0
        timed.append((at, replace(event(data, at, remark, key=False), inside=inside)))
    about = [at for at, _ in timed] or [at for at in (finding["first_ns"], finding["last_ns"]) if at is not None]
    begin, end = (min(about), max(about)) if about else (of_clients[0][0], of_clients[-1][0])
    others = [*of_clients, *(one for one in cluster_events(data, finding) if one[0] >= begin - _BEFORE_NS)]
    timed += others if whole else nearest(data, others, begin, end)
    return [row for _, row in sorted(timed, key=lambda pair: pair[0])]


def _operation(data: RunData, row: ShownOperationRow, lost: set[int]) -> OperationRow:
    gone = row["value"] in lost
    tone: Tone
    if row["kind"] == "send":
        outcome = {"ok": "acknowledged", "fail": "refused", "info": "indeterminate"}[row["status"]]
        outcome += ", lost" if gone and row["status"] == "ok" else f" ({row['error']})" if row["error"] else ""
        tone = "na" if row["status"] != "ok" else "no" if gone else "yes"
    else:
        outcome, tone = ("read, and gone in the end" if gone else "read"), "no" if gone else "yes"
    return OperationRow(
        begin=data.moment(row["invoked_ns"]),
        end=data.moment(row["completed_ns"]),
        client=f"p{row['process']}",
        operation=row["kind"].replace("_", " "),
        value=data.value(row["value"]),
        offset="" if row["offset"] is None else str(row["offset"]),
        outcome=outcome,
        tone=tone,
    )


def lost_values(data: RunData, finding: FindingRow) -> Sequence[str]:
    """ "offset: value" of every example the finding carries."""
    values, offsets = finding["values"] or (), finding["offsets"] or ()
    places = [f"{offset}: " for offset in offsets] if len(offsets) == len(values) else [""] * len(values)
    return [place + data.value(value) for place, value in zip(places, values, strict=True)]
