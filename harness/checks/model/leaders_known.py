"""How long nothing held a run's coordinators and partitions up: they kept their leaders, and no fault was in force.

Where the states of the internal topics' partitions were recorded, they say whether a coordinator was there, and a dead
broker holds nothing up once others lead. Where they were not, only a time counts in which every partition's replicas
were in sync and no fault was in force at all.
"""

from bisect import bisect_right
from collections.abc import Collection, Iterable, Sequence

from harness.checks.model.elections import exact_states
from harness.checks.model.partition_history import RunHistory
from harness.checks.spark.tables import Tables
from harness.history.schema.cluster_rows import FaultRow, PartitionStateRow
from harness.history.schema.column_types import END_OF_TIME_NS
from harness.history.schema.internal_rows import INTERNAL_STATES

_SHOWN_BY_LEADERS = frozenset({"kill", "stop"})
Span = tuple[int, int]
Place = tuple[str, int]  # topic, partition


class LeadersKnown:
    """Of one run. places: the topic-partitions that count; None: all of them."""

    def __init__(self, history: RunHistory, tables: Tables, places: Collection[Place] | None = None) -> None:
        internal: dict[Place, list[PartitionStateRow]] = {}
        for row in tables.rows(INTERNAL_STATES, history.run):
            internal.setdefault((row["topic"], row["partition"]), []).append(row)
        spans = [span for fault in history.faults if (span := _in_force(fault, bool(internal))) is not None]
        own = [
            each
            for each in history.partitions.values()
            if each.deletion is None
            and not each.is_set_apart
            and (places is None or (each.topic, each.partition) in places)
        ]
        for partition in own:
            spans += _leaderless(partition.states, all_in_sync=not internal)
        for place, rows in internal.items():
            if places is not None and place not in places:
                continue
            spans += _leaderless(exact_states(rows), all_in_sync=False)
        self._known = all(partition.states for partition in own)
        self._busy = _merged(spans)
        self._begins = [begin for begin, _ in self._busy]

    def for_long(self, since_ns: int, length_ns: int) -> int:
        """The end of the first time of this length after `since_ns` in which nothing held anything up."""
        if not self._known:
            return END_OF_TIME_NS
        begin = since_ns
        place = max(bisect_right(self._begins, since_ns) - 1, 0)
        for busy_from, busy_until in self._busy[place:]:
            if busy_until < begin:
                continue
            if busy_from >= begin + length_ns:
                break
            begin = busy_until
        return min(begin + length_ns, END_OF_TIME_NS)


def _in_force(fault: FaultRow, leaders_are_known: bool) -> Span | None:
    """When it may have been; None for one that holds nothing up."""
    if leaders_are_known and fault["kind"] in _SHOWN_BY_LEADERS:
        return None
    begin, end = fault["asked_ns"] or fault["begin_ns"], fault["end_ns"]
    if begin is None:
        return None
    if end is not None:
        return begin, end
    return (begin, END_OF_TIME_NS) if fault["begin_ns"] is not None else None


def _leaderless(states: Sequence[PartitionStateRow], *, all_in_sync: bool) -> Iterable[Span]:
    if not states:
        return
    yield -END_OF_TIME_NS, states[0]["time_ns"]
    for row, after in zip(states, [*states[1:], None], strict=True):
        lags = all_in_sync and not set(row["replicas"] or ()) <= set(row["isr"])
        apart = row["uncertainty_ns"] or 0
        if row["leader"] < 0 or lags:
            until = END_OF_TIME_NS if after is None else after["time_ns"] + (after["uncertainty_ns"] or 0)
            yield row["time_ns"] - apart, until
        else:  # a new leader takes up what the one before had left
            yield row["time_ns"] - apart, row["time_ns"] + apart


def _merged(spans: Iterable[Span]) -> list[Span]:
    """Without overlaps, in order of time."""
    found: list[Span] = []
    for begin, end in sorted(spans):
        if found and begin <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], end)
        else:
            found.append((begin, end))
    return found
