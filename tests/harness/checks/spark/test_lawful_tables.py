"""Tables in which a check would overlook something are refused by file, column and number; sound ones are not."""

import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.checks.spark.tables import check_tables
from harness.errors import HarnessError
from harness.history.schema.lawful_rows import never_null, rules_of
from harness.history.schema.schemas import ROWS, TABLES
from harness.history.schema.typed_rows import columns_of
from harness.history.sealed.derived_tables import derived_of
from harness.host import memory
from tests.harness.checks.histories.build import arrow_of
from tests.harness.checks.twins import twins
from tests.refused import refused_by

Row = dict[str, Any]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The tables of a sound run, in which records were lost by an unclean election."""
    tables = arrow_of([twins.unclean_election_lost_three()])
    for name, table in (tables | derived_of(tables["records"])).items():
        pq.write_table(table, tmp_path / f"{name}.parquet")
    check_tables(tmp_path)
    return tmp_path


def change(folder: Path, name: str, changed: Callable[[list[Row]], list[Row]], *, statistics: bool = True) -> None:
    path = folder / f"{name}.parquet"
    rows = changed(pq.read_table(path).to_pylist())
    pq.write_table(pa.Table.from_pylist(rows, schema=TABLES[name]), path, write_statistics=statistics)


def refusal(folder: Path) -> str:
    with pytest.raises(HarnessError) as refused:
        check_tables(folder)
    assert "\n" not in str(refused.value)
    return str(refused.value)


def with_first(**columns: Any) -> Callable[[list[Row]], list[Row]]:
    return lambda rows: [rows[0] | columns, *rows[1:]]


def first_poll(**columns: Any) -> Callable[[list[Row]], list[Row]]:
    def changed(rows: list[Row]) -> list[Row]:
        place = next(place for place, row in enumerate(rows) if row["kind"] > 0)
        return [*rows[:place], rows[place] | columns, *rows[place + 1 :]]

    return changed


@pytest.mark.parametrize("statistics", [True, False])
@pytest.mark.parametrize(
    ("name", "changed", "why"),
    [
        ("records", with_first(offset=None), "column offset is null in 1 row of acknowledged sends"),
        ("records", with_first(acks=None), "column acks is null in 1 row of sends"),
        ("records", first_poll(offset=None), "column offset is null in 1 row of polls"),
        ("records", first_poll(last_of_poll=None), "column last_of_poll is null in 1 row of polls"),
        ("records", with_first(status=7), "column status is none of 0 to 2 in 1 row"),
        ("records", with_first(kind=9), "column kind is none of 0 to 2 in 1 row"),
        ("records", with_first(partition=-5), "column partition is below 0 in 1 row"),
        ("records", with_first(offset=-1), "column offset is below 0 in 1 row"),
        ("records", with_first(invoked_ns=9, completed_ns=8), "column completed_ns is before invoked_ns in 1 row"),
        ("records", with_first(partition_id=5), "partition_id 5 is not in {folder}/partitions.parquet"),
        ("records", with_first(transaction=5), "transaction 5 is not in {folder}/transactions.parquet"),
        ("replica_log", with_first(snapshot=99), "snapshot 99 is not in {folder}/replica_snapshots.parquet"),
        ("replica_snapshots", with_first(reason="End"), "column reason is none of kill, heal, wipe, restart"),
        ("partition_states", with_first(leader=-5), "column leader is below -1 in 1 row"),
        ("partition_states", with_first(isr=None), "column isr is null in 1 row"),
        ("partitions", lambda rows: rows * 2, "partition_id 0 is there 2 times"),
        ("partitions", lambda rows: [*rows, rows[0] | {"partition_id": 1}], "topic t, partition 0 is there 2 times"),
        ("activity", lambda rows: [], " counts 0 records, and there are "),
        ("activity", lambda rows: rows * 2, "the run is there 2 times"),
    ],
)
def test_rows_that_no_writer_leaves_are_reported_by_table_column_and_number(
    folder: Path, name: str, changed: Callable[[list[Row]], list[Row]], why: str, statistics: bool
) -> None:
    change(folder, name, changed, statistics=statistics)
    line = refusal(folder)
    assert line.startswith(f"{folder}/{name}.parquet")
    assert why.format(folder=folder) in line


@settings(deadline=None, max_examples=25)
@given(st.data())
def test_a_null_where_none_belongs_is_told_whatever_the_table_and_the_row(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    tables = arrow_of([twins.unclean_election_lost_three()])
    tables |= derived_of(tables["records"])
    versions_of = [
        name for name in TABLES if name in tables and name not in ("operations", "bins") and tables[name].num_rows
    ]
    name = data.draw(st.sampled_from(versions_of))
    column = data.draw(st.sampled_from(never_null(name)))
    rows = tables[name].to_pylist()
    rows[data.draw(st.integers(0, len(rows) - 1))][column] = None
    folder = tmp_path_factory.mktemp("nulls")
    for each, table in tables.items():
        pq.write_table(table, folder / f"{each}.parquet")
    pq.write_table(
        pa.Table.from_pylist(rows, schema=TABLES[name]),
        folder / f"{name}.parquet",
        row_group_size=4,
        write_statistics=data.draw(st.booleans()),
    )
    assert refusal(folder).startswith(f"{folder}/{name}.parquet: column {column} is null in 1 row")


@pytest.mark.parametrize("name", ["records", "faults"])
def test_a_row_is_of_the_run_in_whose_folder_it_lies(folder: Path, name: str) -> None:
    change(folder, name, with_first(run=None))
    assert refused_by(lambda: check_tables(folder)) is None


def test_tables_that_fit_one_by_one_and_not_together_are_refused_before_they_are_rows(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "_allowed_mb", 64)
    blown_up = ("configuration", "broker_events", "controllers", "client_events")
    versions_of = {name: dict.fromkeys(TABLES[name].names) for name in blown_up}
    versions_of["configuration"] |= {"time_ns": 1, "scope": "topic", "key": "k", "value": "v" * 200}
    versions_of["broker_events"] |= {"node": 1, "time_ns": 1, "event": "broker_start"}
    versions_of["controllers"] |= {"node": 1, "time_ns": 1}
    versions_of["client_events"] |= {"process": 1, "time_ns": 1, "event": "connect"}
    for name, row in versions_of.items():
        one = pa.Table.from_pylist([{**row, "run": 0}], schema=TABLES[name])
        pq.write_table(one.take(pa.array([0] * 40_000)), folder / f"{name}.parquet", compression="zstd")
        assert (folder / f"{name}.parquet").stat().st_size < 10_000

    tracemalloc.start()
    try:
        line = refusal(folder)
        assert tracemalloc.get_traced_memory()[1] < 128 << 20
    finally:
        tracemalloc.stop()
    assert "MB of memory with what was read before it, and 64 MB are allowed: give --memory-mb" in line
    for name in blown_up[1:]:
        pq.write_table(TABLES[name].empty_table(), folder / f"{name}.parquet")
    assert refused_by(lambda: check_tables(folder)) is None


def test_sends_of_acks_0_that_an_old_version_called_a_success_have_no_offset(folder: Path) -> None:
    change(folder, "records", with_first(acks=0, offset=None))
    assert refused_by(lambda: check_tables(folder)) is None


def test_what_was_read_from_single_replicas_is_no_activity_of_the_run(folder: Path) -> None:
    change(folder, "records", lambda rows: [*rows, *(row | {"replica": 2} for row in rows if row["kind"] == 2)])
    assert refused_by(lambda: check_tables(folder)) is None


def test_records_of_a_client_or_an_operation_that_is_not_described_are_judged_like_others(folder: Path) -> None:
    change(folder, "records", with_first(process=55, operation=5000))
    assert refused_by(lambda: check_tables(folder)) is None


@pytest.mark.parametrize("table", ROWS)
def test_every_rule_is_of_a_column_of_its_table(table: str) -> None:
    assert {rule.column for rule in rules_of(table)} <= columns_of(ROWS[table]).keys()
