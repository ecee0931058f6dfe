"""Reads of uncommitted records: of aborted transactions, and of transactions with unknown outcome.

A read_uncommitted reader may return them; a read_committed one must never return an aborted one (KIP-98). Reads by
clients that the table `processes` does not describe count as read_uncommitted, which is Kafka's default. One that it
describes without its isolation (an application's) may be either: it is accused neither of returning nor of passing over
such records. A transaction that no broker was told of has no records.
"""

from collections.abc import Mapping
from typing import TypedDict

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from harness.checks.family import Family
from harness.checks.findings import RunContext
from harness.checks.judged_runs import JudgedRuns
from harness.checks.spark.detection import FLAGGED_MAX
from harness.history.schema.client_rows import TRANSACTIONS
from harness.history.schema.schemas import NEVER_BEGUN, STATUS_FAIL, STATUS_OK
from harness.history.schema.typed_rows import RowsOf, typed

NAME = "isolation"
# Of a send's row.
ABORTED_SQL = f"kind = 0 and transaction is not null and status = {STATUS_FAIL}"
_UNCOMMITTED_SQL = f"kind = 0 and transaction is not null and status <> {STATUS_OK}"


class OpenlyReadRow(TypedDict):
    """A record that was read, of a transaction that did not certainly commit; strict: number of reads by read_committed
    readers, the first of which ended at strict_ns. aborted_at: where these were given it, if that is what its send was
    answered and it was aborted."""

    run: int
    partition_id: int
    value: int
    transaction: int
    strict: int
    strict_ns: int | None
    aborted_at: list[int]


ANSWER = RowsOf(NAME, OpenlyReadRow)


class ReaderRow(TypedDict):
    run: int
    process: int


def committed_readers(runs: JudgedRuns) -> list[ReaderRow]:
    return [
        {"run": run, "process": process}
        for (run, process), row in runs.processes().items()
        if row["isolation"] == "read_committed"
    ]


def perhaps_committed_readers(runs: JudgedRuns) -> list[ReaderRow]:
    """Those that may have passed over uncommitted records lawfully: clients of an application need not tell."""
    return [
        {"run": run, "process": process}
        for (run, process), row in runs.processes().items()
        if row["role"] != "producer" and row["isolation"] != "read_uncommitted"
    ]


def with_outcome(runs: JudgedRuns, reads: DataFrame) -> DataFrame:
    """Read rows of `records`, each with `outcome`: what is known of the transaction that sent it (STATUS_...).

    What a read_committed reader returned was committed. Columns needed: run, partition_id, value, process.
    """
    if not _may_have_been_aborted(runs):
        return reads.withColumn("outcome", sf.lit(STATUS_OK))
    sent = runs.tables.records.where(_UNCOMMITTED_SQL).groupBy("run", "partition_id", "value")
    return (
        reads.join(sent.agg(sf.min("status").alias("outcome")), ["run", "partition_id", "value"], "left")
        .join(_strict(runs), ["run", "process"], "left")
        .withColumn("outcome", sf.expr(f"if(strict, {STATUS_OK}, coalesce(outcome, {STATUS_OK}))"))
        .drop("strict")
    )


def _may_have_been_aborted(runs: JudgedRuns) -> bool:
    return any(row["outcome"] != STATUS_OK for row in runs.rows(TRANSACTIONS))


def _strict(runs: JudgedRuns) -> DataFrame:
    columns = ("run", "process")
    return sf.broadcast(runs.frame(columns, committed_readers(runs)).withColumn("strict", sf.lit(True)))


def query(runs: JudgedRuns) -> list[OpenlyReadRow]:
    if not _may_have_been_aborted(runs):
        return []
    sent = runs.tables.records.where(_UNCOMMITTED_SQL).select(
        "run",
        "partition_id",
        "value",
        "transaction",
        sf.expr(f"if({ABORTED_SQL}, offset, null)").alias("aborted_offset"),
    )
    never_begun = [row for row in runs.rows(TRANSACTIONS) if row["outcome"] == NEVER_BEGUN]
    if never_begun:  # what was sent in one was refused, and nothing else
        left_out = sf.broadcast(runs.frame(("run", "transaction"), never_begun))
        sent = sent.join(left_out, ["run", "transaction"], "left_anti")
    columns = ("run", "partition_id", "value", "process", "offset", "completed_ns")
    reads = runs.tables.records.where("kind > 0").select(*columns)
    found = (
        reads.join(sent, ["run", "partition_id", "value"])
        .join(_strict(runs), ["run", "process"], "left")
        .groupBy("run", "partition_id", "value", "transaction")
        .agg(
            sf.count_if(sf.coalesce("strict", sf.lit(False))).alias("strict"),
            sf.min(sf.expr("if(strict, completed_ns, null)")).alias("strict_ns"),
            sf.collect_set(sf.expr("if(strict and offset = aborted_offset, offset, null)")).alias("aborted_at"),
        )
    )
    return typed(OpenlyReadRow, found.limit(FLAGGED_MAX).toArrow())


def openly_read(context: RunContext) -> Mapping[tuple[int, int], OpenlyReadRow]:
    """(partition, value) of transactional records that did not certainly commit, and were read."""
    return {(row["partition_id"], row["value"]): row for row in context.rows[ANSWER]}


def aborted_copies(context: RunContext) -> Mapping[tuple[int, int, int], OpenlyReadRow]:
    """(partition, value, offset) of copies of aborted transactions that read_committed readers were given."""
    rows = context.rows[ANSWER]
    return {(row["partition_id"], row["value"], offset): row for row in rows for offset in row["aborted_at"]}


FAMILY = Family(name=NAME, query=query)
