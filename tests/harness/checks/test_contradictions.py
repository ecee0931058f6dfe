"""Evidence against evidence: each contradiction beside a lawful history that differs in what explains it."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from harness.checks.judge import Judgement
from harness.history.schema.schemas import UNREADABLE_EVENT
from harness.verdict import Verdict
from tests.harness.checks.histories.build import ISR, SECOND, History, judge_all, judge_stories
from tests.harness.checks.histories.disks_and_reads import (
    ALL,
    NOTED,
    OPEN,
    PASS,
    STORIES,
    VIOLATION,
    expecting,
    read_then_collected,
)
from tests.harness.checks.twins.twins import acknowledged

# ---- high watermarks against log ends


@expecting(OPEN, {("high-watermark-beside-its-log", NOTED)})
def a_high_watermark_above_its_log() -> History:
    return read_then_collected(dict.fromkeys(ISR, ALL), marks={2: 50})


@expecting(PASS, set())
def a_high_watermark_above_a_log_that_was_cut() -> History:
    return read_then_collected(dict.fromkeys(ISR, ALL), marks={2: 12}).truncation(2, 10, 15, epoch=0, at=108)


@expecting(OPEN, {("high-watermark-beside-its-log", NOTED)})
def a_high_watermark_above_a_log_that_was_cut_but_never_so_long() -> History:
    return read_then_collected(dict.fromkeys(ISR, ALL), marks={2: 50}).truncation(2, 10, 15, epoch=0, at=108)


@expecting(PASS, set())
def a_high_watermark_above_the_log_of_a_broker_that_follows_a_shorter_one() -> History:
    return read_then_collected(dict.fromkeys(ISR, ALL), marks={2: 12}).state(3, 1, (3, 2), at=107, start=10)


def wrote_down(history: History, node: int, mark: int, *, at: float) -> History:
    return history.wrote_down(node, mark, at=at)


@expecting(PASS, set())
def a_broker_wrote_down_a_mark_that_its_log_reaches() -> History:
    return wrote_down(read_then_collected(dict.fromkeys(ISR, ALL)), 2, 10, at=50)


@expecting(OPEN, {("high-watermark-beyond-its-log", NOTED)})
def a_broker_wrote_down_a_mark_that_its_log_never_reached() -> History:
    return wrote_down(read_then_collected(dict.fromkeys(ISR, ALL)), 2, 11, at=50)


@expecting(PASS, set())
def a_broker_wrote_down_a_mark_and_lost_its_disk() -> History:
    return wrote_down(read_then_collected(dict.fromkeys(ISR, ALL)), 2, 11, at=50).fault("wipe", [2], at=60, until=61)


@expecting(OPEN, {("high-watermark-told-to-readers", NOTED)})
def readers_were_told_an_end_beyond_every_log() -> History:
    history = read_then_collected(dict.fromkeys(ISR, ALL))
    history.partition["end_offset"] = 14
    return history


# ---- books against brokers


@expecting(OPEN, {("epochs-go-back", NOTED)})
def epochs_go_back_in_the_books() -> History:
    return read_then_collected(dict.fromkeys(ISR, ALL)).state(1, 3, ISR, at=20, start=10).state(1, 2, ISR, at=30)


@expecting(PASS, set())
def a_topic_that_was_made_anew_begins_its_epochs_anew() -> History:
    history = read_then_collected(dict.fromkeys(ISR, ALL))
    history.state(1, 3, ISR, at=20, start=10)
    history.state(1, 0, ISR, at=30)
    history.rows["partition_states"][-1]["partition_epoch"] = 0
    return history


@expecting(OPEN, {("stranger-in-sync", NOTED)})
def in_sync_and_never_started() -> History:
    history = read_then_collected(dict.fromkeys(ISR, ALL))
    for node in ISR:
        history.started(node, at=0.1)
    history.state(1, 0, (*ISR, 9), at=20)
    history.rows["partition_states"][-1]["replicas"] = None
    return history


@expecting(OPEN, {("stranger-in-sync", NOTED)})
def in_sync_and_no_replica() -> History:
    return read_then_collected(dict.fromkeys(ISR, ALL)).state(1, 0, (*ISR, 4), at=20)


@expecting(OPEN, {("unknown-epoch", NOTED)})
def led_in_an_epoch_that_the_books_lack() -> History:
    history = read_then_collected(dict.fromkeys(ISR, ALL)).state(1, 2, ISR, at=20, start=10)
    return history.broker_event(2, "leadership_start", at=10, leader_epoch=1, from_offset=10)


@expecting(OPEN, {("unreadable-line", NOTED)})
def a_line_of_a_brokers_journal_cannot_be_read() -> History:
    history = read_then_collected(dict.fromkeys(ISR, ALL))
    history._add(
        "broker_events", node=2, time_ns=SECOND, event=UNREADABLE_EVENT, detail_text="2/evidence/events.jsonl:7"
    )
    return history


# ---- what is missing


@expecting(OPEN, set())
def a_journal_without_its_end() -> History:
    return read_then_collected(dict.fromkeys(ISR, ALL)).client(1, role="producer", journal_complete=False)


@expecting(PASS, set())
def journals_with_their_ends() -> History:
    history = read_then_collected(dict.fromkeys(ISR, ALL)).client(1, role="producer", journal_complete=True)
    return history.client(9, role="consumer")


@expecting(OPEN, set())
def a_value_of_a_sender_whose_journal_was_cut() -> History:
    history = read_then_collected({key: [*ALL, (10, 0, 10)] for key in ISR}).final([(10, 10)])
    return history.client(1, role="producer", journal_complete=False)


def next_after_what_was_sent(*, complete: bool | None, sequence: int = 10, named: bool = True) -> History:
    """Client 0 sent values 0 to 9, and another one of its series was read."""
    history = acknowledged().final([*((offset, offset) for offset in range(10)), (10, sequence)])
    for row in history.rows["records"]:
        row["process"] = 0 if row["kind"] == 0 else row["process"]
    history.journals_may_lack_their_end = complete is None
    if named:
        history.client(0, role="producer", journal_complete=complete)
    return history


@expecting(OPEN, set())
def a_value_after_the_last_of_a_journal_that_may_have_been_cut() -> History:
    return next_after_what_was_sent(complete=None)


@expecting(VIOLATION, set())
def a_value_after_the_last_of_a_journal_that_is_whole() -> History:
    return next_after_what_was_sent(complete=True)


@expecting(VIOLATION, set())
def a_value_of_no_client_that_is_known() -> History:
    return next_after_what_was_sent(complete=None, named=False)


@pytest.fixture(scope="module")
def judged(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Judgement]:
    return judge_stories(spark, tmp_path_factory.mktemp("contradictions"), STORIES)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("name", "verdict", "reported"), STORIES.cases())
def test_what_contradicts_itself_is_reported_and_what_is_explained_is_not(
    judged: dict[str, Judgement], name: str, verdict: Verdict, reported: set[tuple[str, str]]
) -> None:
    judgement = judged[name]

    found = {(each.kind, each.classification) for _, each in judgement.findings if each.check == "evidence"}

    assert found == reported, judgement.reasons
    assert judgement.verdict is verdict, (judgement.sentence, judgement.reasons)


def test_both_sides_are_shown(judged: dict[str, Judgement]) -> None:
    (finding,) = (each for _, each in judged["disks_hold_another_value_than_was_read"].findings)

    assert (finding.offsets, finding.values) == ([5], [5])
    assert finding.evidence["read"] == [{"offset": 5, "value": 5, "leader_epoch": None, "t_ns": 100_100_000_000}]
    assert [(each["node"], each["offset"], each["value"]) for each in finding.evidence["on_disk"]] == [
        (1, 5, 77),
        (2, 5, 77),
        (3, 5, 77),
    ]


def test_why_not_all_that_was_sent_is_known_is_said(judged: dict[str, Judgement]) -> None:
    judgement = judged["a_value_of_a_sender_whose_journal_was_cut"]

    (phantom,) = (each for _, each in judgement.findings)

    assert (phantom.check, phantom.classification) == ("phantom", "observation")
    assert "the end of the journal of client-1 is missing" in phantom.sentence
    assert any("1 journal has no end (client-1)" in reason for reason in judgement.reasons)


def test_logs_that_are_not_what_their_digests_say_are_reported(spark: SparkSession, tmp_path: Path) -> None:
    altered = read_then_collected({1: ALL, 2: ALL, 3: [each for each in ALL if each[0] != 4]}, marks={3: 10})
    for row in altered.rows["replica_snapshots"]:
        row["digest"] = 7
        row["run"] = 1
    for rows in altered.rows.values():
        for row in rows:
            row["run"] = 1
    altered.run = 1

    _, judgement = judge_all(spark, tmp_path, [read_then_collected({}), altered])  # the second keeps its digests

    (finding,) = (each for _, each in judgement.findings)
    assert (finding.check, finding.kind) == ("evidence", "digests-and-records")
    assert judgement.verdict is OPEN


def test_a_log_whose_high_watermark_was_never_written_down_has_no_digest_that_it_could_belie(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Its disk was lost, and there was no time for a checkpoint since."""
    collected = acknowledged()
    collected.final([(offset, offset) for offset in range(10)])
    for node in ISR:
        collected.snapshot(node, ALL, at=110, high_watermark=8 if node == ISR[0] else None, epochs="0:0")
    for row in collected.rows["replica_snapshots"]:
        row["digest"] = 7 if row["node"] == ISR[0] else None
        row["run"] = 1
    for rows in collected.rows.values():
        for row in rows:
            row["run"] = 1
    collected.run = 1

    _, judgement = judge_all(spark, tmp_path, [read_then_collected({}), collected])

    assert [each.kind for _, each in judgement.findings] == []
    assert judgement.verdict is PASS
