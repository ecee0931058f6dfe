"""What was done to the cluster, in order of time: every fault that was seen, and the plan's other acts."""

from collections.abc import Mapping
from typing import Any

from reports.model import DoneRow
from reports.run_data import RunData
from reports.story import fault_title


def done(data: RunData) -> list[DoneRow]:
    """A fault says until when it lasted; healing and restarts stand with what they brought back."""
    faults = [row for row in data.rows("faults") if row["t_begin"] is not None]
    of_faults = {row["step"] for row in faults}
    rows = [(row["t_begin"], _fault(data, row)) for row in faults]
    rows += [
        (row["t0"], _act(data, row))
        for row in data.rows("steps")
        if row["kind"] == "act" and row["step"] not in of_faults and row["t0"] is not None
    ]
    return [row for _, row in sorted(rows, key=lambda pair: pair[0])]


def _fault(data: RunData, fault: Mapping[str, Any]) -> DoneRow:
    return DoneRow(
        at=data.moment(fault["t_begin"]),
        until=data.moment(fault["t_end"]) if fault["t_end"] is not None else "the end",
        what=fault_title(data, fault),
        seen=data.readable(fault["proof"] or "no proof recorded"),
        ok=True,
    )


def _act(data: RunData, step: Mapping[str, Any]) -> DoneRow:
    text = str(step["text"])
    failed = step["outcome"] != "ok"
    return DoneRow(
        at=data.moment(step["t0"]),
        until="",
        what=data.readable(text[:1].upper() + text[1:]) + (f" ({step['outcome']})" if failed else ""),
        seen=data.readable(step["seen"] or ""),
        ok=not failed,
    )
