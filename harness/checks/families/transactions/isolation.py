"""Reads of uncommitted records: of aborted transactions, and of transactions with unknown outcome.

A read_uncommitted reader may return them; a read_committed one must never return an aborted one (KIP-98). Reads by
clients that the table `processes` does not describe count as read_uncommitted, which is Kafka's default.
"""

from collections.abc import Mapping
from typing import TypedDict

import pyarrow as pa
from pyspark.sql import functions as sf

from harness.checks.findings import RunContext
from harness.checks.judged_runs import JudgedRuns
from harness.checks.spark.detection import FLAGGED_MAX
from harness.history.schema.client_rows import TRANSACTIONS
from harness.history.schema.schemas import STATUS_OK
from harness.history.schema.typed_rows import RowsOf, typed

NAME = "isolation"


class OpenlyReadRow(TypedDict):
    """A record that was read, of a transaction that did not certainly commit; strict: number of reads by read_committed
    readers."""

    run: int
    partition_id: int
    value: int
    transaction: int
    strict: int


ANSWER = RowsOf(NAME, OpenlyReadRow)


def query(runs: JudgedRuns) -> list[OpenlyReadRow]:
    open_ended = [row for row in runs.rows(TRANSACTIONS) if row["outcome"] != STATUS_OK]
    if not open_ended:
        return []
    committed_only = [
        {"run": run, "process": process, "strict": True}
        for (run, process), row in runs.processes().items()
        if row["isolation"] == "read_committed"
    ]
    columns = {"run": pa.int32(), "process": pa.int32(), "strict": pa.bool_()}
    readers = sf.broadcast(runs.frame(columns, committed_only))
    sent = runs.tables.records.where("kind = 0 and status <> 0 and transaction is not null").select(
        "run", "partition_id", "value", "transaction"
    )
    reads = runs.tables.records.where("kind > 0").select("run", "partition_id", "value", "process")
    found = (
        reads.join(sent, ["run", "partition_id", "value"])
        .join(readers, ["run", "process"], "left")
        .groupBy("run", "partition_id", "value", "transaction")
        .agg(sf.count_if(sf.coalesce("strict", sf.lit(False))).alias("strict"))
    )
    return typed(OpenlyReadRow, found.limit(FLAGGED_MAX).toArrow())


def strict_readers(context: RunContext) -> Mapping[tuple[int, int], int]:
    """(partition, value) of transactional records that did not certainly commit -> reads by read_committed readers."""
    return {(row["partition_id"], row["value"]): row["strict"] for row in context.rows[ANSWER]}
