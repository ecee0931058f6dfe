"""Damaged logs, and how long damage can explain an observation: until the broker had to read the damaged part.

A broker that starts after a crash reads its log from its recovery point on, and must cut damaged records. The recovery
point moves when a segment is full, at a flush, and at a clean stop; only if none of these happened is it certain that
the broker read the whole log. Until then the log may contain damage that the broker has not seen.
"""

from collections.abc import Set as AbstractSet

from harness.checks.findings import RunContext
from harness.checks.model.partition_history import PartitionHistory
from harness.history.schema.cluster_rows import BROKER_EVENTS, CONFIGURATION
from harness.history.schema.column_types import END_OF_TIME_NS

_SEGMENT_BYTES = 16 << 20  # at least, by default
_RECORD_BYTES = 200  # at most, in addition to its value: a batch of its own, and a key
_SETTINGS = ("segment", "flush")  # settings that move a recovery point contain one of these


class Damages:
    """The damage of one run that was seen to take effect."""

    def __init__(self, context: RunContext) -> None:
        scenario = context.history.scenario
        value_bytes = scenario.workload.facts.value_bytes if scenario is not None else 0
        self._records_max = 0 if _may_flush(context) else _SEGMENT_BYTES // (value_bytes + _RECORD_BYTES)
        self._begun: dict[int, list[int]] = {}
        self._stopped: dict[int, list[int]] = {}
        for row in context.history.faults:
            times = self._begun if row["kind"] == "damage" else self._stopped if row["kind"] == "stop" else None
            if times is not None and row["proved"]:
                for node in row["nodes"] or ():
                    times.setdefault(node, []).append(row["begin_ns"] or 0)
        self._started: dict[int, list[int]] = {}
        for event in sorted(context.tables[BROKER_EVENTS], key=lambda event: event["time_ns"]):
            if event["event"] == "broker_start":
                self._started.setdefault(event["node"], []).append(event["time_ns"])

    @property
    def nodes(self) -> AbstractSet[int]:
        """The nodes with flipped bits in their logs."""
        return self._begun.keys()

    def unread(self, history: PartitionHistory, *, at: int = END_OF_TIME_NS) -> set[int]:
        """The nodes that may hold damage at that moment without having had to read it."""
        return {node for node in self._begun if not self._had_to_read(history, node, at)}

    def _had_to_read(self, history: PartitionHistory, node: int, at: int) -> bool:
        """Whether it crashed and started again after the last damage, and its recovery point had never moved."""
        damaged = max(self._begun[node])
        ends = [row["log_end_offset"] or 0 for row in history.snapshots] + [history.end_offset or 0]
        if self._stopped.get(node) or max(ends) >= self._records_max:
            return False
        return any(damaged < started <= at for started in self._started.get(node, ()))


def _may_flush(context: RunContext) -> bool:
    """Whether a setting changes when segments are full or flushed."""
    scenario = context.history.scenario
    if scenario is None or scenario.cluster.is_foreign:
        return True
    names = [*scenario.cluster.settings, *(name for topic in scenario.topics for name in topic.settings)]
    names += [row["key"] for row in context.tables[CONFIGURATION] if row["source"] is None]
    return any(part in name for name in names for part in _SETTINGS)
