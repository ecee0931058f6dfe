"""What each fault did to a run's availability: how long until a new leader, and how long no write was acknowledged.

Both are counted from the moment the fault's effect was seen. A leader change is laid to one fault: the latest that had
the old leader among its victims. Silence is laid to the latest fault before it: it counts from there on.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from reports.run_data import RunData

_OPEN_S = 1.0  # tried for so long after the last acknowledgement: the partition takes no writes any more
_ON_NODES = ("kill", "stop", "pause", "wipe", "restart")


@dataclass(frozen=True, kw_only=True)
class FaultNumbers:
    """key: (the step's text or the fault's kind, how often it came before), the same in another run of the scenario,
    also where a plan has more steps on one system than on another. end None: never healed.

    leader_s: until the last of the partitions it took the leader from had a new one; None when it took none.
    silent_s: the longest time without an acknowledgement in any one partition, until the next fault begins.
    open: that partition took no write again, or never had a leader again; the time is then a lower bound.
    """

    key: tuple[str, int]
    kind: str
    label: str
    place: str
    begin: float
    end: float | None
    leader_s: float | None
    leader_open: bool
    leader_uncertainty_s: float
    silent_s: float | None
    silent_open: bool


def fault_numbers(data: RunData, sends: pd.DataFrame) -> list[FaultNumbers]:
    """Faults whose effect was seen, in the order in which they began."""
    seen = sorted((row for row in data.rows("faults") if row["t_begin"] is not None), key=lambda row: row["t_begin"])
    led = _elections(data, seen)
    steps = {row["step"]: data.readable(str(row["text"])) for row in data.rows("steps")}
    keys: dict[str, int] = {}
    made = []
    for number, row in enumerate(seen):
        begin = _seconds(data, row["t_begin"])
        until = _seconds(data, seen[number + 1]["t_begin"]) if number + 1 < len(seen) else float("inf")
        in_plan = row["step"] is not None and row["step"] in steps
        anchor = steps[row["step"]] if in_plan else str(row["kind"])
        keys[anchor] = keys.get(anchor, 0) + 1
        silent, silent_open = silence_after(sends, begin, until)
        leader, leader_open, uncertainty = led.get(row["fault"], (None, False, 0.0))
        made.append(
            FaultNumbers(
                key=(anchor, keys[anchor]),
                kind=str(row["kind"]),
                label=data.readable(str(row["label"])),
                place=f"step {row['step'] + 1}" if in_plan else f"fault {number + 1}",
                begin=begin,
                end=None if row["t_end"] is None else _seconds(data, row["t_end"]),
                leader_s=leader,
                leader_open=leader_open,
                leader_uncertainty_s=uncertainty,
                silent_s=silent,
                silent_open=silent_open,
            )
        )
    return made


def _seconds(data: RunData, t_ns: int) -> float:
    seconds = data.seconds(t_ns)
    assert seconds is not None, "a moment that is given has a place on the axis"
    return seconds


# ---- a new leader ---------------------------------------------------------------------------------------------------


def _elections(data: RunData, faults: Sequence[Mapping[str, Any]]) -> dict[int, tuple[float, bool, float]]:
    """fault -> (seconds until the last partition it took the leader from had one, never again, uncertainty)."""
    found: dict[int, tuple[float, bool, float]] = {}
    for history in _histories(data).values():
        served: set[int] = set()
        for before, after in itertools.pairwise(history):
            fault = _culprit(faults, before, after["t"])
            if fault is None or fault["fault"] in served:
                continue
            served.add(fault["fault"])
            seconds = max((after["t"] - fault["t_begin"]) / 1e9, 0.0)  # an orderly stop hands over before it ends
            _keep_longest(found, fault["fault"], seconds, False, after["uncertainty_ns"] / 1e9)
        last = history[-1]
        orphan = last.get("lost_at")
        fault = _culprit(faults, last, orphan) if orphan is not None else None
        if fault is not None and fault["fault"] not in served:
            end_s = data.end_s - _seconds(data, fault["t_begin"])
            _keep_longest(found, fault["fault"], max(end_s, 0.0), True, last["uncertainty_ns"] / 1e9)
    return found


def _keep_longest(
    found: dict[int, tuple[float, bool, float]], fault: int, seconds: float, never: bool, uncertainty: float
) -> None:
    held = found.get(fault)
    if held is None or (never, seconds) > (held[1], held[0]):
        found[fault] = (seconds, never, uncertainty)


def _histories(data: RunData) -> dict[tuple[str, int], list[dict[str, Any]]]:
    """Per partition the states in which a new epoch's leader began; `lost_at` on the last: it had no leader since."""
    rows = data.rows("partition_states")
    exact = [row for row in rows if row["exact"]]
    histories: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for row in sorted(exact or rows, key=lambda row: (row["t"], row["leader_epoch"], row["partition_epoch"] or 0)):
        history = histories.setdefault((row["topic"], row["part"]), [])
        if row["leader"] >= 0 and (not history or row["leader_epoch"] > history[-1]["leader_epoch"]):
            history.append({**row, "uncertainty_ns": row["uncertainty_ns"] or 0, "lost_at": None})
        elif history and row["leader"] < 0 and history[-1]["lost_at"] is None:
            history[-1]["lost_at"] = row["t"]
    return {name: history for name, history in histories.items() if history}


def _culprit(faults: Sequence[Mapping[str, Any]], led: Mapping[str, Any], t_ns: int) -> Mapping[str, Any] | None:
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


def _asked(fault: Mapping[str, Any]) -> int:
    """An orderly stop moves the leaders before its effect is seen."""
    asked = fault["t_asked"]
    return int(fault["t_begin"] if asked is None else asked)


# ---- silence --------------------------------------------------------------------------------------------------------


def silence_after(sends: pd.DataFrame, begin: float, until: float) -> tuple[float | None, bool]:
    """(the longest stretch without an acknowledgement in any partition between `begin` and `until`, never again).

    `until`: the next fault begins, and what is silent then counts as its own. None when nothing was asked for.
    """
    longest: tuple[bool, float] | None = None
    for _, rows in sends[sends["t1"] > begin].groupby("tp"):
        answered = rows.loc[rows["ok"], "t1"]
        within = answered[answered < until].to_list()
        stretches = [after - before for before, after in itertools.pairwise([begin, *within])]
        rest = (within or [begin])[-1]
        last_try = min(float(rows["t1"].max()), until)
        goes_on = len(within) < len(answered)
        never = not goes_on and last_try < until and last_try - rest > _OPEN_S
        if goes_on or never:
            stretches.append(last_try - rest)
        longest = max(longest or (False, 0.0), (never, max(stretches, default=0.0)))
    return (longest[1], longest[0]) if longest is not None else (None, False)


def longest_silence(sends: pd.DataFrame, begin: float, end: float) -> float | None:
    """The longest stretch between two acknowledgements of one partition that lies between `begin` and `end`."""
    told = sends[sends["ok"] & (sends["t1"] >= begin) & (sends["t1"] < end)]
    steps = told.groupby("tp")["t1"].diff().dropna()
    return float(steps.max()) if len(steps) else None
