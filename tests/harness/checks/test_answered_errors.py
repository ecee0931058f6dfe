"""What brokers answered to attempts that failed stands in the finding, with its meaning and what explains it."""

import pytest
from pyspark.sql import SparkSession

from harness.checks.findings import Finding
from harness.scenario.model import TopicSpec
from tests.harness.checks.histories.build import ISR, SECOND, History, Stories, judge_all, scenario
from workloads.produce_and_poll import ProduceAndPollSettings

UNKNOWN_PRODUCER_ID, NOT_ENOUGH_REPLICAS, STORAGE_ERROR, OUT_OF_ORDER_SEQUENCE_NUMBER = 59, 19, 56, 45
CHECKS = {"gap": "availability", "twice": "duplicate"}
STORIES = Stories()
story = STORIES.story


def answer(history: History, code: int | None, *, at: float, process: int = 1) -> None:
    history._add(
        "client_events",
        process=process,
        time_ns=int(at * SECOND),
        event="attempt_failed",
        node=1,
        topic="t",
        partition=0,
        status=2,
        error=f"Some {code}",
        code=code,
    )


def stuck(*codes: int | None, log_start: int = 0, retention: str = "1500") -> History:
    """Three records are acknowledged; then nothing for 18 s, and each attempt is answered the codes, in turn."""
    topic = TopicSpec(name="t", settings={"retention.ms": retention})
    history = History(scenario_=scenario(workload=ProduceAndPollSettings(stuck_after_s=10.0), topics=(topic,)))
    history.state(1, 0, ISR, at=0, start=0)
    for offset in range(3):
        history.send(offset, offset, at=1 + offset / 10)
    for number in range(6):
        history.send(10 + number, None, at=4 + 3 * number, elapsed_s=3, status=2)
        if codes:
            answer(history, codes[number % len(codes)], at=5 + 3 * number)
    history.final([(offset, offset) for offset in range(log_start, 3)])
    history.partition["log_start_offset"] = log_start
    history.partition["end_offset"] = 3
    return history


@story
def forgotten_with_its_last_record() -> History:
    return stuck(UNKNOWN_PRODUCER_ID, log_start=3)


@story
def forgotten_without_a_reason() -> History:
    return stuck(UNKNOWN_PRODUCER_ID)


@story
def forgotten_where_nothing_is_removed() -> History:
    return stuck(UNKNOWN_PRODUCER_ID, log_start=3, retention="-1")


@story
def answered_several_errors() -> History:
    return stuck(STORAGE_ERROR, UNKNOWN_PRODUCER_ID, STORAGE_ERROR)


@story
def answered_an_error_without_a_number() -> History:
    return stuck(None)


@story
def another_producer_was_answered() -> History:
    history = stuck()
    answer(history, STORAGE_ERROR, at=6, process=2)
    return history


@story
def given_up_before() -> History:
    """Its library tries no more once it was answered."""
    history = stuck()
    answer(history, OUT_OF_ORDER_SEQUENCE_NUMBER, at=2.5)
    return history


@story
def refused_before_for_what_is_over() -> History:
    history = stuck()
    answer(history, NOT_ENOUGH_REPLICAS, at=2.5)
    return history


@story
def given_up_and_yet_acknowledged_since() -> History:
    history = stuck()
    answer(history, OUT_OF_ORDER_SEQUENCE_NUMBER, at=1.05)
    return history


@story
def a_gap_with_too_few_in_sync() -> History:
    history = History(scenario_=scenario(settings={"min.insync.replicas": "2"})).state(1, 0, ISR, at=0, start=0)
    history.send(0, 0, at=1)
    history.fault("cut", [1], at=2, until=8)
    history.state(1, 0, (1,), at=3)
    for number in range(3):
        history.send(1 + number, None, at=4 + number, elapsed_s=0.5, status=1)
        answer(history, NOT_ENOUGH_REPLICAS, at=4.2 + number)
    history.state(1, 0, ISR, at=8)
    history.send(9, 1, at=9)
    return history.final([(0, 0), (1, 9)])


@story
def twice_after_its_first_copy_was_removed() -> History:
    topic = TopicSpec(name="t", settings={"retention.ms": "1500"})
    history = History(scenario_=scenario(topics=(topic,))).state(1, 0, ISR, at=0, start=0)
    history.poll([(0, 5)], at=2)
    history.send(5, 1, at=1, elapsed_s=10)
    history.final([(1, 5)])
    history.partition["log_start_offset"] = 1
    return history


@pytest.fixture(scope="module")
def found(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Finding]:
    """The one finding of each story that it is about."""
    histories = [make() for make in STORIES.values()]
    for run, history in enumerate(histories):
        history.as_run(run)
    answers = judge_all(spark, tmp_path_factory.mktemp("answered"), histories)
    findings = {}
    for name, judgement in zip(STORIES, answers, strict=True):
        check = next((check for word, check in CHECKS.items() if word in name), "client-stuck")
        (findings[name],) = (finding for _, finding in judgement.findings if finding.check == check)
    return findings


@pytest.mark.parametrize(
    ("name", "said", "explained"),
    [
        ("forgotten_with_its_last_record", [(UNKNOWN_PRODUCER_ID, 6)], ["retention"]),
        ("forgotten_without_a_reason", [(UNKNOWN_PRODUCER_ID, 6)], [None]),
        ("forgotten_where_nothing_is_removed", [(UNKNOWN_PRODUCER_ID, 6)], [None]),
        ("answered_several_errors", [(STORAGE_ERROR, 4), (UNKNOWN_PRODUCER_ID, 2)], [None, None]),
        ("answered_an_error_without_a_number", [], []),
        ("another_producer_was_answered", [], []),
        ("given_up_before", [(OUT_OF_ORDER_SEQUENCE_NUMBER, 1)], [None]),
        ("refused_before_for_what_is_over", [], []),
        ("given_up_and_yet_acknowledged_since", [], []),
        ("a_gap_with_too_few_in_sync", [(NOT_ENOUGH_REPLICAS, 3)], ["isr"]),
    ],
)
def test_the_errors_that_were_answered_are_told_with_what_explains_them(
    found: dict[str, Finding], name: str, said: list[tuple[int, int]], explained: list[str | None]
) -> None:
    answers = found[name].evidence["answered"]
    assert [(each["code"], each["count"]) for each in answers] == said
    assert [each["explained_by"] for each in answers] == explained
    assert all(each["meaning"] in found[name].sentence for each in answers)


def test_retention_that_took_a_producers_state_is_named_with_its_setting(found: dict[str, Finding]) -> None:
    sentence = found["forgotten_with_its_last_record"].sentence
    assert "6 attempts were answered UNKNOWN_PRODUCER_ID (59): the leader knows nothing of this producer" in sentence
    assert "retention removed the producer's last record (retention.ms=1500; t-0 begins at 3)" in sentence


def test_a_copy_that_retention_took_before_the_other_was_written_is_named(found: dict[str, Finding]) -> None:
    sentence = found["twice_after_its_first_copy_was_removed"].sentence
    assert sentence.endswith("an idempotent producer writes each record once; of these, retention.ms=1500 removed 0.")


def test_the_library_is_at_fault_only_where_no_broker_answered_an_error(found: dict[str, Finding]) -> None:
    healthy = "although no fault was in force and every partition had a leader and enough in-sync replicas"
    assert healthy in found["another_producer_was_answered"].sentence
    assert healthy not in found["forgotten_without_a_reason"].sentence
