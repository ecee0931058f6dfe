"""The offsets and times that a ruling compares a record's with: records between the same ones share a ruling."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from harness.checks.contract.deposed import LEARN_NS, READ_AHEAD_NS
from harness.checks.contract.outlived import Successors
from harness.checks.model.partition_history import PartitionHistory
from harness.checks.model.watermarks import marks_of
from harness.checks.spark.detection import EpochRead

Side = tuple[int, int] | None


def side(boundaries: Sequence[int], value: int | None) -> Side:
    """Between which of them it lies, or on which."""
    return None if value is None else (bisect_left(boundaries, value), bisect_right(boundaries, value))


def offsets_of(history: PartitionHistory, successors: Successors, reads: Sequence[EpochRead]) -> list[int]:
    found = set[int]()
    for election in history.elections:
        found |= {election.start or 0, election.start_at_most or 0, *(start for _, start in election.chain or ())}
    for log in history.logs:
        marks = (log.row.get("log_start_offset"), log.row.get("log_end_offset"), log.row.get("high_watermark"))
        found |= {mark for mark in marks if mark is not None} | {start for _, start in log.chain}
    for cut in history.truncations:
        found |= {cut.from_offset, cut.to_offset}
    for read in reads:
        found |= {read.first_offset, read.last_offset}
    found |= {mark.offset for mark in marks_of(history)}
    for loss in history.disk_losses:
        found |= {place for place in (loss.event.from_offset, loss.event.to_offset) if place is not None}
    return sorted(found | successors.offsets | {history.log_start or 0})


def times_of(history: PartitionHistory) -> list[int]:
    found = {row["time_ns"] for row in (*history.states, *history.events)} | {log.time_ns for log in history.logs}
    found |= {row["time_ns"] for row in history.starts}
    found |= {end["time_ns"] + (end["uncertainty_ns"] or 0) for end in history.ends}
    found |= {cut.time_ns for cut in history.truncations} | {loss.time_ns for loss in history.disk_losses}
    for election in history.elections:
        edges = (election.earliest_t, election.latest_t)
        found |= {edge + apart for edge in edges for apart in (0, READ_AHEAD_NS, LEARN_NS)}
    for loss in history.disk_losses:
        found.add(loss.time_ns + READ_AHEAD_NS)
    for log in history.logs:
        found.add(log.time_ns + READ_AHEAD_NS)
    return sorted(found)
