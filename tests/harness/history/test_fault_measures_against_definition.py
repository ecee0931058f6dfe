"""The indexed computation of fault measures, compared with the definition, which checks every fault for every
partition."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.history.facts.fault_facts import begin_of
from harness.history.facts.fault_measures import in_sync_times, leader_times, states_in_force
from harness.history.schema.cluster_rows import FaultRow, PartitionStateRow
from tests.rows import row_of

NODES = (1, 2, 3)
END = 40


@st.composite
def faults(draw: st.DrawFn) -> list[FaultRow]:
    made: list[FaultRow] = []
    for number in range(draw(st.integers(0, 6))):
        begin = draw(st.integers(0, 30))
        made.append(
            row_of(
                FaultRow,
                fault=number,
                kind=draw(st.sampled_from(["kill", "pause", "cut", "slow"])),
                nodes=sorted(draw(st.sets(st.sampled_from(NODES), max_size=2))),
                begin_ns=begin,
                asked_ns=draw(st.one_of(st.none(), st.integers(max(0, begin - 3), begin))),
                end_ns=draw(st.one_of(st.none(), st.integers(begin, 35))),
            )
        )
    return made


@st.composite
def states(draw: st.DrawFn) -> list[PartitionStateRow]:
    made: list[PartitionStateRow] = []
    for part in range(draw(st.integers(0, 3))):
        t = epoch = 0
        for number in range(draw(st.integers(0, 7))):
            epoch += draw(st.integers(0, 1))
            made.append(
                row_of(
                    PartitionStateRow,
                    topic="t",
                    partition=part,
                    time_ns=t,
                    exact=True,
                    leader=draw(st.sampled_from([-1, *NODES])),
                    leader_epoch=epoch,
                    partition_epoch=number,
                    uncertainty_ns=0,
                    isr=sorted(draw(st.sets(st.sampled_from(NODES)))),
                )
            )
            t += draw(st.integers(0, 6))
    return made


def asked(fault: FaultRow) -> int:
    return begin_of(fault) if fault["asked_ns"] is None else fault["asked_ns"]


def whole_again(rows: Sequence[PartitionStateRow], facts: Sequence[FaultRow]) -> dict[int, tuple[bool, float]]:
    found: dict[int, tuple[bool, float]] = {}
    for partition in states_in_force(rows).values():
        for fault in facts:
            before = [row for row in partition if row["time_ns"] <= asked(fault)]
            members = set(before[-1]["isr"]) if before else set()
            victims = members & set(fault["nodes"])
            after = [row for row in partition if row["time_ns"] > asked(fault)]
            missed = next((place for place, row in enumerate(after) if victims - set(row["isr"])), None)
            if missed is None:
                continue
            whole = next((row for row in after[missed:] if members <= set(row["isr"])), None)
            until = END if whole is None else whole["time_ns"]
            lasted = (whole is None, max((until - begin_of(fault)) / 1e9, 0.0))
            found[fault["fault"]] = max(found.get(fault["fault"], lasted), lasted)
    return found


def culprit(facts: Sequence[FaultRow], led: Any, time_ns: int) -> FaultRow | None:
    known = [fault for fault in facts if asked(fault) <= time_ns and led["leader"] in fault["nodes"]]
    on_nodes = [fault for fault in known if fault["kind"] in ("kill", "pause") and led["time_ns"] <= begin_of(fault)]
    in_force = [fault for fault in known if fault["end_ns"] is None or fault["end_ns"] >= time_ns]
    on_links = [fault for fault in in_force if fault["kind"] in ("cut", "slow")]
    for candidates in ([fault for fault in on_nodes if fault in in_force], on_links, on_nodes):
        if candidates:
            return max(candidates, key=begin_of)
    return None


def new_leader(rows: Sequence[PartitionStateRow], facts: Sequence[FaultRow]) -> dict[int, tuple[bool, float]]:
    found: dict[int, tuple[bool, float]] = {}
    for partition in states_in_force(rows).values():
        terms: list[dict[str, Any]] = []
        for row in partition:
            if row["leader"] >= 0 and (not terms or row["leader_epoch"] > terms[-1]["leader_epoch"]):
                terms.append({**row, "lost_at": None})
            elif terms and row["leader"] < 0 and terms[-1]["lost_at"] is None:
                terms[-1]["lost_at"] = row["time_ns"]
        served = set()
        changes = [(one, two["time_ns"], False) for one, two in pairwise(terms)]
        changes += [(one, one["lost_at"], True) for one in terms[-1:] if one["lost_at"] is not None]
        for led, t, never in changes:
            fault = culprit(facts, led, t)
            if fault is None or fault["fault"] in served:
                continue
            served.add(fault["fault"])
            lasted = (never, max(((END if never else t) - begin_of(fault)) / 1e9, 0.0))
            found[fault["fault"]] = max(found.get(fault["fault"], lasted), lasted)
    return found


def brief(measures: dict[int, Any]) -> dict[int, tuple[bool, float]]:
    return {fault: (each.never, each.seconds) for fault, each in measures.items()}


@pytest.mark.slow
@settings(max_examples=400, deadline=None)
@given(states(), faults())
def test_the_index_finds_what_the_definition_says(rows: list[PartitionStateRow], told: list[FaultRow]) -> None:
    assert brief(in_sync_times(rows, told, END)) == whole_again(rows, told)
    # Any of several faults that began at the same moment may be named.
    moments = [begin_of(fault) for fault in told]
    if len(set(moments)) == len(moments):
        assert brief(leader_times(rows, told, END)) == new_leader(rows, told)
