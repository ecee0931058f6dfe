"""client-stuck: each history beside a twin that differs in the one thing that excuses the client, and Spark's columns
beside a slow model over many random little histories."""

import random
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from harness.checks.families.cluster import client_stuck
from harness.checks.judge import Judgement
from harness.checks.model.partition_history import read_run_history
from harness.history.journals.journal_columns import NO_ANSWER
from harness.scenario.model import ExpectSpec, FindingPattern
from tests.harness.checks.histories.build import ISR, SECOND, History, judge_all, scenario, tables
from tests.links import struck
from workloads.produce_and_poll import ProduceAndPollSettings

WORKLOAD = ProduceAndPollSettings(stuck_after_s=10.0)
Rows = Sequence[Mapping[str, Any]]
TWINS: dict[str, Callable[[], History]] = {}


def twin(make: Callable[[], History]) -> Callable[[], History]:
    TWINS[make.__name__] = make
    return make


def stuck(
    *, heal: float = 5.0, until: float = 20.0, isr: Sequence[int] = ISR, settings_: Mapping[str, str] | None = None
) -> History:
    """Acknowledged until a cut at 2 s, then unknown for ever: every 3 s one more record that ends unknown after 3 s."""
    required = (FindingPattern(check="client-stuck", at_least=1),)
    history = History(scenario_=scenario(workload=WORKLOAD, settings=settings_, expect=ExpectSpec(required=required)))
    history.state(1, 0, ISR, at=0, start=0)
    history.send(0, 0, at=1)
    history.fault("cut", [1], at=2, until=heal)
    history.rows["faults"][-1]["links"] = struck("2>1 3>1")
    if tuple(isr) != ISR:
        history.state(1, 0, isr, at=heal + 1)
    number, at = 1, 3.0
    while at + 3 <= until:
        history.send(number, None, at=at, elapsed_s=3, status=2)
        number, at = number + 1, at + 3
    return history.final([(0, 0)])


@twin
def unknown_for_as_long_as_stated() -> History:
    return stuck(until=18)  # the sends at 6, 9, 12 and 15 s: from 6 to 18 s


@twin
def unknown_for_less_than_stated() -> History:
    return stuck(until=15)


@twin
def refused_for_as_long_as_stated() -> History:
    history = stuck(until=18)
    for row in history.rows["records"]:
        row["status"] = 1 if row["status"] == 2 else row["status"]
    return history


@twin
def one_record_acknowledged_in_between() -> History:
    return stuck(until=18).send(77, 1, at=11).final([(1, 77)])


@twin
def another_process_was_acknowledged_meanwhile() -> History:
    return stuck(until=18).send(77, 1, at=11, process=2).final([(1, 77)])


@twin
def a_fault_is_still_in_force() -> History:
    return stuck(heal=30, until=18)


@twin
def a_fault_came_again_in_between() -> History:
    return stuck(until=18).fault("pause", [2], at=11.9, until=12.1)


@twin
def a_fault_whose_effect_was_never_seen() -> History:
    history = stuck(until=18).fault("pause", [2], at=11.9, until=12.1)
    history.rows["faults"][-1] |= {"begin_ns": None, "end_ns": None}
    return history


@twin
def too_few_in_sync_replicas() -> History:
    return stuck(until=18, isr=(1,), settings_={"min.insync.replicas": "2"})


@twin
def in_sync_replicas_just_enough() -> History:
    return stuck(until=18, isr=(1, 2), settings_={"min.insync.replicas": "2"})


@twin
def no_leader_in_between() -> History:
    return stuck(until=18).state(-1, 0, ISR, at=11).state(1, 1, ISR, at=11.5)


@twin
def nothing_is_known_of_the_partition() -> History:
    history = stuck(until=18)
    history.rows["partition_states"].clear()
    return history


@twin
def the_run_ended_before_the_answers() -> History:
    history = stuck(until=18)
    for row in history.rows["records"]:
        row["error"] = NO_ANSWER if row["status"] == 2 else None
    return history


@twin
def acks_0_is_never_acknowledged() -> History:
    history = stuck(until=18)
    for row in history.rows["records"]:
        row["acks"] = 0 if row["kind"] == 0 else row["acks"]
    return history


