"""What each fault did to the partitions' leaders and in-sync replicas, from the tables alone, for checks and reports.

All is counted from the moment the fault's effect was seen. A leader change is laid to one fault: the latest that had
the old leader among its victims. A shrunken ISR is laid to every fault whose victim it lost.
"""

import heapq
import itertools
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Row = Mapping[str, Any]
_NEVER = 2**62
_ON_NODES = ("kill", "stop", "pause", "wipe", "restart")


@dataclass(frozen=True, kw_only=True)
class Measure:
    """The longest of the partitions that the fault touched. never: it did not end; the time is a lower bound."""

    seconds: float
    never: bool
    uncertainty_s: float


Measures = dict[int, Measure]  # by fault


def states_in_force(states: Sequence[Row]) -> dict[tuple[str, int], list[Row]]:
    """Per partition, in order: the exact ones where there are any, else those that brokers were heard to say."""
    exact = [row for row in states if row["exact"]]
    histories: dict[tuple[str, int], list[Row]] = {}
    for row in sorted(exact or states, key=lambda row: (row["t"], row["leader_epoch"], row["partition_epoch"] or 0)):
        histories.setdefault((row["topic"], row["part"]), []).append(row)
    return histories


# ---- a new leader ---------------------------------------------------------------------------------------------------


def leader_times(states: Sequence[Row], faults: Sequence[Row], end_t: int) -> Measures:
    """Until the last of the partitions that a fault took the leader from had a new one."""
    found: Measures = {}
    culprits = _Culprits(faults)
    for partition in states_in_force(states).values():
        history = _reigns(partition)
        served: set[int] = set()
        for before, after in itertools.pairwise(history):
            fault = culprits.of(before, after["t"])
            if fault is None or fault["fault"] in served:
                continue
            served.add(fault["fault"])
            # An orderly stop hands over before it ends.
            seconds = max((after["t"] - fault["t_begin"]) / 1e9, 0.0)
            _keep_longest(found, fault["fault"], seconds, False, after["uncertainty_ns"])
        last = history[-1] if history else None
        fault = culprits.of(last, last["lost_at"]) if last is not None and last["lost_at"] is not None else None
        if last is not None and fault is not None and fault["fault"] not in served:
            seconds = max((end_t - fault["t_begin"]) / 1e9, 0.0)
            _keep_longest(found, fault["fault"], seconds, True, last["uncertainty_ns"])
    return found


def _reigns(states: Sequence[Row]) -> list[dict[str, Any]]:
    """The states in which a new epoch's leader began; `lost_at` on the last: it had no leader since."""
    history: list[dict[str, Any]] = []
    for row in states:
        if row["leader"] >= 0 and (not history or row["leader_epoch"] > history[-1]["leader_epoch"]):
            history.append({**row, "uncertainty_ns": row["uncertainty_ns"] or 0, "lost_at": None})
        elif history and row["leader"] < 0 and history[-1]["lost_at"] is None:
            history[-1]["lost_at"] = row["t"]
    return history


class _Culprits:
    """Faults by victim, found by time."""

    def __init__(self, faults: Sequence[Row]) -> None:
        by_node: dict[int, tuple[list[Row], list[Row]]] = {}
        for fault in sorted(faults, key=_asked):
            for node in set(fault["nodes"] or ()):
                by_node.setdefault(node, ([], []))[fault["kind"] not in _ON_NODES].append(fault)
        self._by_node = {node: (_ByTime(on_node), _ByTime(on_links)) for node, (on_node, on_links) in by_node.items()}

    def of(self, led: Row, t_ns: int) -> Row | None:
        """The latest fault before `t_ns` that had this leader among its victims.

        A node's fault counts if it struck while the leader led, even when the election came after its end; a link's
        fault only while it is in force.
        """
        known = self._by_node.get(led["leader"])
        if known is None:
            return None
        on_node, on_links = known
        for candidate in (on_node.in_force(t_ns, led["t"]), on_links.in_force(t_ns), on_node.latest(t_ns, led["t"])):
            if candidate is not None:
                return candidate
        return None


