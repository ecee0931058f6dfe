"""What a fault took from a disk, as facts: whose copy, of which partition, from which offset to which.

A run tells it in the table `disk_events`. Runs that were stored before there was one tell it only in the words of a
fault's row; they are read here, once, and what they do not tell stays unknown.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

# disk: all that the node held. tail: a partition from `from_offset` on. batch: a partition's records from `from_offset`
# to before `to_offset`; a broker that starts on it cuts what lies behind, too. unknown: nobody recorded which part.
Extent = Literal["disk", "tail", "batch", "unknown"]
EXTENTS: tuple[Extent, ...] = ("disk", "tail", "batch", "unknown")

_WHOLE = ("wipe", "disk-loss")
_PARTLY: Mapping[str, Extent] = {"power-loss": "tail", "damage": "batch"}
_TAIL = re.compile(r"the log of (?P<topic>\S+)-(?P<part>\d+) on .*? ends at (?P<to>\d+) and no longer at (?P<end>\d+)")
_BATCH = re.compile(
    r"the log of (?P<topic>\S+)-(?P<part>\d+) on .*? is damaged: .*?"
    r"the batch with offsets (?P<first>\d+) to (?P<last>\d+) does not hold"
)


@dataclass(frozen=True, kw_only=True)
class DiskEvent:
    """A copy that was destroyed, all of it or a part. t: in ns of the run's clock; fault: the number of its row."""

    node: int
    t: int
    extent: Extent
    fault: int | None = None
    topic: str | None = None
    part: int | None = None
    from_offset: int | None = None
    to_offset: int | None = None

    def took(self, topic: str, part: int, offset: int | None) -> bool | None:
        """Whether the node's copy of a record was in what was destroyed; None where that is not known."""
        if self.extent == "disk":
            return True
        if self.topic is not None and (topic, part) != (self.topic, self.part):
            return False
        if self.extent == "unknown" or self.topic is None or self.from_offset is None or offset is None:
            return None
        if offset < self.from_offset:
            return False
        return True if self.extent == "tail" or (self.to_offset is not None and offset < self.to_offset) else None


def disk_events(rows: Iterable[Mapping[str, Any]], faults: Sequence[Mapping[str, Any]]) -> tuple[DiskEvent, ...]:
    """All of a run, in order of time: those told in `rows` of `disk_events`, and of older runs those of its faults."""
    events = [
        DiskEvent(
            node=row["node"], t=row["t"], extent=row["extent"] if row["extent"] in EXTENTS else "unknown",
            fault=row["fault"], topic=row["topic"], part=row["part"], from_offset=row["from_offset"],
            to_offset=row["to_offset"],
        )
        for row in rows
    ]  # fmt: skip
    told = {event.fault for event in events}
    for fault in faults:
        if fault["t_begin"] is not None and fault["fault"] not in told:
            events += _of_fault(fault)
    return tuple(sorted(events, key=lambda event: (event.t, event.node)))


def _of_fault(fault: Mapping[str, Any]) -> list[DiskEvent]:
    kind, t, number = fault["kind"], fault["t_begin"], fault["fault"]
    nodes: Sequence[int] = fault["nodes"] or ()
    if kind in _WHOLE:
        return [DiskEvent(node=node, t=t, extent="disk", fault=number) for node in nodes]
    extent = _PARTLY.get(kind or "")
    if extent is None:
        return []
    found = (_TAIL if extent == "tail" else _BATCH).search(fault["proof"] or "")
    if found is None or len(nodes) != 1:  # of several victims the sentence does not tell whose offsets these are
        return [DiskEvent(node=node, t=t, extent="unknown", fault=number) for node in nodes]
    place: dict[str, Any] = {"topic": found["topic"], "part": int(found["part"])}
    if extent == "tail":
        return [DiskEvent(node=nodes[0], t=t, extent="tail", fault=number, from_offset=int(found["to"]), **place)]
    place |= {"from_offset": int(found["first"]), "to_offset": int(found["last"]) + 1}
    return [DiskEvent(node=nodes[0], t=t, extent="batch", fault=number, **place)]
