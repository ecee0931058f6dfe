"""A record that several readings of a coordinator's log found is one record."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.checks.families.groups.group_partition import Kept
from harness.checks.families.groups.stored_records import _copies, _have, _marker_of
from harness.checks.model.kept_records import with_each_record_once
from harness.checks.model.partition_history import read_run_history
from harness.checks.spark.tables import Tables
from harness.history.facts.internal_topics import GROUP_OFFSETS_TOPIC
from harness.history.schema.client_rows import GROUP_EVENTS
from harness.history.schema.internal_rows import CONSUMER_OFFSETS, TRANSACTION_STATE, ConsumerOffsetsRow
from harness.history.schema.schemas import STATUS_OK, TABLES
from harness.history.schema.typed_rows import TypedRows
from tests.harness.checks.contract.test_contract_against_model import small_tables
from tests.harness.checks.histories.build import SECOND
from tests.outsiders.history_builder import HistoryBuilder


def _row(table: str, **columns: Any) -> dict[str, Any]:
    return {**dict.fromkeys(TABLES[table].names), "run": 0, "partition": 7, "removed": False, **columns}


def _tables(**rows: list[dict[str, Any]]) -> Tables:
    def large(name: str) -> Any:
        raise AssertionError(name)

    return Tables(
        large=large,
        batches=lambda *_: (),
        record_count=0,
        row_count=0,
        read_small=lambda: {n: {0: r} for n, r in rows.items()},
        runs=1,
    )


def _commit(offset: int, snapshots: list[int], committed: int = 5) -> dict[str, Any]:
    return _row("consumer_offsets", offset=offset, snapshots=snapshots, kind="offset", committed_offset=committed)


def test_what_a_wipe_and_the_end_found_is_one_record_in_both_logs() -> None:
    tables = with_each_record_once(_tables(consumer_offsets=[_commit(3, [0]), _commit(4, [0]), _commit(3, [1, 2])]))
    found = tables.rows(CONSUMER_OFFSETS, 0)
    assert [(row["offset"], row["snapshots"]) for row in found] == [(3, [0, 1, 2]), (4, [0])]
    assert {copy.node for copy in _copies(found[:1], {0: 1, 1: 2, 2: 3})} == {1, 2, 3}


def test_two_records_that_had_one_place_stay_two() -> None:
    tables = with_each_record_once(_tables(consumer_offsets=[_commit(3, [0]), _commit(3, [1], committed=6)]))
    assert [row["snapshots"] for row in tables.rows(CONSUMER_OFFSETS, 0)] == [[0], [1]]


def test_a_transactions_state_that_is_kept_is_in_the_logs_at_the_end() -> None:
    ongoing = {"offset": 0, "transactional_id": "p", "state": "Ongoing", "partitions": [{"topic": "t", "partition": 0}]}
    rows = [_row("transaction_state", snapshots=[number], **ongoing) for number in (0, 1)]
    tables = with_each_record_once(_tables(transaction_state=rows))
    assert [row["snapshots"] for row in tables.rows(TRANSACTION_STATE, 0)] == [[0, 1]]


@pytest.mark.parametrize(
    ("cut_to", "cut_at", "is_shown"),
    [(None, 0.0, True), (30, 20.0, False), (41, 20.0, True), (40, 20.0, False), (30, 5.0, True), (30, 26.0, True)],
)
def test_a_mark_from_before_a_cut_does_not_show_that_a_marker_was_replicated(
    cut_to: int | None, cut_at: float, is_shown: bool
) -> None:
    """The marker stands at 40 in broker 1's log, which is read at second 25 beside a mark of 50."""
    history = HistoryBuilder()
    place = GROUP_OFFSETS_TOPIC, 7
    history.kept_state(place, 1, 0, (1, 2, 3), at=0)
    history.kept_log(place, 1, 50, at=25)
    history.kept_offset(7, 4, at=22, producer_id=1, transactional=True)
    history.kept_marker(7, at=22.1, producer_id=1, producer_epoch=0)
    sent, marker = history.rows["consumer_offsets"]
    sent["offset"], marker["offset"] = 39, 40
    if cut_to is not None:
        cut = {"node": 1, "topic": place[0], "partition": place[1], "from_offset": 50, "to_offset": cut_to}
        history._add("internal_broker_events", event="truncation", time_ns=int(cut_at * SECOND), **cut)
    own = read_run_history(small_tables(history), 0, history.scenario, 0).internal[place]
    context: Any = SimpleNamespace(tables=TypedRows({CONSUMER_OFFSETS.name: [sent, marker]}))
    assert (_marker_of(context, own, cast(ConsumerOffsetsRow, sent)) is not None) is is_shown


@pytest.mark.parametrize(("asked_at", "commits", "logs"), [(30.0, 1, {0}), (22.15, 1, set()), (30.0, 2, set())])
def test_what_was_sent_to_a_transaction_is_stored_with_the_marker_that_was_there_when_it_was_asked_for(
    asked_at: float, commits: int, logs: set[int]
) -> None:
    """Written at second 22, marked 0.1 s later; the clocks may be that far apart. Of two one may have been lost."""
    history = HistoryBuilder()
    history.kept_log((GROUP_OFFSETS_TOPIC, 7), 1, 50, at=40)
    history.kept_offset(7, 4, at=22, producer_id=1, transactional=True)
    history.kept_marker(7, at=22.1, producer_id=1, producer_epoch=0)
    sent, marker = history.rows["consumer_offsets"]
    commit = {"group": "g", "topic": "t", "partition": 0, "offset": 4, "event": "committed", "status": STATUS_OK}
    commit |= {"invoked_ns": 22 * SECOND, "completed_ns": 22 * SECOND}
    rows = {CONSUMER_OFFSETS.name: [sent, marker], GROUP_EVENTS.name: [commit] * commits}
    place: Any = SimpleNamespace(topic="t", partition=0)
    kept = Kept(
        group="g",
        partition=place,
        sent_ns=22 * SECOND,
        stored_ns=22 * SECOND,
        gone_ns=31 * SECOND,
        offset=4,
        asked_ns=int(asked_at * SECOND),
    )
    context: Any = SimpleNamespace(tables=TypedRows(rows))
    assert _have(context, kept, cast(ConsumerOffsetsRow, sent)) == logs
