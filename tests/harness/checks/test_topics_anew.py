"""A topic that was deleted and created anew is another one: what was said of one is not held for or against it."""

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from harness.checks.judge import Judgement
from harness.history.facts.incarnations import Incarnations
from harness.history.schema.cluster_rows import FAULTS, PARTITIONS, REPLICA_SNAPSHOTS, TOPICS
from harness.history.schema.schemas import TABLES
from harness.history.schema.typed_rows import TypedRows
from harness.history.sealed import sealing
from harness.scenario.model import ClusterSpec
from harness.verdict import Verdict
from tests.harness.checks.histories.build import ISR, SECOND, History, judge_stories

OLD, NEW = "topic-id-of-the-old-one", "topic-id-of-the-new-one"
STORIES: dict[str, tuple[Callable[[], History], Verdict, dict[tuple[str, str], int]]] = {}
PASS, VIOLATION, OPEN = Verdict.PASS, Verdict.VIOLATION, Verdict.INCONCLUSIVE


def case(
    verdict: Verdict, found: dict[tuple[str, str], int] | None = None
) -> Callable[[Callable[[], History]], Callable[[], History]]:
    def keep(make: Callable[[], History]) -> Callable[[], History]:
        STORIES[make.__name__] = (lambda: as_sealed(make()), verdict, found or {})
        return make

    return keep


def as_sealed(history: History) -> History:
    """What sealing makes of a run whose clients knew names only."""
    built_rows = TypedRows(history.rows)
    topics = Incarnations(built_rows[TOPICS], built_rows[FAULTS])
    assert topics
    records = pa.Table.from_pylist(history.rows["records"], schema=TABLES["records"])
    known = {(row["topic"], row["partition"]): row["partition_id"] for row in history.rows["partitions"]}
    placed, tps = topics.placed(records, known)
    renamed = topics.renamed(built_rows)
    of_snapshot = {row["snapshot"]: row["topic"] for row in renamed[REPLICA_SNAPSHOTS]}
    by_place = {(row["topic"], row["partition"]): row for row in renamed[PARTITIONS]}
    rows: dict[str, Sequence[Mapping[str, object]]] = {name: renamed.named(name) for name in TABLES}
    rows["records"] = placed.to_pylist()
    rows["replica_log"] = [
        {**row, "topic": topic, "partition_id": tps[topic, row["partition"]]}
        for row in history.rows["replica_log"]
        for topic in [of_snapshot[row["snapshot"]]]
    ]
    rows["partitions"] = [
        {
            "topic": topic,
            "partition": part,
            "read_to_end": False,
            **by_place.get((topic, part), {}),
            "partition_id": partition_id,
        }
        for (topic, part), partition_id in tps.items()
    ]
    rows["topics"] = topics.topics({topic.partition("#")[0] for topic, _ in tps if topics.is_set_apart(topic)})
    history.rows = {
        name: [dict.fromkeys(schema.names) | dict(row) for row in rows[name]] for name, schema in TABLES.items()
    }
    return history


def lived(history: History, topic_id: str, *, since: float, until: float | None = None) -> None:
    history._add(
        "topics",
        topic="t",
        topic_id=topic_id,
        created_ns=int(since * SECOND),
        uncertainty_ns=0,
        deleted_ns=None if until is None else int(until * SECOND),
    )


def asked_to_delete(history: History, *, at: float) -> None:
    arguments = json.dumps({"delete_topic": "t"})
    history._add(
        "steps",
        step=len(history.rows["steps"]),
        kind="act",
        act="delete_topic",
        step_text="delete topic t",
        begin_ns=int(at * SECOND),
        end_ns=int((at + 1) * SECOND),
        outcome="ok",
        arguments=arguments,
    )


def begun_anew(history: History, *, at: float, leader: int = 2) -> None:
    """The books begin again: the same epochs mean something else."""
    history._isr, history._leader, history._epoch = None, None, -1
    history.state(leader, 0, ISR, at=at, start=0)


def deleted(*, asked: bool = True, sent: int = 10, second: int = 5, read: bool = False) -> History:
    """Values 0.. at offsets 0.. of the topic until 20 s; the topic of 22 s has values 100.. at offsets 0.."""
    history = History().state(1, 0, ISR, at=0, start=0)
    lived(history, OLD, since=0, until=20)
    lived(history, NEW, since=22)
    for value in range(sent):
        history.send(value, value, at=1 + value / 10)
    if read:
        history.poll([(value, value) for value in range(sent)], at=5)
    if asked:
        asked_to_delete(history, at=19)
    begun_anew(history, at=22)
    for offset in range(second):
        history.send(100 + offset, offset, at=25 + offset / 10)
    if read:
        history.poll([(offset, 100 + offset) for offset in range(second)], at=30)
    return history.final([(offset, 100 + offset) for offset in range(second)])


GONE = {("removed-by-configuration", "observation"): 10}


@case(PASS, GONE)
def deleted_on_request_and_created_anew() -> History:
    return deleted()


@case(PASS, GONE)
def read_before_and_after_at_the_same_offsets() -> History:
    """No rewind, no two values at one offset, no acknowledgement below another, nothing read and vanished."""
    return deleted(read=True)


@case(VIOLATION, {("lost-write", "violation"): 10})
def deleted_and_nobody_asked_for_it() -> History:
    return deleted(asked=False)


@case(VIOLATION, {("lost-write", "violation"): 10})
def deleted_before_anybody_asked_for_it() -> History:
    history = deleted(asked=False)
    asked_to_delete(history, at=40)
    return history


@case(OPEN, {("lost-write", "observation"): 10})
def deleted_in_somebody_elses_cluster() -> History:
    history = deleted(asked=False)
    history.scenario = dataclasses.replace(history.scenario, cluster=ClusterSpec(system="attached"))
    return history


