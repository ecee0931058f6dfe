"""The effect of each fault on the partitions' leaders and in-sync replicas, from the tables alone, for checks and
reports.

Times are in seconds from the moment when the fault's effect was seen. A leader change is attributed to one fault: the
latest that had the old leader among its victims. A shrunken ISR is attributed to every fault whose victim left it.
"""

import heapq
import itertools
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.history.facts.fault_facts import begin_of, end_of
from harness.history.schema.cluster_rows import FaultRow, PartitionStateRow
from harness.history.schema.column_types import END_OF_TIME_NS

_ON_NODES = ("kill", "stop", "pause", "wipe", "restart")


@dataclass(frozen=True, kw_only=True)
class Measure:
    """The longest time among the partitions that the fault affected. never: it did not end; the time is a
    lower bound."""

    seconds: float
    never: bool
    uncertainty_s: float


Measures = dict[int, Measure]  # by fault


def states_in_force(states: Sequence[PartitionStateRow]) -> dict[tuple[str, int], list[PartitionStateRow]]:
    """Per partition, in order: the exact states if there are any, otherwise those polled from brokers."""
    exact = [row for row in states if row["exact"]]
    histories: dict[tuple[str, int], list[PartitionStateRow]] = {}
    for row in sorted(
        exact or states, key=lambda row: (row["time_ns"], row["leader_epoch"], row["partition_epoch"] or 0)
    ):
        histories.setdefault((row["topic"], row["partition"]), []).append(row)
    return histories


# ---- a new leader ---------------------------------------------------------------------------------------------------


def leader_times(states: Sequence[PartitionStateRow], faults: Sequence[FaultRow], end_ns: int) -> Measures:
    """Time until the last partition that lost its leader by the fault had a new one."""
    found: Measures = {}
    culprits = _Culprits(faults)
    for partition in states_in_force(states).values():
        history = _terms(partition)
        served: set[int] = set()
        for before, after in itertools.pairwise(history):
            fault = culprits.of(before, after.time_ns)
            if fault is None or fault["fault"] in served:
                continue
            served.add(fault["fault"])
            # An orderly stop hands over leaderships before its effect is seen.
            seconds = max((after.time_ns - begin_of(fault)) / 1e9, 0.0)
            _keep_longest(found, fault["fault"], seconds, False, after.uncertainty_ns)
        last = history[-1] if history else None
        fault = culprits.of(last, last.lost_at) if last is not None and last.lost_at is not None else None
        if last is not None and fault is not None and fault["fault"] not in served:
            seconds = max((end_ns - begin_of(fault)) / 1e9, 0.0)
            _keep_longest(found, fault["fault"], seconds, True, last.uncertainty_ns)
    return found


@dataclass(slots=True)
class _Term:
    """A leader's time in an epoch. lost_at: of the last, since when it had no leader."""

    time_ns: int
    uncertainty_ns: int
    leader: int
    epoch: int
    lost_at: int | None = None


def _terms(states: Sequence[PartitionStateRow]) -> list[_Term]:
    """The states in which a new epoch's leader began; `lost_at` of the last one: since then it has no leader."""
    history: list[_Term] = []
    for row in states:
        if row["leader"] >= 0 and (not history or row["leader_epoch"] > history[-1].epoch):
            history.append(_Term(row["time_ns"], row["uncertainty_ns"] or 0, row["leader"], row["leader_epoch"]))
        elif history and row["leader"] < 0 and history[-1].lost_at is None:
            history[-1].lost_at = row["time_ns"]
    return history


class _Culprits:
    """Faults by victim, searchable by time."""

    def __init__(self, faults: Sequence[FaultRow]) -> None:
        by_node: dict[int, tuple[list[FaultRow], list[FaultRow]]] = {}
        for fault in sorted(faults, key=_asked):
            for node in set(fault["nodes"] or ()):
                by_node.setdefault(node, ([], []))[fault["kind"] not in _ON_NODES].append(fault)
        self._by_node = {node: (_ByTime(on_node), _ByTime(on_links)) for node, (on_node, on_links) in by_node.items()}

    def of(self, led: _Term, t_ns: int) -> FaultRow | None:
        """The latest fault before `t_ns` with this leader among its victims.

        A node's fault counts if it began while the leader led, even if the election came after its end; a link's fault
        only while it is in force.
        """
        known = self._by_node.get(led.leader)
        if known is None:
            return None
        on_node, on_links = known
        for candidate in (
            on_node.in_force(t_ns, led.time_ns),
            on_links.in_force(t_ns),
            on_node.latest(t_ns, led.time_ns),
        ):
            if candidate is not None:
                return candidate
        return None


