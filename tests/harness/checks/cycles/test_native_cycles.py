"""Runs of ours: each kind of cycle in a bad history, and the good one beside it."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from harness.checks.cycles import Limits
from harness.checks.cycles.model import REALTIME, WR
from harness.checks.cycles.native import CycleRow, NativeSearch, find_cycles
from harness.history.facts.values import NAMED_FROM
from tests.harness.checks.histories.build import SECOND, History, tables


def sound() -> History:
    history = History()
    history.send(1, 0, at=1)
    history.send(2, 1, at=2)
    history.poll([(0, 1), (1, 2)], at=3)
    return history.final([(0, 1), (1, 2)])


def read_before_send() -> History:
    history = History().poll([(0, 7)], at=1)
    history.send(7, 0, at=5)
    return history.final([(0, 7)])


def read_while_sent() -> History:
    history = History().poll([(0, 7)], at=1, process=9)
    history.send(7, 0, at=0.5, elapsed_s=5)
    return history.final([(0, 7)])


def order_against_time(*, acks: int = -1, at: float = 5.0) -> History:
    history = History()
    history.send(1, 1, at=1, elapsed_s=2, acks=acks)
    history.send(2, 0, at=at, acks=acks)
    return history.final([(0, 2), (1, 1)])


def transactions(history: History, spans: Mapping[int, tuple[float, float]]) -> History:
    for txn, (begin, end) in spans.items():
        history.rows["transactions"].append(
            {
                "run": 0,
                "transaction": txn,
                "process": txn,
                "transactional_id": f"t{txn}",
                "invoked_ns": int(begin * SECOND),
                "completed_ns": int(end * SECOND),
                "outcome": 0,
                "error": None,
                "group": None,
            }
        )
    return history


def bound(history: History, transaction: int, do: Callable[[], object]) -> None:
    before = len(history.rows["records"])
    do()
    for row in history.rows["records"][before:]:
        row["transaction"] = transaction


def reader(history: History, isolation: str) -> None:
    history.rows["processes"].append(
        {
            **dict.fromkeys(("client", "library", "acks", "idempotent", "group", "transactional_id", "offset_reset")),
            "run": 0,
            "process": 1,
            "role": "both",
            "isolation": isolation,
        }
    )


def circular_reading(isolation: str) -> History:
    history = transactions(History(), {1: (1, 10), 2: (1, 10)})
    reader(history, isolation)
    bound(history, 1, lambda: history.send(1, 0, at=2))
    bound(history, 2, lambda: history.send(2, 1, at=2))
    bound(history, 1, lambda: history.poll([(1, 2)], at=3))
    bound(history, 2, lambda: history.poll([(0, 1)], at=3))
    return history.final([(0, 1), (1, 2)])


def interleaved() -> History:
    history = transactions(History(), {1: (1, 10), 2: (1, 10)})
    for txn, partition_id, value, offset in ((1, 0, 1, 0), (2, 0, 2, 1), (2, 1, 3, 0), (1, 1, 4, 1)):
        send = partial(history.send, value, offset, at=2, partition_id=partition_id)
        bound(history, txn, send)
    history.final([(0, 1), (1, 2)])
    return history.final([(0, 3), (1, 4)], partition_id=1)


def one_after_the_other() -> History:
    history = transactions(History(), {1: (1, 3), 2: (4, 6)})
    for txn, partition_id, value, offset in ((1, 0, 1, 0), (2, 0, 2, 1), (1, 1, 3, 0), (2, 1, 4, 1)):
        send = partial(history.send, value, offset, at=2, partition_id=partition_id)
        bound(history, txn, send)
    history.final([(0, 1), (1, 2)])
    return history.final([(0, 3), (1, 4)], partition_id=1)


def order_against_time_in_a_batch() -> History:
    history = History().sends([(1, 0, 0), (2, 2, 0)], at=1)
    history.send(3, 1, at=5)
    return history.final([(0, 1), (1, 3), (2, 2)])


def probe_read_before_it_was_sent() -> History:
    history = History().poll([(0, NAMED_FROM)], at=1)
    history.send(NAMED_FROM, 0, at=5)
    history.final([(0, NAMED_FROM)])
    history.rows["value_names"].append({"run": 0, "value": NAMED_FROM, "name": "r0"})
    return history


def lagging_poll() -> History:
    return sound().poll([(0, 1)], at=4)


STORIES: Mapping[str, Callable[[], History]] = {
    "sound": sound,
    "read before send": read_before_send,
    "read while sent": read_while_sent,
    "order against time": order_against_time,
    "order against time, in a batch": order_against_time_in_a_batch,
    "probe read before it was sent": probe_read_before_it_was_sent,
    "order of overlapping sends": lambda: order_against_time(at=2.5),
    "order without acknowledgement": lambda: order_against_time(acks=0),
    "circular, committed only": lambda: circular_reading("read_committed"),
    "circular, uncommitted too": lambda: circular_reading("read_uncommitted"),
    "interleaved": interleaved,
    "one after the other": one_after_the_other,
    "lagging poll": lagging_poll,
    "not read to its end": lambda: History(read_to_end=False),
}
# story -> (kind, promised) of each row
FOUND = {
    "read before send": {("read-before-send", True)},
    "order against time": {("order-against-time", True)},
    "order against time, in a batch": {("order-against-time", True)},
    "probe read before it was sent": {("read-before-send", True)},
    "circular, committed only": {("circular-reading", True)},
    "circular, uncommitted too": {("circular-reading", False)},
    "interleaved": {("G0", False)},
}


def judged(spark: SparkSession, folder: Path, **options: Any) -> NativeSearch:
    histories = []
    for run, make in enumerate(STORIES.values()):
        history = make()
        history.as_run(run)
        histories.append(history)
    return find_cycles(spark, tables(spark, folder, histories), **options)


@pytest.fixture(scope="module")
def found(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> NativeSearch:
    return judged(spark, tmp_path_factory.mktemp("native"))


def rows_of(search: NativeSearch, story: str) -> list[CycleRow]:
    return list(search.rows.get(list(STORIES).index(story), ()))


@pytest.mark.parametrize("story", STORIES)
def test_each_story_shows_its_cycle_and_only_it(found: NativeSearch, story: str) -> None:
    assert {(row.kind, row.promised) for row in rows_of(found, story)} == FOUND.get(story, set())
    assert all(row.count == 1 and row.reason for row in rows_of(found, story))


def test_a_row_tells_the_cycle_in_words_with_its_times_and_operations(found: NativeSearch) -> None:
    (row,) = rows_of(found, "read before send")
    assert row.sentence == (
        "T1 is send 1 of process 1; T2 is poll 0 of process 9. T1 wrote p0-000007 to t-0 and T2 read it; yet T2 had "
        "ended before T1 began: these cannot all have happened in one order."
    )
    assert (row.topic, row.partition, list(row.operations), list(row.values)) == ("t", 0, [0, 1], [7])
    assert (row.first_ns, row.last_ns) == (1 * SECOND, int(5.1 * SECOND))


def test_a_row_names_the_transactions_of_a_cycle(found: NativeSearch) -> None:
    (row,) = rows_of(found, "interleaved")
    assert list(row.transactions) == [1, 2]
    assert row.topic is None
    assert "transaction 1 of t1" in row.sentence


def test_what_is_on_a_cycle_is_called_by_its_names(found: NativeSearch) -> None:
    (batch,) = rows_of(found, "order against time, in a batch")
    (send,) = [step.source for step in batch.cycle.steps if step.relation == REALTIME]
    assert batch.names.operation(send) == "record 2 of send 0 of process 1"
    (probe,) = rows_of(found, "probe read before it was sent")
    (step,) = [step for step in probe.cycle.steps if step.relation == WR]
    assert (probe.names.partition(step.partition_id), probe.names.value(step.value)) == ("t-0", "r0")


def test_what_no_order_is_known_of_is_said(found: NativeSearch) -> None:
    unread = list(STORIES).index("not read to its end")
    assert set(found.not_searched) == {unread}
    assert "t-0" in found.not_searched[unread][0].reason


def test_more_than_the_driver_shall_hold_is_searched_in_workers_with_the_same_answer(
    spark: SparkSession, tmp_path: Path, found: NativeSearch
) -> None:
    assert judged(spark, tmp_path, limits=Limits(collected_rows=0)) == found
