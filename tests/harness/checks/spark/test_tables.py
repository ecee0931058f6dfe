"""Many run folders are one set of tables: numbered by their place, old ones with fewer columns among them."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from harness.checks.spark.tables import CORRUPT_READS, open_tables
from harness.errors import HarnessError
from harness.history.schema.cluster_rows import FAULTS
from harness.history.schema.schemas import ADDED_COLUMNS, TABLES

SET: dict[str, dict[str, Any]] = {
    "operations": {"process": 1, "function": "poll", "status": 0, "invoked_ns": 1, "completed_ns": 2, "count": 0},
    "faults": {"nodes": [1]},
}


def write(folder: Path, name: str, rows: list[dict[str, Any]], *, without: tuple[str, ...] = ()) -> None:
    folder.mkdir(exist_ok=True)
    blank: dict[str, Any] = dict.fromkeys(TABLES[name].names) | {"run": 0} | SET.get(name, {})
    table = pa.Table.from_pylist([blank | row for row in rows], TABLES[name])
    pq.write_table(table.drop_columns(list(without)), folder / f"{name}.parquet")


def record(value: int) -> dict[str, Any]:
    return {
        "kind": 0,
        "status": 0,
        "acks": -1,
        "operation": 0,
        "process": 1,
        "topic": "t",
        "partition": 0,
        "partition_id": 0,
        "position": 0,
        "value": value,
        "offset": value,
        "invoked_ns": 1,
        "completed_ns": 2,
    }


def write_run(folder: Path, records: list[dict[str, Any]]) -> None:
    """With what a check holds the records against."""
    write(folder, "records", records)
    counts = {"sends": len(records), "reads": 0, "final_reads": 0}
    marks = dict.fromkeys(("transactional", "halting", "log_append"), False)
    write(folder, "activity", [counts | marks])


def test_runs_are_numbered_by_their_place_and_old_ones_have_nulls_for_new_columns(
    spark: SparkSession, tmp_path: Path
) -> None:
    new, old, empty = tmp_path / "new", tmp_path / "old", tmp_path / "empty"
    write_run(new, [record(1) | {"key": 7}, record(2)])
    write_run(old, [record(3)])
    faults: list[dict[str, Any]] = [{"fault": 0, "kind": "kill"}, {"fault": 1, "kind": "stop"}]
    write(old, "faults", faults, without=ADDED_COLUMNS["faults"])
    write(
        old, "operations", [{"operation": 0, "error": "CorruptRecordError"}, {"operation": 1, "error": "TimeoutError"}]
    )
    empty.mkdir()

    with open_tables(spark, [new, empty, old]) as tables:
        rows = tables.records.select("run", "value", "key").toArrow().to_pylist()
        assert tables.replica_log.count() == 0

    assert sorted((row["run"], row["value"], row["key"]) for row in rows) == [(0, 1, 7), (0, 2, None), (2, 3, None)]
    assert (tables.runs, tables.record_count) == (3, 3)
    found = [(row["run"], row["kind"], row["planned_ns"]) for row in tables.rows(FAULTS, 2)]
    assert found == [(2, "kill", None), (2, "stop", None)]
    assert tables.rows(FAULTS, 0) == ()
    assert [row["operation"] for row in tables.rows(CORRUPT_READS, 2)] == [0]


def test_one_run_is_read_where_it_lies_unless_its_rows_carry_another_number(
    spark: SparkSession, tmp_path: Path
) -> None:
    write(tmp_path / "first", "records", [record(1)])
    write(tmp_path / "third", "records", [record(1) | {"run": 2}])

    with open_tables(spark, [tmp_path / "first"]) as tables:
        assert [Path(name).parent for name in tables.records.inputFiles()] == [Path(f"file:{tmp_path}/first")]
    with open_tables(spark, [tmp_path / "third"]) as tables:
        assert [row["run"] for row in tables.records.collect()] == [0]


@pytest.mark.parametrize("name", ["run-*", "run-{1,2}", "run-?", "run-[12]", "run-\\1", "run-[", "run:1", "run-%41"])
def test_what_a_folder_is_called_stands_for_no_other_folder(spark: SparkSession, tmp_path: Path, name: str) -> None:
    for value, folder in enumerate(("run-1", "run-2", name), start=1):
        write(tmp_path / folder, "records", [record(value)])

    with open_tables(spark, [tmp_path / name]) as tables:
        assert [row["value"] for row in tables.records.collect()] == [3]


def test_records_of_an_unknown_topic_incarnation_are_apart_from_those_of_partitions(
    spark: SparkSession, tmp_path: Path
) -> None:
    for run in range(2):
        folder = tmp_path / str(run)
        write_run(folder, [record(1), record(2) | {"topic": "u", "partition_id": 1}, record(3) | {"partition_id": 2}])
        doubted = {(0, "u")}
        write(folder, "topics", [{"topic": name, "name": name, "undecided": (run, name) in doubted} for name in "tu"])
        write(
            folder,
            "partitions",
            [
                {"topic": topic, "partition": partition, "partition_id": partition_id, "read_to_end": True}
                for partition_id, (topic, partition) in enumerate([("t", 0), ("u", 0), ("t", 1)])
            ],
        )

    with open_tables(spark, [tmp_path / "0", tmp_path / "1"]) as tables:
        assert tables.set_apart == {(0, 1)}
        assert sorted((row["run"], row["value"]) for row in tables.records.collect()) == [
            (0, 1),
            (0, 3),
            (1, 1),
            (1, 2),
            (1, 3),
        ]
        assert tables.every_record.count() == 6


@pytest.mark.parametrize("others", [0, 1])
def test_a_broken_file_is_named_with_what_to_do(spark: SparkSession, tmp_path: Path, others: int) -> None:
    write(tmp_path / "sound", "records", [record(1)])
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "records.parquet").write_bytes(b"no Parquet at all")

    folders = [tmp_path / "broken", *[tmp_path / "sound"] * others]
    with pytest.raises(HarnessError, match=r"broken/records.parquet.*seal the run again"), open_tables(spark, folders):
        raise AssertionError("it was opened")


def test_of_many_runs_the_empty_tables_are_left_out_and_every_row_of_the_others_is_there(
    spark: SparkSession, tmp_path: Path
) -> None:
    folders = [tmp_path / f"run-{run:02d}" for run in range(12)]
    for run, folder in enumerate(folders):
        write_run(folder, [record(run)])
        write(folder, "faults", [{"fault": run, "kind": "kill"}] if run in (3, 11) else [])
        write(folder, "steps", [])
    write(folders[5], "faults", [], without=("kind",))

    with open_tables(spark, folders) as tables:
        assert sorted(tables.small["faults"]) == [3, 11]
        assert [row["fault"] for run in (3, 11) for row in tables.rows(FAULTS, run)] == [3, 11]
        assert tables.small["steps"] == {}
        assert tables.record_count == 12


def test_of_many_runs_a_file_that_is_no_table_is_an_error_however_short_it_is(
    spark: SparkSession, tmp_path: Path
) -> None:
    folders = [tmp_path / f"run-{run:02d}" for run in range(12)]
    for folder in folders:
        write(folder, "faults", [])
    (folders[7] / "faults.parquet").write_bytes(b"")

    with (
        pytest.raises(HarnessError, match=r"run-07/faults.parquet is no sound table"),
        open_tables(spark, folders) as tables,
    ):
        tables.rows(FAULTS, 0)
