"""One run in numbers: what a comparison takes from a judged run folder, read with pandas.

Latency and stalls come from the records themselves, not from bins; an acknowledgement with acks=0 is none. Percentiles
are nearest rank. Times are seconds, latencies milliseconds.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pandas as pd

from harness.errors import HarnessError
from harness.history.schema.cluster_rows import NODE_ENDS, PARTITION_STATES, PartitionStateRow
from harness.history.schema.parquet_tables import read_table
from harness.history.schema.schemas import KIND_SEND, STATUS_OK
from reports.comparison.faults import FaultNumbers, fault_numbers, longest_silence
from reports.run.accounting import accounting
from reports.run.story import evidence_of
from reports.run_data import RunData

COUNTED = ("pass", "violation", "vacuous")  # a vacuous run was done whole: it lacked a situation, not its numbers
PERCENTILES = {"p50": 0.5, "p99": 0.99, "p999": 0.999}
_COLUMNS = ["kind", "status", "acks", "partition_id", "invoked_ns", "completed_ns"]


@dataclass(frozen=True, kw_only=True)
class PhaseNumbers:
    """phase: before | during | after | whole. latencies: of records answered before the first fault, of those sent
    after the last was over, and during the faults of all others, since a fault slows what is under way."""

    phase: str
    begin: float
    end: float
    acknowledged: int
    rate: float | None  # acknowledgements per second that came in the phase
    latencies: Mapping[str, float]  # ms; empty when there are no such records
    sample: int


@dataclass(frozen=True, kw_only=True)
class RunNumbers:
    """`counted`: the run was done to its end, so its numbers may be held against another's."""

    verdict: str
    reasons: Sequence[str]
    as_stated: bool
    stated: str
    counted: bool
    sums: Mapping[str, int]  # name of ACCOUNTS -> records; empty when nothing was sent
    causes: Mapping[tuple[str, str], int]  # (classification, cause) -> acknowledged records lost
    problem: str  # sums that do not add up
    anomalies: Mapping[tuple[str, str], tuple[int, int]]  # (check, classification) -> (findings, records)
    elections: int
    unclean_elections: int
    isr_shrinks: int
    faults: Sequence[FaultNumbers] = ()
    # longest stretch without an acknowledgement while no fault had begun and no node had ended by itself
    silence_before_s: float | None = None
    phases: Mapping[str, PhaseNumbers] = field(default_factory=dict)


def numbers_of(data: RunData) -> RunNumbers:
    """Raises HarnessError for a folder that lacks its tables."""
    verdict = str(data.verdict["verdict"])
    sends = sends_of(data)
    faults = fault_numbers(data, sends)
    changes = _changes(data)
    begin, end = _load(data, sends)
    ended = [second for each in data.rows(NODE_ENDS) if (second := data.seconds(each["time_ns"])) is not None]
    first = min((*(fault.begin for fault in faults), *ended), default=None)
    phases = _phases(sends, begin, end, faults)
    return RunNumbers(
        verdict=verdict,
        reasons=[str(reason) for reason in data.verdict.get("reasons", ())],
        as_stated=bool(data.verdict.get("as_expected")),
        stated=str(data.verdict.get("expected", "")),
        counted=verdict in COUNTED,
        sums=_sums(data),
        causes=_causes(data),
        problem=_problem(data),
        anomalies=_anomalies(data),
        elections=sum(change.elected for change in changes),
        unclean_elections=sum(bool(change.elected and change.unclean) for change in changes),
        isr_shrinks=sum(change.shrunk for change in changes),
        faults=faults,
        silence_before_s=longest_silence(sends, begin, first if first is not None else end),
        phases={phase.phase: phase for phase in phases},
    )


def sends_of(data: RunData) -> pd.DataFrame:
    """Sends that asked for an acknowledgement; t0, t1 in seconds since the load began, ok, tp."""
    path = data.path / "tables" / "records.parquet"
    if not path.is_file():
        raise HarnessError(f"{data.path}: table records is missing; `kafka-chaos check {data.path}` builds it")
    sent = [("kind", "=", KIND_SEND)]
    table = read_table(path, "records", columns=_COLUMNS, filters=sent)
    frame = table.to_pandas()
    frame = frame[frame["acks"].fillna(-1) != 0]
    sends = pd.DataFrame(
        {
            "partition_id": frame["partition_id"],
            "invoked_ns": (frame["invoked_ns"] - data.origin_ns) / 1e9,
            "completed_ns": (frame["completed_ns"].fillna(frame["invoked_ns"]) - data.origin_ns) / 1e9,
            "ok": frame["status"] == STATUS_OK,
        }
    )
    return sends.sort_values("completed_ns", kind="stable").reset_index(drop=True)


def _load(data: RunData, sends: pd.DataFrame) -> tuple[float, float]:
    ended = data.seconds(data.run.get("load_ended_ns"))
    last = float(sends["completed_ns"].max()) if len(sends) else data.end_s
    return 0.0, ended if ended is not None and ended > 0 else last


