"""Damaged logs, and for how long the damage excuses anything: until the broker had to read what was damaged.

A broker that starts after a crash reads its log from its recovery point on, and has to cut what does not hold. The
recovery point moves when a segment is full, at a flush, and at a clean stop; so only where none of these can have been
is it certain that the broker read it all. Until then it may hold what it has not looked at.
"""

from collections.abc import Set as AbstractSet

from harness.checks.findings import RunContext
from harness.checks.model.partition_history import PartitionHistory
from harness.history.schema.cluster_rows import BROKER_EVENTS, CONFIGURATION

_FAR = 2**62
_SEGMENT_BYTES = 16 << 20  # at the least, where nothing else is set
_RECORD_BYTES = 200  # beside its value, at the most: a batch of its own, and a key
_SETTINGS = ("segment", "flush")  # what moves a recovery point has this in its name


class Damages:
    """Of one run; those that were seen to have taken effect."""

    def __init__(self, context: RunContext) -> None:
        scenario = context.history.scenario
        value_bytes = scenario.workload.facts.value_bytes if scenario is not None else 0
        self._records_max = 0 if _may_flush(context) else _SEGMENT_BYTES // (value_bytes + _RECORD_BYTES)
        self._begun: dict[int, list[int]] = {}
        self._stopped: dict[int, list[int]] = {}
        for row in context.history.faults:
            told = self._begun if row["kind"] == "damage" else self._stopped if row["kind"] == "stop" else None
            if told is not None and row["proved"]:
                for node in row["nodes"] or ():
                    told.setdefault(node, []).append(row["begin_ns"] or 0)
        self._started: dict[int, list[int]] = {}
        for event in sorted(context.tables[BROKER_EVENTS], key=lambda event: event["time_ns"]):
            if event["event"] == "broker_start":
                self._started.setdefault(event["node"], []).append(event["time_ns"])

    @property
    def nodes(self) -> AbstractSet[int]:
        """Whose logs had bits flipped under them."""
        return self._begun.keys()

    def unread(self, history: PartitionHistory, *, at: int = _FAR) -> set[int]:
        """The nodes that may hold damage at that moment without having had to read it."""
        return {node for node in self._begun if not self._had_to_read(history, node, at)}

    def _had_to_read(self, history: PartitionHistory, node: int, at: int) -> bool:
        """It crashed and started again after the last damage, and its recovery point had never moved."""
        damaged = max(self._begun[node])
        ends = [row["log_end_offset"] or 0 for row in history.snapshots] + [history.end_offset or 0]
        if self._stopped.get(node) or max(ends) >= self._records_max:
            return False
        return any(damaged < started <= at for started in self._started.get(node, ()))


def _may_flush(context: RunContext) -> bool:
    """Whether somebody set when segments are full, or when they are flushed."""
    scenario = context.history.scenario
    if scenario is None or scenario.cluster.is_foreign:
        return True
    names = [*scenario.cluster.settings, *(name for topic in scenario.topics for name in topic.settings)]
    names += [row["key"] for row in context.tables[CONFIGURATION]]
    return any(part in name for name in names for part in _SETTINGS)
