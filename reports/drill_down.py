"""The drill-down of a loss: the replicas' logs side by side around the lost offsets, and the operations on them.

The checks wrote both down (evidence_log_rows, evidence_operations): what each replica held before the deciding
election, when it cut it, and what the final read found. Here they only become rows and words. Up to 200 lost records
are in the page, all of them in the run folder.
"""

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, Literal

from reports.model import LogCell, LogRow, LogTable, OperationRow
from reports.run_data import RunData, span_of
from reports.story import evidence_of, fault_title

ROWS_OPEN = 14
ROWS_TAIL = 6
OPERATIONS_HEAD = 8
OPERATIONS_TAIL = 4
_NIL = LogCell(text="–", epoch="", colour=4, cut="")
Tone = Literal["yes", "no", "na", "event", "key"]


def log_table(data: RunData, finding: Mapping[str, Any]) -> LogTable | None:
    """None when the checks wrote no log rows for the finding."""
    rows = [row for row in data.evidence("log_rows") if row["finding"] == finding["finding"]]
    if not rows:
        return None
    lost = set(finding["offsets"] or ())
    nodes = sorted({row["replica"] for row in rows})
    colours = _epoch_colours(data, finding)
    evidence = evidence_of(finding)
    made = []
    rows.sort(key=lambda row: (row["off"], row["replica"]))
    for offset, group in groupby(rows, key=lambda row: row["off"]):
        cells = {row["replica"]: row for row in group}
        boundary = _boundary(evidence, lost, offset)
        made.append(_log_row(data, offset, cells, nodes, colours, lost, boundary))
    return LogTable(heads=[f"Broker {node}" for node in nodes], rows=_folded(made))


def _log_row(
    data: RunData,
    offset: int,
    cells: Mapping[int, Mapping[str, Any]],
    nodes: Sequence[int],
    colours: Mapping[int, int],
    lost: set[int],
    boundary: str,
) -> LogRow:
    first = next(iter(cells.values()))
    told = first["acknowledged_value"]
    acknowledged = "" if told is None else f"{data.value(told)}  {data.moment(first['acknowledged_t'])}"
    return LogRow(
        offset=offset,
        acknowledged=acknowledged,
        replicas=[
            _cell(
                data,
                cells[node]["value"],
                cells[node]["epoch"],
                colours,
                data.moment(cells[node]["truncated_t"]) if cells[node]["truncated"] else "",
            )
            if node in cells
            else _NIL
            for node in nodes
        ],
        final=_cell(data, first["final_value"], first["final_epoch"], colours, ""),
        lost=offset in lost,
        boundary=boundary,
    )


def _boundary(evidence: Mapping[str, Any], lost: set[int], offset: int) -> str:
    """The line drawn above an offset: where the elected leader's log ended, and where the loss begins and ends."""
    words = []
    if offset == evidence.get("elected_log_end"):
        words.append(
            f"Broker {evidence['elected']}'s log ended here when it was elected: epoch {evidence.get('elected_epoch')} "
            f"begins at {offset}"
        )
    if lost and offset == min(lost):
        words.append(f"offsets {span_of(min(lost), max(lost))} were lost")
    elif lost and offset == max(lost) + 1:
        words.append("after the last lost record")
    told = "; ".join(words)
    return told[:1].upper() + told[1:]


def _cell(data: RunData, value: int | None, epoch: int | None, colours: Mapping[int, int], cut: str) -> LogCell:
    if value is None:
        return _NIL
    known = epoch is not None and epoch >= 0
    return LogCell(
        text=data.value(value), epoch=f"e{epoch}" if known else "", colour=colours.get(epoch or 0, 4), cut=cut
    )


def _folded(rows: Sequence[LogRow]) -> list[LogRow]:
    """The head and the tail of a long table, and a row that counts what lies between."""
    if len(rows) <= ROWS_OPEN + ROWS_TAIL + 4:
        return list(rows)
    hidden = len(rows) - ROWS_OPEN - ROWS_TAIL
    fold = LogRow(offset=-1, acknowledged="", replicas=(), final=_NIL, lost=False, boundary="", fold=hidden)
    return [*rows[:ROWS_OPEN], fold, *rows[-ROWS_TAIL:]]


def _epoch_colours(data: RunData, finding: Mapping[str, Any]) -> dict[int, int]:
    """An epoch has the colour of the broker that led in it."""
    where = (finding["topic"], finding["part"])
    return {
        row["leader_epoch"]: data.colour(row["leader"])
        for row in data.rows("partition_states")
        if (row["topic"], row["part"]) == where and row["leader"] >= 0
    }


