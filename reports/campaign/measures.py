"""What a campaign keeps of each fault of a judged run: recovery, the longest gap, and how much was acknowledged.

Recovery is what the availability check found (a partition took no writes for more than a second); the gap is read from
the records, as the comparison page reads it, and so is there for every fault under load. All are counted from the
moment the fault's effect was seen.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from reports.comparison.faults import FaultNumbers, fault_numbers
from reports.comparison.numbers import sends_of
from reports.run.story import evidence_of
from reports.run_data import RunData

_WINDOW_MIN_S = 1.0  # of a fault that is over at once, such as a damaged log


@dataclass(frozen=True, kw_only=True)
class MeasuredFault:
    """recovery_s: until the last partition that had stopped took writes again; None: none stopped for over a second.

    gap_s: the longest time without an acknowledgement in any one partition until the next fault; None without load.
    *_open: it never ended; the seconds are a lower bound. throughput: acknowledged records per second while in force.
    """

    kind: str
    recovery_s: float | None
    recovery_open: bool
    gap_s: float | None
    gap_open: bool
    throughput: float | None


def measures_of(run: Path) -> list[MeasuredFault]:
    """One for each fault whose effect was seen, in the order in which they began.

    Raises UsageError for a run that is not judged, HarnessError for a folder that lacks its tables.
    """
    return list(_measured(RunData(run)))


def _measured(data: RunData) -> Iterator[MeasuredFault]:
    sends = sends_of(data)
    recoveries = _recoveries(data)
    last = data.seconds(data.run.get("load_ended_ns"))
    for fault in fault_numbers(data, sends):
        seconds, never = recoveries.get((fault.kind, round(fault.begin, 6)), (None, False))
        yield MeasuredFault(
            kind=fault.kind,
            recovery_s=seconds,
            recovery_open=never,
            gap_s=fault.silent_s,
            gap_open=fault.silent_open,
            throughput=_throughput(sends, fault, data.end_s if last is None else last),
        )


def _recoveries(data: RunData) -> dict[tuple[str, float], tuple[float, bool]]:
    """(kind of the fault, when it began) -> (seconds, never)"""
    found = {}
    for row in data.findings:
        began = data.seconds(row["first_ns"])
        if row["check"] == "recovery" and began is not None:
            evidence = evidence_of(row)
            found[str(row["kind"]), round(began, 6)] = (float(evidence["seconds"]), bool(evidence["open"]))
    return found


def _throughput(sends: pd.DataFrame, fault: FaultNumbers, load_ended: float) -> float | None:
    """None where the load was over."""
    end = max(load_ended if fault.end is None else fault.end, fault.begin + _WINDOW_MIN_S)
    until = min(end, load_ended)
    if not len(sends) or until <= fault.begin:
        return None
    came = sends["ok"] & (sends["completed_ns"] >= fault.begin) & (sends["completed_ns"] < until)
    return float(came.sum()) / (until - fault.begin)