def _but_the_new_one_lost(values: Sequence[int]) -> History:
    history = deleted()
    kept = [row for row in history.rows["records"] if row["kind"] != 2]
    history.rows["records"] = kept
    return history.final([(offset, 100 + offset) for offset in range(5) if 100 + offset not in values])


@case(VIOLATION, GONE | {("lost-write", "violation"): 1})
def the_request_excuses_no_loss_of_the_new_one() -> History:
    return _but_the_new_one_lost([103])


@case(VIOLATION, GONE | {("lost-write", "violation"): 1, ("unclean-election", "observation"): 1})
def an_unclean_election_of_the_old_one_excuses_no_loss_of_the_new_one() -> History:
    """The old one's epoch 3 began at 2, cleanly or not: the new one never had such an epoch."""
    history = _but_the_new_one_lost([103]).unclean_config("true")
    old = list(history.rows["partition_states"])
    history.rows["partition_states"] = []
    history._isr, history._leader, history._epoch = (1,), 1, 0
    history.state(2, 3, (2,), at=18, start=2)
    history.rows["partition_states"] = [*old[:1], *history.rows["partition_states"], *old[1:]]
    return history


@case(VIOLATION, GONE | {("phantom", "violation"): 1})
def the_new_one_has_a_record_of_the_old_one() -> History:
    """A replica that took the deleted topic's log for its own."""
    return deleted().poll([(5, 5)], at=101, final=True, process=99)


@case(VIOLATION, {("lost-write", "violation"): 1, ("removed-by-configuration", "observation"): 9})
def lost_before_it_was_deleted() -> History:
    """A clean leader's log lacked it while the topic was still there: the deletion took nothing but the rest."""
    history = deleted()
    history.snapshot(2, [(offset, 0, offset) for offset in range(9)], at=12, reason="kill", epochs="0:0 1:9")
    history._isr, history._leader, history._epoch = ISR, 1, 0
    history.state(2, 1, ISR, at=10, start=9)
    states = history.rows["partition_states"]
    states.insert(1, states.pop())
    return history.snapshot(1, [(offset, 0, offset) for offset in range(10)], at=9, reason="kill", epochs="0:0")


@case(PASS, GONE)
def a_retry_across_both_that_the_new_one_has() -> History:
    return deleted().send(200, 5, at=19.5, elapsed_s=6).poll([(5, 200)], at=100, final=True, process=99)


@case(OPEN, GONE | {("unseen-tail", "observation"): 1})
def a_retry_across_both_that_nothing_places() -> History:
    return deleted().send(200, 10, at=19.5, elapsed_s=6)


@case(PASS, GONE)
def fetched_of_the_old_one_and_handed_out_when_the_new_one_was_there() -> History:
    history = deleted().poll([(8, 8), (9, 9), (0, 100)], at=20.9)
    for row in history.rows["records"][-3:]:
        row["completed_ns"] = 26 * SECOND
    return history


@case(PASS, GONE)
def a_snapshot_of_the_old_ones_log_read_when_the_new_one_was_there() -> History:
    """Of a broker that was down: its folder still says whose it is."""
    history = deleted()
    history.snapshot(3, [(offset, 0, offset) for offset in range(10)], at=60, reason="restart", epochs="0:0")
    history.rows["replica_snapshots"][-1]["topic_id"] = OLD
    for node in ISR:
        history.snapshot(node, [(offset, 0, 100 + offset) for offset in range(5)], high_watermark=5, epochs="0:0")
    return history


def found(judgement: Judgement) -> dict[tuple[str, str], int]:
    sums: dict[tuple[str, str], int] = {}
    for _, finding in judgement.findings:
        key = (finding.check, finding.classification)
        sums[key] = sums.get(key, 0) + finding.count
    return sums


@pytest.fixture(scope="module")
def judged(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Judgement]:
    stories = {name: make for name, (make, _, _) in STORIES.items()}
    return judge_stories(spark, tmp_path_factory.mktemp("anew"), stories)


@pytest.mark.parametrize("name", STORIES)
def test_each_topic_is_judged_by_what_was_done_to_it(judged: dict[str, Judgement], name: str) -> None:
    _, verdict, expected = STORIES[name]
    judgement = judged[name]
    assert found(judgement) == expected, [finding.sentence for _, finding in judgement.findings]
    assert judgement.verdict is verdict, judgement.sentence
    assert judgement.accounting["adds_up"]


def test_a_removal_on_request_says_so(judged: dict[str, Judgement]) -> None:
    ((_, finding),) = judged["deleted_on_request_and_created_anew"].findings
    assert finding.kind == "deletion"
    assert finding.topic == "t#1"
    assert "the deletion of its topic, which a step of the plan asked for" in finding.sentence


def test_what_cannot_be_placed_is_an_open_question(judged: dict[str, Judgement]) -> None:
    reasons = judged["a_retry_across_both_that_nothing_places"].reasons
    assert any("it is unknown which of the two topics had them" in reason for reason in reasons)


def test_of_records_that_are_set_apart_no_states_are_missed() -> None:
    rows = TypedRows({"partition_states": [{"topic": topic, "partition": 0} for topic in ("t#1", "t")]})
    run: Any = SimpleNamespace(run={"status": "done"})
    known: Any = SimpleNamespace(partition_ids={("t", 0): 0, ("t#1", 0): 1, ("t#0", 0): 2})
    assert sealing._missing(run, rows, known) == []
    known.partition_ids["t", 1] = 3
    assert sealing._missing(run, rows, known) == [
        "No state of t-1 is known: neither books nor brokers report who led and who was in sync."
    ]