STUCK = {
    "unknown_for_as_long_as_stated",
    "refused_for_as_long_as_stated",
    "another_process_was_acknowledged_meanwhile",
    "a_fault_whose_effect_was_never_seen",
    "in_sync_replicas_just_enough",
}


def numbered(histories: Sequence[History]) -> list[History]:
    for run, history in enumerate(histories):
        history.as_run(run)
    return list(histories)


@pytest.fixture(scope="module")
def judged(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Judgement]:
    """All twins as one job."""
    histories = numbered([make() for make in TWINS.values()])
    answers = judge_all(spark, tmp_path_factory.mktemp("stuck"), histories)
    return dict(zip(TWINS, answers, strict=True))


@pytest.mark.parametrize("name", TWINS)
def test_a_client_is_stuck_only_while_nothing_excuses_it(judged: dict[str, Judgement], name: str) -> None:
    found = [finding for _, finding in judged[name].findings if finding.check == "client-stuck"]

    assert len(found) == (name in STUCK), [finding.sentence for finding in found]
    assert judged[name].as_expected is (name in STUCK)  # required as a finding; its class is an observation
    assert judged[name].counts["violation"] == 0


def test_a_stuck_client_is_reported_with_its_library_its_outcomes_and_what_excuses_it_not(
    judged: dict[str, Judgement],
) -> None:
    findings = judged["another_process_was_acknowledged_meanwhile"].findings
    finding = next(finding for _, finding in findings if finding.check == "client-stuck")

    assert finding.sentence == (
        "Process 1, a producer of kafka-python, got nothing acknowledged for 12.000 s from 6.000 s on "
        "(4 records: 4 unknown), although no fault was in force and every partition had a leader and enough in-sync "
        "replicas; other producers had 1 record acknowledged meanwhile; the last fault (cut broker 1) had ended "
        "1.000 s before."
    )
    assert (finding.classification, finding.count, finding.faults) == ("observation", 4, [0])
    assert (finding.first_ns, finding.last_ns) == (6 * SECOND, 18 * SECOND)


# ---- the model ------------------------------------------------------------------------------------------------------

