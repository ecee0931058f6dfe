"""Every condition has a name, a meaning and a counter, and an unknown one is refused with the nearest known."""

import dataclasses
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from harness.checks.coverage import COUNTERS, acks_during_fault
from harness.errors import UsageError
from harness.verdict import (
    COVERAGE_CONDITIONS,
    FAULT_CONDITIONS,
    coverage_of_kind,
    is_coverage_name,
    is_met,
    kinds_counted_by,
    unknown_coverage_name,
)
from tests.harness.checks.histories.build import History, judge_all, tables
from tests.harness.checks.twins.twins import nothing_happened


def test_every_condition_that_a_scenario_may_name_can_be_counted() -> None:
    assert COUNTERS.keys() | FAULT_CONDITIONS.keys() == COVERAGE_CONDITIONS.keys()
    assert not COUNTERS.keys() & FAULT_CONDITIONS.keys()


def test_faults_of_any_kind_can_be_counted_by_the_name_of_their_kind() -> None:
    assert is_coverage_name("faults_of_clock_skew")
    assert kinds_counted_by("faults_of_clock_skew") == ("clock-skew",)
    assert coverage_of_kind("clock-skew") == "faults_of_clock_skew"
    assert coverage_of_kind("kill") == "kills"
    assert not is_coverage_name("faults_of_")


def test_an_unknown_condition_is_refused_with_the_nearest_known_name() -> None:
    assert (is_coverage_name("acks"), is_coverage_name("election")) == (True, False)
    refusal = unknown_coverage_name("election")
    assert "unknown condition 'election'; nearest: elections" in str(refusal)


@pytest.mark.parametrize(
    ("required", "seen", "met"),
    [
        ("3", 3, True),
        ("3", 2, False),
        (">= 3", 4, True),
        ("= 0", 0, True),
        ("= 0", 1, False),
        ("== 2", 2, True),
        ("<= 2", 2, True),
        ("<= 2", 3, False),
    ],
)
def test_a_bare_number_means_at_least(required: str, seen: int, met: bool) -> None:
    assert is_met(required, seen) is met


def test_a_requirement_that_is_no_number_is_refused() -> None:
    with pytest.raises(UsageError, match="is no requirement"):
        is_met("many", 3)


def test_a_record_counts_as_acknowledged_during_a_fault_if_its_leader_answered_while_one_was_in_force(
    spark: SparkSession, tmp_path: Path
) -> None:
    history, calm = History(run=0), History(run=1)
    history.fault("kill", [2], at=5, until=7)
    history.fault("pause", [1], at=6, until=None)
    for value, (at, acks, status) in enumerate(
        [(4.0, -1, 0), (5.5, -1, 0), (5.5, 1, 0), (5.5, 0, 0), (5.5, -1, 2), (5.5, -1, 1), (9.0, -1, 0)]
    ):
        history.send(value, value if status == 0 else None, at=at, acks=acks, status=status)
    calm.send(0, 0, at=5.5)

    assert acks_during_fault(tables(spark, tmp_path, [history, calm])) == {0: 3}


@pytest.mark.parametrize(("generation", "seen"), [(None, 2), (7, 0)])
def test_rebalances_of_members_that_tell_no_generations_are_those_of_their_coordinators_log(
    spark: SparkSession, tmp_path: Path, generation: int | None, seen: int
) -> None:
    history = nothing_happened()
    assert history.scenario is not None
    history.scenario = dataclasses.replace(history.scenario, coverage={"rebalances": ">= 0"})
    history.client(8, role="consumer", group="g", offset_reset="earliest")
    history.group("assigned", at=1, process=8, generation=generation)
    kept = [("g", 1, ["m8"]), ("g", 2, ["m8", "m9"]), ("g", 2, ["m8", "m9"]), ("g", 3, []), ("g", 4, ["m8"])]
    for offset, (group, number, members) in enumerate([*kept, ("another", 5, ["x"])]):
        history._add(
            "consumer_offsets",
            snapshots=[0],
            partition=7,
            offset=offset,
            kind="group",
            removed=False,
            transactional=False,
            group=group,
            generation=number,
            members=members,
        )

    [answer] = judge_all(spark, tmp_path, [history], with_evidence=False)

    assert [row["seen"] for row in answer.coverage] == [seen]