def operations(data: RunData, finding: Mapping[str, Any]) -> list[OperationRow]:
    """Sends and reads of the lost records with the cluster's events between them, ordered by their begin."""
    rows = [row for row in data.evidence("operations") if row["finding"] == finding["finding"]]
    if not rows:
        return []
    lost = set(finding["values"] or ())
    shown, hidden = rows, rows[OPERATIONS_HEAD:-OPERATIONS_TAIL]
    if len(hidden) > 2:
        shown = [*rows[:OPERATIONS_HEAD], *rows[-OPERATIONS_TAIL:]]
    timed = [(row["t0"] or row["t1"] or 0, _operation(data, row, lost)) for row in shown]
    if len(hidden) > 2:
        where = f"kafka-chaos show {data.run['id']} {finding['finding']}"
        told = f"{len(hidden)} more operations on these records; all: {where}"
        at = hidden[0]["t0"] or hidden[0]["t1"] or 0
        timed.append((at, _event(data, at, told, key=False)))
    begin = min(at for at, _ in timed) - 5_000_000_000
    timed += [(at, row) for at, row in _events(data, finding) if at >= begin]
    return [row for _, row in sorted(timed, key=lambda pair: pair[0])]


def _operation(data: RunData, row: Mapping[str, Any], lost: set[int]) -> OperationRow:
    gone = row["value"] in lost
    tone: Tone
    if row["kind"] == "send":
        outcome = {"ok": "acknowledged", "fail": "refused", "info": "indeterminate"}[row["status"]]
        outcome += ", lost" if gone and row["status"] == "ok" else f" ({row['error']})" if row["error"] else ""
        tone = "na" if row["status"] != "ok" else "no" if gone else "yes"
    else:
        outcome, tone = ("read, and gone in the end" if gone else "read"), "no" if gone else "yes"
    return OperationRow(
        begin=data.moment(row["t0"]),
        end=data.moment(row["t1"]),
        client=f"p{row['process']}",
        operation=row["kind"].replace("_", " "),
        value=data.value(row["value"]),
        offset="" if row["off"] is None else str(row["off"]),
        outcome=outcome,
        tone=tone,
    )


def _events(data: RunData, finding: Mapping[str, Any]) -> list[tuple[int, OperationRow]]:
    where = (finding["topic"], finding["part"])
    events: list[tuple[int, str, bool]] = []
    for row in data.rows("partition_states"):
        if not row["exact"] or (row["topic"], row["part"]) != where or row["leader_before"] is None:
            continue
        if row["leader"] != row["leader_before"]:
            who = f"broker {row['leader']} leads" if row["leader"] >= 0 else "no leader"
            how = ", elected uncleanly" if row["unclean"] else ""
            elr = f", eligible leader replicas {list(row['elr'])}" if row.get("elr") else ""
            text = f"Epoch {row['leader_epoch']}: {who}{how}; ISR {list(row['isr'])}{elr}"
            events.append((row["t"], text, bool(row["unclean"])))
        elif row["isr_before"] is not None and list(row["isr"]) != list(row["isr_before"]):
            events.append((row["t"], f"ISR {list(row['isr_before'])} becomes {list(row['isr'])}", False))
    for row in data.rows("faults"):
        events += [(row["t_begin"], fault_title(data, row), False)] if row["t_begin"] is not None else []
        events += [(row["t_end"], f"Over: {data.readable(row['label'])}", False)] if row["t_end"] is not None else []
    for row in data.rows("broker_events"):
        if row["event"] == "truncation" and (row["topic"], row["part"]) == where:
            text = f"Broker {row['node']} truncates its log from {row['from_offset']} to {row['to_offset']}"
            events.append((row["t"], text, True))
    return [(at, _event(data, at, text, key=key)) for at, text, key in events]


def _event(data: RunData, at: int, text: str, *, key: bool) -> OperationRow:
    tone: Tone = "key" if key else "event"
    return OperationRow(
        begin=data.moment(at), end="", client="", operation=text, value="", offset="", outcome="", tone=tone
    )


def lost_values(data: RunData, finding: Mapping[str, Any]) -> Sequence[str]:
    """ "offset: value" of every example the finding carries."""
    values, offsets = finding["values"] or (), finding["offsets"] or ()
    places = [f"{offset}: " for offset in offsets] if len(offsets) == len(values) else [""] * len(values)
    return [place + data.value(value) for place, value in zip(places, values, strict=True)]
