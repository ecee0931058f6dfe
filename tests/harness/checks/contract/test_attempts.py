"""Whether a producer sent a record twice: what its client met decides, and each history has a twin that differs in one.

All producers here are without idempotence unless said otherwise; process 1 sends records 0 to 2 from 1.0 s on, each
acknowledged 0.1 s later.
"""

from collections.abc import Mapping
from typing import Any

import pytest
from pyspark.sql import SparkSession

from harness.checks.judge import Judgement
from harness.verdict import Verdict
from tests.harness.checks.histories.build import ISR, History, Stories, judge_stories, scenario
from workloads.produce_and_poll import ProduceAndPollSettings

VIOLATION, PASS, UNDECIDED = Verdict.VIOLATION, Verdict.PASS, Verdict.INCONCLUSIVE
STORIES = Stories()
expecting = STORIES.expecting
TELLS: Mapping[str, Any] = {"idempotent": False, "tells_attempts": True}
DOUBLED = [(0, 0), (1, 1), (2, 2), (3, 2)]  # value 2 was sent at 1.2 s
SWAPPED = [(0, 0), (1, 2), (2, 1)]


def _sent(log: list[tuple[int, int]], *, client: Mapping[str, Any] | None = None, **workload: Any) -> History:
    history = History(scenario_=scenario(workload=ProduceAndPollSettings(**{"idempotence": False, **workload})))
    history.state(1, 0, ISR, at=0, start=0)
    if client is not None:
        history.client(1, **client)
    first = {value: offset for offset, value in reversed(log)}
    for value in range(3):
        history.send(value, first[value], at=1 + value / 10)
    return history.final(log)


# ---- duplicates -----------------------------------------------------------------------------------------------------


@expecting(PASS, "permitted")
def doubled_after_an_attempt_of_which_nobody_knows() -> History:
    return _sent(DOUBLED, client=TELLS).failed_attempt(at=1.25)


@expecting(PASS, "permitted")
def doubled_both_after_one_attempt_of_which_nobody_knows() -> History:
    history = _sent([(0, 0), (1, 1), (2, 2), (3, 1), (4, 2)], client=TELLS)
    for row in history.rows["records"]:
        if row["kind"] == 0 and row["value"] == 1:
            row["completed_ns"] += 10**8  # in flight as long as the other
    return history.failed_attempt(at=1.25)


@expecting(VIOLATION, "violation")
def doubled_and_its_client_met_nothing() -> History:
    return _sent(DOUBLED, client=TELLS)


@expecting(VIOLATION, "violation")
def doubled_under_a_fault_that_its_client_did_not_meet() -> History:
    return _sent(DOUBLED, client=TELLS).fault("pause", [3], at=1, until=2)


@expecting(VIOLATION, "violation")
def doubled_after_an_attempt_that_was_refused_before_the_append() -> History:
    return _sent(DOUBLED, client=TELLS).failed_attempt(at=1.25, status=1, error="NotEnoughReplicasError 19")


@expecting(VIOLATION, "violation")
def doubled_and_an_attempt_had_failed_before_it_was_sent() -> History:
    return _sent(DOUBLED, client=TELLS).failed_attempt(at=1.1)


@expecting(VIOLATION, "violation")
def doubled_and_another_clients_attempt_failed() -> History:
    return _sent(DOUBLED, client=TELLS).failed_attempt(at=1.25, process=2)


@expecting(VIOLATION, "violation")
def doubled_and_an_attempt_at_another_partition_failed() -> History:
    return _sent(DOUBLED, client=TELLS).second_partition().failed_attempt(at=1.25, partition_id=1)


@expecting(VIOLATION, "violation")
def doubled_by_an_idempotent_producer_that_sent_it_again() -> History:
    return _sent(DOUBLED, client={**TELLS, "idempotent": True}, idempotence=True).failed_attempt(at=1.25)


@expecting(PASS, "permitted")
def doubled_by_a_producer_that_was_asked_to_be_idempotent_with_acks_1() -> History:
    """No library is idempotent then, whatever the workload says of it."""
    return _sent(DOUBLED, idempotence=True, acks="1").fault("pause", [1], at=1, until=2)


@expecting(VIOLATION, "violation")
def doubled_by_a_producer_without_retries() -> History:
    return _sent(DOUBLED, retries=0).fault("pause", [1], at=1, until=2)


@expecting(PASS, "permitted")
def doubled_by_a_library_that_sends_again_without_retries() -> History:
    history = _sent(DOUBLED, client=TELLS, retries=0)
    history.rows["processes"][0]["library"] = "confluent-kafka"
    return history.failed_attempt(at=1.25)


@expecting(PASS, "permitted")
def doubled_and_the_leader_had_changed_just_before_the_send() -> History:
    """The client tells nothing; it may still have asked the leader that was deposed 20 ms before."""
    return _sent(DOUBLED).state(2, 1, (2, 3), at=1.18, start=2)


@expecting(UNDECIDED, "observation")
def doubled_and_the_leader_had_changed_long_before_the_send() -> History:
    history = _sent(DOUBLED)
    history.rows["records"] = [
        {**row, "invoked_ns": row["invoked_ns"] + 60 * 10**9, "completed_ns": row["completed_ns"] + 60 * 10**9}
        if row["kind"] == 0
        else row
        for row in history.rows["records"]
    ]
    return history.state(2, 1, (2, 3), at=2, start=2)


# ---- order ----------------------------------------------------------------------------------------------------------


@expecting(PASS, "permitted")
def overtaken_by_a_record_while_it_was_sent_again() -> History:
    return _sent(SWAPPED, client=TELLS).failed_attempt(at=1.15)


@expecting(VIOLATION, "violation")
def overtaken_though_nothing_was_sent_again() -> History:
    return _sent(SWAPPED, client=TELLS)


@expecting(PASS, "permitted")
def overtaken_in_flight_and_nobody_knows_what_the_client_met() -> History:
    return _sent(SWAPPED)


@expecting(VIOLATION, "violation")
def overtaken_in_the_order_of_an_idempotent_producer() -> History:
    return _sent(SWAPPED, client={**TELLS, "idempotent": True}, idempotence=True).failed_attempt(at=1.15)


@pytest.fixture(scope="module")
def judged(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Judgement]:
    return judge_stories(spark, tmp_path_factory.mktemp("attempts"), STORIES, with_evidence=False)


@pytest.mark.parametrize(("name", "verdict", "classification"), STORIES.cases())
def test_a_record_that_is_there_twice_or_out_of_order_is_judged_by_what_its_client_met(
    judged: dict[str, Judgement], name: str, verdict: Verdict, classification: str
) -> None:
    check = "duplicate" if name.startswith("doubled") else "reordering"
    findings = [(finding.check, finding.classification) for _, finding in judged[name].findings]

    assert (judged[name].verdict, findings) == (verdict, [(check, classification)]), judged[name].sentence


@pytest.mark.parametrize("many", ["after_an", "both_after_one"])
def test_a_duplicate_names_each_attempt_that_explains_it_once(judged: dict[str, Judgement], many: str) -> None:
    ((_, finding),) = judged[f"doubled_{many}_attempt_of_which_nobody_knows"].findings

    assert finding.evidence == {"failed_attempts": [{"process": 1, "at": "at 1.250 s", "node": 1, "error": "E 7"}]}


def test_what_is_not_known_of_a_client_is_said_where_it_leaves_the_run_open(judged: dict[str, Judgement]) -> None:
    said = judged["doubled_and_the_leader_had_changed_long_before_the_send"].sentence

    assert "what its client met is not known: it may have sent it again" in said
