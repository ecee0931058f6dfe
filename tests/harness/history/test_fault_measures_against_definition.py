"""Measures found by index are those of the definition, which looks at every fault for every partition."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from harness.history.fault_measures import in_sync_times, leader_times, states_in_force

NODES = (1, 2, 3)
END = 40
Row = dict[str, Any]


@st.composite
def faults(draw: st.DrawFn) -> list[Row]:
    made = []
    for number in range(draw(st.integers(0, 6))):
        begin = draw(st.integers(0, 30))
        made.append(
            {"fault": number, "kind": draw(st.sampled_from(["kill", "pause", "cut", "slow"])),
             "nodes": sorted(draw(st.sets(st.sampled_from(NODES), max_size=2))), "t_begin": begin,
             "t_asked": draw(st.one_of(st.none(), st.integers(max(0, begin - 3), begin))),
             "t_end": draw(st.one_of(st.none(), st.integers(begin, 35)))}
        )  # fmt: skip
    return made


@st.composite
def states(draw: st.DrawFn) -> list[Row]:
    made = []
    for part in range(draw(st.integers(0, 3))):
        t = epoch = 0
        for number in range(draw(st.integers(0, 7))):
            epoch += draw(st.integers(0, 1))
            made.append(
                {"topic": "t", "part": part, "t": t, "exact": True, "leader": draw(st.sampled_from([-1, *NODES])),
                 "leader_epoch": epoch, "partition_epoch": number, "uncertainty_ns": 0,
                 "isr": sorted(draw(st.sets(st.sampled_from(NODES))))}
            )  # fmt: skip
            t += draw(st.integers(0, 6))
    return made


def asked(fault: Row) -> int:
    return int(fault["t_begin"] if fault["t_asked"] is None else fault["t_asked"])


def whole_again(rows: Sequence[Row], told: Sequence[Row]) -> dict[int, tuple[bool, float]]:
    found: dict[int, tuple[bool, float]] = {}
    for partition in states_in_force(rows).values():
        for fault in told:
            before = [row for row in partition if row["t"] <= asked(fault)]
            members = set(before[-1]["isr"]) if before else set()
            victims = members & set(fault["nodes"])
            after = [row for row in partition if row["t"] > asked(fault)]
            missed = next((place for place, row in enumerate(after) if victims - set(row["isr"])), None)
            if missed is None:
                continue
            whole = next((row for row in after[missed:] if members <= set(row["isr"])), None)
            until = END if whole is None else whole["t"]
            lasted = (whole is None, max((until - fault["t_begin"]) / 1e9, 0.0))
            found[fault["fault"]] = max(found.get(fault["fault"], lasted), lasted)
    return found


def culprit(told: Sequence[Row], led: Any, t: int) -> Row | None:
    known = [fault for fault in told if asked(fault) <= t and led["leader"] in fault["nodes"]]
    on_nodes = [fault for fault in known if fault["kind"] in ("kill", "pause") and led["t"] <= fault["t_begin"]]
    in_force = [fault for fault in known if fault["t_end"] is None or fault["t_end"] >= t]
    on_links = [fault for fault in in_force if fault["kind"] in ("cut", "slow")]
    for candidates in ([fault for fault in on_nodes if fault in in_force], on_links, on_nodes):
        if candidates:
            return max(candidates, key=lambda fault: int(fault["t_begin"]))
    return None


def new_leader(rows: Sequence[Row], told: Sequence[Row]) -> dict[int, tuple[bool, float]]:
    found: dict[int, tuple[bool, float]] = {}
    for partition in states_in_force(rows).values():
        reigns: list[Row] = []
        for row in partition:
            if row["leader"] >= 0 and (not reigns or row["leader_epoch"] > reigns[-1]["leader_epoch"]):
                reigns.append({**row, "lost_at": None})
            elif reigns and row["leader"] < 0 and reigns[-1]["lost_at"] is None:
                reigns[-1]["lost_at"] = row["t"]
        served = set()
        changes = [(one, two["t"], False) for one, two in pairwise(reigns)]
        changes += [(one, one["lost_at"], True) for one in reigns[-1:] if one["lost_at"] is not None]
        for led, t, never in changes:
            fault = culprit(told, led, t)
            if fault is None or fault["fault"] in served:
                continue
            served.add(fault["fault"])
            lasted = (never, max(((END if never else t) - fault["t_begin"]) / 1e9, 0.0))
            found[fault["fault"]] = max(found.get(fault["fault"], lasted), lasted)
    return found


def brief(measures: dict[int, Any]) -> dict[int, tuple[bool, float]]:
    return {fault: (each.never, each.seconds) for fault, each in measures.items()}


@settings(max_examples=400, deadline=None)
@given(states(), faults())
def test_the_index_finds_what_the_definition_says(rows: list[Row], told: list[Row]) -> None:
    assert brief(in_sync_times(rows, told, END)) == whole_again(rows, told)
    # Of faults that began at the same moment either may be named.
    moments = [fault["t_begin"] for fault in told]
    if len(set(moments)) == len(moments):
        assert brief(leader_times(rows, told, END)) == new_leader(rows, told)
