"""What each fault did to the partitions' leaders and in-sync replicas, from the tables alone, for checks and reports.

All is counted from the moment the fault's effect was seen. A leader change is laid to one fault: the latest that had
the old leader among its victims. A shrunken ISR is laid to every fault whose victim it lost.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Row = Mapping[str, Any]
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
    for partition in states_in_force(states).values():
        history = _reigns(partition)
        served: set[int] = set()
        for before, after in itertools.pairwise(history):
            fault = _culprit(faults, before, after["t"])
            if fault is None or fault["fault"] in served:
                continue
            served.add(fault["fault"])
            # An orderly stop hands over before it ends.
            seconds = max((after["t"] - fault["t_begin"]) / 1e9, 0.0)
            _keep_longest(found, fault["fault"], seconds, False, after["uncertainty_ns"])
        last = history[-1] if history else None
        fault = _culprit(faults, last, last["lost_at"]) if last is not None and last["lost_at"] is not None else None
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


def _culprit(faults: Sequence[Row], led: Row, t_ns: int) -> Row | None:
    """The latest fault before `t_ns` that had this leader among its victims.

    A node's fault counts if it struck while the leader led, even when the election came after its end; a link's fault
    only while it is in force.
    """
    known = [fault for fault in faults if _asked(fault) <= t_ns and led["leader"] in (fault["nodes"] or ())]
    on_nodes = [fault for fault in known if fault["kind"] in _ON_NODES and led["t"] <= fault["t_begin"]]
    in_force = [fault for fault in known if fault["t_end"] is None or fault["t_end"] >= t_ns]
    on_links = [fault for fault in in_force if fault["kind"] not in _ON_NODES]
    down = [fault for fault in on_nodes if fault in in_force]
    for candidates in (down, on_links, on_nodes):
        if candidates:
            return max(candidates, key=lambda fault: int(fault["t_begin"]))
    return None


def _asked(fault: Row) -> int:
    """An orderly stop moves the leaders before its effect is seen."""
    asked = fault["t_asked"]
    return int(fault["t_begin"] if asked is None else asked)


def _keep_longest(found: Measures, fault: int, seconds: float, never: bool, uncertainty_ns: int | None) -> None:
    held = found.get(fault)
    if held is None or (never, seconds) > (held.never, held.seconds):
        found[fault] = Measure(seconds=seconds, never=never, uncertainty_s=(uncertainty_ns or 0) / 1e9)


# ---- whole again ----------------------------------------------------------------------------------------------------


def in_sync_times(states: Sequence[Row], faults: Sequence[Row], end_t: int) -> Measures:
    """Until the last of the partitions whose ISR lost a fault's victim had every member back that it had before."""
    found: Measures = {}
    for partition in states_in_force(states).values():
        for fault in faults:
            before = [row for row in partition if row["t"] <= _asked(fault)]
            members = set(before[-1]["isr"] or ()) if before else set()
            victims = members & set(fault["nodes"] or ())
            after = [row for row in partition if row["t"] > _asked(fault)]
            missed = next((place for place, row in enumerate(after) if victims - set(row["isr"] or ())), None)
            if missed is None:
                continue
            whole = next((row for row in after[missed:] if members <= set(row["isr"] or ())), None)
            until = end_t if whole is None else whole["t"]
            seconds = max((until - fault["t_begin"]) / 1e9, 0.0)
            _keep_longest(found, fault["fault"], seconds, whole is None, (whole or after[missed])["uncertainty_ns"])
    return found