class _ByTime:
    """Faults in the order of their requests."""

    def __init__(self, faults: Sequence[FaultRow]) -> None:
        self._faults = faults
        self._asked = [_asked(fault) for fault in faults]
        self._latest: list[FaultRow] = []  # the latest begin so far
        for fault in faults:
            later = not self._latest or begin_of(fault) > begin_of(self._latest[-1])
            self._latest.append(fault if later else self._latest[-1])
        self._last_ends = list(itertools.accumulate(map(end_of, faults), max))
        self._last_begins = [begin_of(fault) for fault in self._latest]

    def latest(self, t_ns: int, since_ns: int) -> FaultRow | None:
        """The fault with the latest begin among those requested by `t_ns`, if it began at `since_ns` or later."""
        place = bisect_right(self._asked, t_ns) - 1
        return self._latest[place] if place >= 0 and self._last_begins[place] >= since_ns else None

    def in_force(self, t_ns: int, since_ns: int = -END_OF_TIME_NS) -> FaultRow | None:
        found: FaultRow | None = None
        place = bisect_right(self._asked, t_ns) - 1
        # No earlier fault is in force, or none began later than the one found.
        while place >= 0 and self._last_ends[place] >= t_ns and self._last_begins[place] >= since_ns:
            if found is not None and self._last_begins[place] < begin_of(found):
                break
            fault = self._faults[place]
            if (
                end_of(fault) >= t_ns
                and begin_of(fault) >= since_ns
                and (found is None or begin_of(fault) >= begin_of(found))
            ):
                found = fault
            place -= 1
        return found


def _asked(fault: FaultRow) -> int:
    """The time of the request: an orderly stop moves leaders before its effect is seen."""
    asked = fault["asked_ns"]
    return begin_of(fault) if asked is None else asked


def _keep_longest(found: Measures, fault: int, seconds: float, never: bool, uncertainty_ns: int | None) -> None:
    held = found.get(fault)
    if held is None or (never, seconds) > (held.never, held.seconds):
        found[fault] = Measure(seconds=seconds, never=never, uncertainty_s=(uncertainty_ns or 0) / 1e9)


# ---- complete ISRs -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class _Lack:
    """Until `until`, a partition's ISR lacked a victim of every fault that was requested in one state."""

    begin: int
    end: int
    never: bool
    until: int
    uncertainty_ns: int | None


def in_sync_times(states: Sequence[PartitionStateRow], faults: Sequence[FaultRow], end_ns: int) -> Measures:
    """Time until the last partition whose ISR lost a victim of the fault had all earlier members again."""
    found: Measures = {}
    partitions = states_in_force(states).values()
    by_victims: dict[frozenset[int], list[FaultRow]] = {}
    for fault in faults:
        by_victims.setdefault(frozenset(fault["nodes"] or ()), []).append(fault)
    for victims, own in by_victims.items():
        lacks = [lack for partition in partitions for lack in _lacks(partition, victims, end_ns)] if victims else []
        for fault, lack in _longest_for_each(own, lacks):
            seconds = max((lack.until - begin_of(fault)) / 1e9, 0.0)
            _keep_longest(found, fault["fault"], seconds, lack.never, lack.uncertainty_ns)
    return found


def _lacks(partition: Sequence[PartitionStateRow], victims: frozenset[int], end_ns: int) -> Iterator[_Lack]:
    members = [frozenset(row["isr"] or ()) for row in partition]
    for place, row in enumerate(partition[:-1]):
        end = partition[place + 1]["time_ns"]
        lost = members[place] & victims
        if not lost or end <= row["time_ns"]:
            continue
        missed = next((after for after in range(place + 1, len(partition)) if lost - members[after]), None)
        if missed is None:
            continue
        whole = next((after for after in range(missed, len(partition)) if members[place] <= members[after]), None)
        state = partition[missed if whole is None else whole]
        yield _Lack(
            begin=row["time_ns"],
            end=end,
            never=whole is None,
            until=end_ns if whole is None else state["time_ns"],
            uncertainty_ns=state["uncertainty_ns"],
        )


def _longest_for_each(faults: Sequence[FaultRow], lacks: Sequence[_Lack]) -> Iterator[tuple[FaultRow, _Lack]]:
    """For each fault the longest gap among those that it was requested in; of equal ones the first."""
    begun = sorted(range(len(lacks)), key=lambda number: lacks[number].begin)
    waiting: list[tuple[bool, int, int]] = []
    taken = 0
    for fault in sorted(faults, key=_asked):
        asked = _asked(fault)
        while taken < len(begun) and lacks[begun[taken]].begin <= asked:
            lack = lacks[begun[taken]]
            heapq.heappush(waiting, (not lack.never, -lack.until, begun[taken]))
            taken += 1
        while waiting and lacks[waiting[0][2]].end <= asked:
            heapq.heappop(waiting)
        if waiting:
            yield fault, lacks[waiting[0][2]]