class _ByTime:
    """Faults in the order in which they were asked for."""

    def __init__(self, faults: Sequence[Row]) -> None:
        self._faults = faults
        self._asked = [_asked(fault) for fault in faults]
        self._latest: list[Row] = []  # to begin so far
        for fault in faults:
            later = not self._latest or _begin(fault) > _begin(self._latest[-1])
            self._latest.append(fault if later else self._latest[-1])
        self._last_ends = list(itertools.accumulate(map(_end, faults), max))
        self._last_begins = [_begin(fault) for fault in self._latest]

    def latest(self, t_ns: int, since_ns: int) -> Row | None:
        """The latest to begin of those asked for by `t_ns`, if it began at `since_ns` or later."""
        place = bisect_right(self._asked, t_ns) - 1
        return self._latest[place] if place >= 0 and self._last_begins[place] >= since_ns else None

    def in_force(self, t_ns: int, since_ns: int = -_NEVER) -> Row | None:
        found: Row | None = None
        place = bisect_right(self._asked, t_ns) - 1
        # No fault further back is in force, or none began later than the one that was found.
        while place >= 0 and self._last_ends[place] >= t_ns and self._last_begins[place] >= since_ns:
            if found is not None and self._last_begins[place] < _begin(found):
                break
            fault = self._faults[place]
            if _end(fault) >= t_ns and _begin(fault) >= since_ns and (found is None or _begin(fault) >= _begin(found)):
                found = fault
            place -= 1
        return found


def _begin(fault: Row) -> int:
    return int(fault["t_begin"])


def _end(fault: Row) -> int:
    return _NEVER if fault["t_end"] is None else int(fault["t_end"])


def _asked(fault: Row) -> int:
    """An orderly stop moves the leaders before its effect is seen."""
    asked = fault["t_asked"]
    return int(fault["t_begin"] if asked is None else asked)


def _keep_longest(found: Measures, fault: int, seconds: float, never: bool, uncertainty_ns: int | None) -> None:
    held = found.get(fault)
    if held is None or (never, seconds) > (held.never, held.seconds):
        found[fault] = Measure(seconds=seconds, never=never, uncertainty_s=(uncertainty_ns or 0) / 1e9)


# ---- whole again ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class _Lack:
    """A partition lacked a victim of every fault that was asked for while one state was in force, until `until`."""

    begin: int
    end: int
    never: bool
    until: int
    uncertainty_ns: int | None


def in_sync_times(states: Sequence[Row], faults: Sequence[Row], end_t: int) -> Measures:
    """Until the last of the partitions whose ISR lost a fault's victim had every member back that it had before."""
    found: Measures = {}
    partitions = states_in_force(states).values()
    by_victims: dict[frozenset[int], list[Row]] = {}
    for fault in faults:
        by_victims.setdefault(frozenset(fault["nodes"] or ()), []).append(fault)
    for victims, own in by_victims.items():
        lacks = [lack for partition in partitions for lack in _lacks(partition, victims, end_t)] if victims else []
        for fault, lack in _longest_for_each(own, lacks):
            seconds = max((lack.until - fault["t_begin"]) / 1e9, 0.0)
            _keep_longest(found, fault["fault"], seconds, lack.never, lack.uncertainty_ns)
    return found


def _lacks(partition: Sequence[Row], victims: frozenset[int], end_t: int) -> Iterator[_Lack]:
    members = [frozenset(row["isr"] or ()) for row in partition]
    for place, row in enumerate(partition[:-1]):
        end = partition[place + 1]["t"]
        lost = members[place] & victims
        if not lost or end <= row["t"]:
            continue
        missed = next((after for after in range(place + 1, len(partition)) if lost - members[after]), None)
        if missed is None:
            continue
        whole = next((after for after in range(missed, len(partition)) if members[place] <= members[after]), None)
        told = partition[missed if whole is None else whole]
        yield _Lack(begin=row["t"], end=end, never=whole is None, until=end_t if whole is None else told["t"],
                    uncertainty_ns=told["uncertainty_ns"])  # fmt: skip


def _longest_for_each(faults: Sequence[Row], lacks: Sequence[_Lack]) -> Iterator[tuple[Row, _Lack]]:
    """Each fault with the lack that lasted longest of those in which it was asked for; of equals the first told."""
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
