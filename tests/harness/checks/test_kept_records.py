"""A record that several readings of a coordinator's log found is one record."""

from typing import Any

from harness.checks.families.groups.stored_records import _copies
from harness.checks.model.kept_records import with_each_record_once
from harness.checks.spark.tables import Tables
from harness.history.schema.internal_rows import CONSUMER_OFFSETS, TRANSACTION_STATE
from harness.history.schema.schemas import TABLES


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
