"""What a fault destroyed on a disk: whose copy, of which partition, from which offset to which.

The table `disk_events` has it. For a fault without rows there, its kind limits what it can have destroyed.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from harness.history.facts.fault_facts import begin_of, begun
from harness.history.schema.cluster_rows import DiskEventRow, FaultRow

# disk: everything on the node. tail: a partition from `from_offset` on. batch: a partition's records from `from_offset`
# to before `to_offset`; a broker that starts with them removes what follows, too. unknown: the part was not recorded.
Extent = Literal["disk", "tail", "batch", "unknown"]
EXTENTS: tuple[Extent, ...] = ("disk", "tail", "batch", "unknown")
_EXTENTS: Mapping[str, Extent] = {extent: extent for extent in EXTENTS}

_BY_KIND: Mapping[str, Extent] = {
    "wipe": "disk",
    "disk-loss": "disk",
    "power-loss": "unknown",
    "damage": "unknown",
}


@dataclass(frozen=True, kw_only=True)
class DiskEvent:
    """A copy that was destroyed, entirely or in part. time_ns: on the run's clock; fault: the number of its row."""

    node: int
    time_ns: int
    extent: Extent
    fault: int | None = None
    topic: str | None = None
    partition: int | None = None
    from_offset: int | None = None
    to_offset: int | None = None

    def destroyed(self, topic: str, partition: int, offset: int | None) -> bool | None:
        """True if the node's copy of a record was destroyed; None if unknown."""
        if self.extent == "disk":
            return True
        if self.topic is not None and (topic, partition) != (self.topic, self.partition):
            return False
        if self.extent == "unknown" or self.topic is None or self.from_offset is None or offset is None:
            return None
        if offset < self.from_offset:
            return False
        if self.to_offset is not None and offset < self.to_offset:
            return True
        # Of a tail, the offset to which it went was the log's end: what lay beyond had left that log before.
        return None if self.extent != "tail" else self.to_offset is None


def disk_events(rows: Iterable[DiskEventRow], faults: Sequence[FaultRow]) -> tuple[DiskEvent, ...]:
    """All of a run, ordered by time: the rows of `disk_events`, and those derived from faults without rows."""
    events = [
        DiskEvent(
            node=row["node"],
            time_ns=row["time_ns"],
            extent=_EXTENTS.get(row["extent"], "unknown"),
            fault=row["fault"],
            topic=row["topic"],
            partition=row["partition"],
            from_offset=row["from_offset"],
            to_offset=row["to_offset"],
        )
        for row in rows
    ]
    recorded = {event.fault for event in events}
    for fault in begun(faults):
        if fault["fault"] not in recorded:
            events += _of_fault(fault)
    return tuple(sorted(events, key=lambda event: (event.time_ns, event.node)))


def _of_fault(fault: FaultRow) -> list[DiskEvent]:
    """What is known from the fault's kind alone."""
    extent = _BY_KIND.get(fault["kind"] or "")
    if extent is None:
        return []
    return [
        DiskEvent(node=node, time_ns=begin_of(fault), extent=extent, fault=fault["fault"])
        for node in fault["nodes"] or ()
    ]