# ---- records --------------------------------------------------------------------------------------------------------


def _sums(data: RunData) -> dict[str, int]:
    counts = accounting(data)
    if counts is None:
        return {}
    by_check: Counter[str] = Counter()
    for row in data.findings:
        by_check[row["check"]] += row["count"]
    unseen = min(by_check["unseen-tail"], counts.unreadable)
    return {
        "sent": counts.sent,
        "acknowledged": sum(row.sent for row in counts.outcomes if row.name == "Acknowledged"),
        "read": counts.read,
        "lost_violation": counts.lost_violation,
        "lost_permitted": counts.lost_permitted,
        "lost": counts.lost_violation + counts.lost_permitted,
        "unseen_tail": unseen,
        "unreadable": counts.unreadable - unseen,
        "unknown": counts.indeterminate,
        "unknown_in_log": sum(row.in_final_log for row in counts.outcomes if row.name == "Indeterminate"),
        "refused": counts.refused,
        "copies": int(data.verdict.get("accounting", {}).get("duplicates", 0)),
    }


def _problem(data: RunData) -> str:
    counts = accounting(data)
    return counts.problem if counts is not None else ""


def _causes(data: RunData) -> dict[tuple[str, str], int]:
    counts: Counter[tuple[str, str]] = Counter()
    for row in data.findings:
        if row["check"] == "lost-write":
            counts[row["classification"], str(evidence_of(row).get("cause") or "cause not recorded")] += row["count"]
    return dict(counts)


def _anomalies(data: RunData) -> dict[tuple[str, str], tuple[int, int]]:
    """All kinds but stalls and recovery times, which are measured per fault."""
    found: dict[tuple[str, str], tuple[int, int]] = {}
    for row in data.findings:
        if row["check"] in ("availability", "recovery") and row["classification"] == "observation":
            continue
        findings, records = found.get((row["check"], row["classification"]), (0, 0))
        found[row["check"], row["classification"]] = (findings + 1, records + row["count"])
    return found


class _Change(NamedTuple):
    elected: bool
    unclean: bool | None
    shrunk: bool


def _changes(data: RunData) -> list[_Change]:
    """Changes of leader and ISR after the first state of each partition; exact ones where there are any."""
    every = data.rows(PARTITION_STATES)
    exact = [row for row in every if row["exact"]]
    changes = []
    before: dict[tuple[str, int], PartitionStateRow] = {}
    for row in sorted(
        exact or every, key=lambda row: (row["time_ns"], row["leader_epoch"], row["partition_epoch"] or 0)
    ):
        name = (row["topic"], row["partition"])
        last = before.get(name)
        if last is not None and row["leader_epoch"] >= last["leader_epoch"]:
            elected = row["leader"] >= 0 and row["leader_epoch"] > last["leader_epoch"]
            shrunk = not set(last["isr"] or ()) <= set(row["isr"] or ())
            changes.append(_Change(elected=elected, unclean=row["unclean"], shrunk=shrunk))
        before[name] = row
    return changes


# ---- throughput and latency -----------------------------------------------------------------------------------------


def _phases(sends: pd.DataFrame, begin: float, end: float, faults: Sequence[FaultNumbers]) -> list[PhaseNumbers]:
    """Before the first fault, until the last is over, and after it; one phase when there was none."""
    if not len(sends):
        return []
    if not faults:
        return [_phase(sends, "whole", begin, end)]
    first = max(min(fault.begin for fault in faults), begin)
    last = min(max(end if fault.end is None else fault.end for fault in faults), end)
    last = max(last, first)
    spans = {"before": (begin, first), "during": (first, last), "after": (last, end)}
    return [_phase(sends, name, since, until) for name, (since, until) in spans.items() if until > since]


def _phase(sends: pd.DataFrame, name: str, begin: float, end: float) -> PhaseNumbers:
    acknowledged = sends[sends["ok"]]
    arrived = int(((acknowledged["completed_ns"] >= begin) & (acknowledged["completed_ns"] < end)).sum())
    over, not_yet = acknowledged["completed_ns"] < begin, acknowledged["invoked_ns"] >= end
    own = {
        "before": acknowledged[acknowledged["completed_ns"] < end],
        "during": acknowledged[~over & ~not_yet],
        "after": acknowledged[acknowledged["invoked_ns"] >= begin],
    }.get(name, acknowledged)
    latencies = np.sort(((own["completed_ns"] - own["invoked_ns"]) * 1e3).to_numpy())
    ranks = {key: max(math.ceil(len(latencies) * share) - 1, 0) for key, share in PERCENTILES.items()}
    return PhaseNumbers(
        phase=name,
        begin=round(begin, 3),
        end=round(end, 3),
        acknowledged=arrived,
        rate=arrived / (end - begin) if end > begin else None,
        latencies={key: float(latencies[rank]) for key, rank in ranks.items()} if len(latencies) else {},
        sample=len(latencies),
    )