HISTORIES = 150
BOUND_S = 2.0
batches = settings(
    max_examples=3,
    deadline=None,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def random_history(run: int, chance: random.Random) -> History:
    least = chance.choice(("1", "2", "2"))
    workload = ProduceAndPollSettings(stuck_after_s=BOUND_S)
    history = History(run=run, scenario_=scenario(workload=workload, settings={"min.insync.replicas": least}))
    times = sorted(chance.choice((0, 0, 0.5, 3, 6, 8)) + chance.choice((0, 0.25)) for _ in range(chance.randrange(4)))
    for epoch, at in enumerate(times):
        history.state(chance.choice((1, 2, 1, -1)), epoch, chance.choice((ISR, (1, 2), (1,))), at=at)
        history.rows["partition_states"][-1]["uncertainty_ns"] = chance.choice((0, SECOND // 8))
    for _ in range(chance.choice((0, 0, 0, 1, 2))):
        begin = chance.choice((0.0, 1.5, 4.0, 7.5))
        history.fault("pause", [1], at=begin, until=chance.choice((begin, begin + 0.5, begin + 2, None)))
        if chance.random() < 0.2:
            history.rows["faults"][-1]["begin_ns"] = None
    for value in range(chance.randrange(14)):
        status = chance.choice((0, 1, 2, 2, 2, 2))
        at = chance.choice((0.5, 1, 2, 3, 4, 5, 6, 7, 8)) + chance.choice((0, 0.1))
        history.send(
            value,
            value if status == 0 else None,
            at=at,
            elapsed_s=chance.choice((0.1, 0.9, 1, 2)),
            status=status,
            acks=chance.choice((-1, -1, -1, 1, 0)),
            process=chance.choice((1, 1, 1, 2)),
        )
        if status == 2 and chance.random() < 0.1:
            history.rows["records"][-1]["error"] = NO_ANSWER
    return history


def modelled(history: History) -> set[tuple[int, int, int, int, int, int]]:
    """(process, begin, end, sends, unknown, others), looked for send by send and moment by moment."""
    records = [row for row in history.rows["records"] if row["kind"] == 0 and row["acks"] != 0]
    sends = [row for row in records if row["error"] != NO_ANSWER]
    found = set()
    for process in {row["process"] for row in sends}:
        own = [row for row in sends if row["process"] == process]
        groups: list[list[dict[str, Any]]] = []
        for row in own:
            if row["status"] != 0 and healthy(history, row["invoked_ns"], row["completed_ns"]):
                mates = next((group for group in groups if together(history, own, group[0], row)), None)
                if mates is None:
                    groups.append([row])
                else:
                    mates.append(row)
        for group in groups:
            first, end = min(row["completed_ns"] for row in group), max(row["completed_ns"] for row in group)
            before = [row["completed_ns"] for row in own if row["status"] == 0 and row["completed_ns"] <= first]
            begin = max([min(row["invoked_ns"] for row in group), *before])
            if end - begin >= BOUND_S * SECOND:
                others = [
                    r
                    for r in sends
                    if r["process"] != process and r["status"] == 0 and begin <= r["completed_ns"] <= end
                ]
                unknown = sum(row["status"] == 2 for row in group)
                found.add((process, begin, end, len(group), unknown, len(others)))
    return found


def together(history: History, own: Rows, one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Healthy all the way from one to the other, and nothing was acknowledged between their answers."""
    first, last = sorted((one["completed_ns"], other["completed_ns"]))
    parted = any(row["status"] == 0 and first < row["completed_ns"] <= last for row in own)
    return not parted and healthy(history, min(one["invoked_ns"], other["invoked_ns"]), last)


def healthy(history: History, begin: int, end: int) -> bool:
    """At every moment from begin to end; it only changes at the edges of faults and states."""
    edges = {begin, end}
    for fault in history.rows["faults"]:
        edges |= {fault["begin_ns"] or begin, fault["end_ns"] or end}
    for state in history.rows["partition_states"]:
        edges |= {state["time_ns"] - state["uncertainty_ns"], state["time_ns"] + state["uncertainty_ns"]}
    moments = sorted(edge for edge in edges if begin <= edge <= end)
    moments += [(one + other) // 2 for one, other in pairwise(moments)]
    return all(healthy_at(history, moment) for moment in moments)


def healthy_at(history: History, moment: int) -> bool:
    assert history.scenario is not None
    for fault in history.rows["faults"]:
        began = fault["begin_ns"] is not None and fault["begin_ns"] <= moment
        if began and (fault["end_ns"] is None or moment <= fault["end_ns"]):
            return False
    least = int(history.scenario.cluster.settings["min.insync.replicas"])
    states = history.rows["partition_states"]  # built in order of time
    if not states or moment <= states[0]["time_ns"] + states[0]["uncertainty_ns"]:
        return False
    for place, state in enumerate(states):
        begun = state["time_ns"] - state["uncertainty_ns"] <= moment
        after = states[place + 1] if place + 1 < len(states) else None
        perhaps_in_force = begun and (after is None or moment <= after["time_ns"] + after["uncertainty_ns"])
        if perhaps_in_force and (state["leader"] < 0 or len(state["isr"]) < least):
            return False
    return True


@pytest.mark.timeout(180)
@given(seed=st.integers(0, 2**32))
@batches
def test_every_stretch_is_what_the_model_says(seed: int, spark: SparkSession, tmp_path: Path) -> None:
    histories = [random_history(run, random.Random(f"{seed}/{run}")) for run in range(HISTORIES)]
    folder = tmp_path / str(seed)
    folder.mkdir(exist_ok=True)
    built = tables(spark, folder, histories)
    stories = [read_run_history(built, history.run, history.scenario, 0) for history in histories]
    rows = client_stuck.stretches(spark, built, stories)
    for history in histories:
        found = {
            (row["process"], row["begin_ns"], row["end_ns"], row["sends"], row["unknown"], row["others"])
            for row in rows
            if row["run"] == history.run
        }
        assert found == modelled(history), (seed, history.run)
    assert rows, "no history of the batch had a stretch: the model was not tested"
