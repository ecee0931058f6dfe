"""Faults whose effect was seen: when it began is known then, and all that is counted is counted from there."""

from collections.abc import Iterable

from harness.history.schema.cluster_rows import FaultRow
from harness.history.schema.column_types import END_OF_TIME_NS


def begun(faults: Iterable[FaultRow]) -> list[FaultRow]:
    """Those that were seen to begin."""
    return [fault for fault in faults if fault["begin_ns"] is not None]


def begin_of(fault: FaultRow) -> int:
    """Of one that was seen to begin."""
    begin_ns = fault["begin_ns"]
    assert begin_ns is not None, f"fault {fault['fault']} was never seen to begin"
    return begin_ns


def end_of(fault: FaultRow) -> int:
    """END_OF_TIME_NS for one that was not seen to end."""
    return END_OF_TIME_NS if fault["end_ns"] is None else fault["end_ns"]
