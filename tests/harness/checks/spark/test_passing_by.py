"""What is asked of rows as they pass by is answered as if they lay there all at once, and as Spark answers it."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

from harness.checks.model import decided_transactions
from harness.checks.model.decided_transactions import with_decisions
from harness.checks.spark import passing_by
from harness.checks.spark.passing_by import grouped, log_rows_at, records_at
from harness.checks.spark.tables import Tables, small_table, tables_of
from harness.history.schema.schemas import STATUS_FAIL, STATUS_INFO, STATUS_OK, TABLES

KEYS = ("run", "partition_id", "value")


def table(name: str, rows: list[dict[str, object]]) -> pa.Table:
    schema = TABLES[name]
    return pa.Table.from_pylist([dict.fromkeys(schema.names) | row for row in rows], schema)


RECORDS: list[dict[str, object]] = [
    {
        "run": run,
        "kind": kind,
        "status": status,
        "partition_id": partition,
        "value": value,
        "offset": offset,
        "transaction": transaction,
        "operation": value,
        "process": 1,
        "topic": "t",
        "partition": partition,
        "position": 0,
        "invoked_ns": value,
        "completed_ns": value + 1,
    }
    for run, kind, status, partition, value, offset, transaction in [
        (0, 0, STATUS_INFO, 0, 1, 10, 7),
        (0, 0, STATUS_INFO, 0, 2, None, 7),
        (0, 0, STATUS_INFO, 1, 3, None, 8),
        (0, 1, STATUS_INFO, 0, 1, 10, 7),
        (0, 0, STATUS_OK, 1, 4, 11, None),
        (1, 0, STATUS_INFO, 0, 1, 12, 7),
    ]
]


@pytest.fixture
def tables(spark: SparkSession, tmp_path: Path) -> Tables:
    logs: list[dict[str, object]] = [
        {"run": run, "partition_id": 0, "topic": "t", "partition": 0, "snapshot": 1, "node": 1, "offset": o, "value": o}
        for run in (0, 1)
        for o in range(4)
    ]
    arrow = {name: TABLES[name].empty_table() for name in TABLES}
    arrow |= {"records": table("records", RECORDS), "replica_log": table("replica_log", logs)}
    return tables_of(spark, tmp_path, arrow, 2)


@pytest.mark.parametrize("rows", [1, 2, 100])
def test_groups_of_batches_are_those_of_all_rows(rows: int) -> None:
    whole = pa.table({"k": [1, 2, 1, 2, 1, 3], "v": [5, None, -2, 2**63 - 1, 9, None]})
    asked: passing_by.Asked = {
        "least": ("v", "min"),
        "most": ("v", "max"),
        "together": ("v", "sum"),
        "count": ("v", "count"),
    }

    found = grouped((pa.Table.from_batches([each]) for each in whole.to_batches(max_chunksize=rows)), ["k"], asked)

    assert found is not None
    assert found.sort_by("k").to_pylist() == [
        {"k": 1, "least": -2, "most": 9, "together": 12, "count": 3},
        {"k": 2, "least": 2**63 - 1, "most": 2**63 - 1, "together": 2**63 - 1, "count": 1},
        {"k": 3, "least": None, "most": None, "together": None, "count": 0},
    ]


def test_without_a_batch_there_is_no_group() -> None:
    assert grouped([], ["k"], {"least": ("v", "min")}) is None


def test_rows_of_logs_are_found_by_their_keys_in_their_own_run(tables: Tables) -> None:
    wanted = small_table(
        ("run", "partition_id", "offset"),
        [{"run": 1, "partition_id": 0, "offset": 2}, {"run": 0, "partition_id": 1, "offset": 2}],
    )

    found = [row for part in log_rows_at(tables, wanted, ["run", "offset", "node"]) for row in part.to_pylist()]

    assert found == [{"run": 1, "offset": 2, "node": 1}]


@pytest.mark.parametrize("decided", [{}, {(0, 7): STATUS_OK, (0, 8): STATUS_FAIL}], ids=["nothing", "two"])
@pytest.mark.parametrize(
    ("only", "as_spark_says_it"),
    [(None, "true"), (pc.field("status") == STATUS_OK, f"status = {STATUS_OK}")],
    ids=["all", "the successful"],
)
def test_what_the_coordinator_decided_is_seen_as_spark_sees_it(
    spark: SparkSession,
    tables: Tables,
    monkeypatch: pytest.MonkeyPatch,
    decided: dict[tuple[int, int], int],
    only: pc.Expression | None,
    as_spark_says_it: str,
) -> None:
    def decided_of(_: object, run: int, *__: object) -> Iterator[tuple[int, int]]:
        return ((number, outcome) for (of_run, number), outcome in decided.items() if of_run == run)

    monkeypatch.setattr(decided_transactions, "_decided", decided_of)
    decided_tables = with_decisions(spark, tables, [None, None])
    columns = ["run", "kind", "partition_id", "value", "offset", "status"]
    wanted = small_table(KEYS, [{name: row[name] for name in KEYS} for row in RECORDS])

    here = [row for part in records_at(decided_tables, wanted, columns, only) for row in part.to_pylist()]
    by_spark = decided_tables.records.where(as_spark_says_it).select(*columns).toArrow().to_pylist()

    assert sorted(map(str, here)) == sorted(map(str, by_spark))
    assert len(here) >= 1
