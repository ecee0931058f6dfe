"""What each fault did to a run's availability: how long until a new leader, and how long no write was acknowledged.

Both are counted from the moment the fault's effect was seen. Which fault a leader change is laid to:
history/facts/fault_measures.py. Silence is laid to the latest fault before it: it counts from there on.
"""

import itertools
from dataclasses import dataclass

import pandas as pd

from harness.history.facts.fault_facts import begin_of, begun
from harness.history.facts.fault_measures import leader_times
from harness.history.schema.cluster_rows import FAULTS, PARTITION_STATES, STEPS
from reports.run_data import RunData

_OPEN_S = 1.0  # tried for so long after the last acknowledgement: the partition takes no writes any more


@dataclass(frozen=True, kw_only=True)
class FaultNumbers:
    """key: (what its step asks, or the fault's kind; how often it came before): the same in another run of a scenario,
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
    seen = sorted(begun(data.rows(FAULTS)), key=begin_of)
    end_ns = data.origin_ns + int(data.end_s * 1e9)
    led = leader_times(data.rows(PARTITION_STATES), seen, end_ns)
    steps = {row["step"]: row["arguments"] for row in data.rows(STEPS)}
    keys: dict[str, int] = {}
    made = []
    for number, row in enumerate(seen):
        begin = _seconds(data, begin_of(row))
        until = _seconds(data, begin_of(seen[number + 1])) if number + 1 < len(seen) else float("inf")
        step = row["step"] if row["step"] in steps else None
        anchor = str((steps[step] if step is not None else None) or row["kind"])
        keys[anchor] = keys.get(anchor, 0) + 1
        silent, silent_open = silence_after(sends, begin, until)
        leader = led.get(row["fault"])
        made.append(
            FaultNumbers(
                key=(anchor, keys[anchor]),
                kind=str(row["kind"]),
                label=data.readable(str(row["label_text"])),
                place=f"step {step + 1}" if step is not None else f"fault {number + 1}",
                begin=begin,
                end=None if row["end_ns"] is None else _seconds(data, row["end_ns"]),
                leader_s=None if leader is None else leader.seconds,
                leader_open=leader is not None and leader.never,
                leader_uncertainty_s=0.0 if leader is None else leader.uncertainty_s,
                silent_s=silent,
                silent_open=silent_open,
            )
        )
    return made


def _seconds(data: RunData, t_ns: int) -> float:
    seconds = data.seconds(t_ns)
    assert seconds is not None, "a moment that is given has a place on the axis"
    return seconds


# ---- silence --------------------------------------------------------------------------------------------------------


def silence_after(sends: pd.DataFrame, begin: float, until: float) -> tuple[float | None, bool]:
    """(the longest stretch without an acknowledgement in any partition between `begin` and `until`, never again).

    `until`: the next fault begins, and what is silent then counts as its own. None when nothing was asked for.
    """
    longest: tuple[bool, float] | None = None
    for _, rows in sends[sends["completed_ns"] > begin].groupby("partition_id"):
        answered = rows.loc[rows["ok"], "completed_ns"]
        within = answered[answered < until].to_list()
        stretches = [after - before for before, after in itertools.pairwise([begin, *within])]
        rest = (within or [begin])[-1]
        last_try = min(float(rows["completed_ns"].max()), until)
        goes_on = len(within) < len(answered)
        never = not goes_on and last_try < until and last_try - rest > _OPEN_S
        if goes_on or never:
            stretches.append(last_try - rest)
        longest = max(longest or (False, 0.0), (never, max(stretches, default=0.0)))
    return (longest[1], longest[0]) if longest is not None else (None, False)


def longest_silence(sends: pd.DataFrame, begin: float, end: float) -> float | None:
    """The longest stretch between two acknowledgements of one partition that lies between `begin` and `end`."""
    answered = sends[sends["ok"] & (sends["completed_ns"] >= begin) & (sends["completed_ns"] < end)]
    steps = answered.groupby("partition_id")["completed_ns"].diff().dropna()
    return float(steps.max()) if len(steps) else None
