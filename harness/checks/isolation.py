"""Who read what a transaction had not committed: records of aborted transactions, and of those of unknown outcome.

A read_uncommitted reader may return them; a read_committed one may return an aborted one never (KIP-98). Reads by
clients that are not described in the table `processes` count as read_uncommitted, which is Kafka's default.
"""

from collections.abc import Mapping

import pyarrow as pa
from pyspark.sql import functions as sf

from harness.checks.detection import FLAGGED_MAX
from harness.checks.findings import RunContext
from harness.checks.runs import Runs
from harness.checks.tables import Row
from harness.history.schemas import STATUS_OK

NAME = "isolation"


def query(runs: Runs) -> list[Row]:
    """run, tp, value, txn, strict: records sent in a transaction that did not certainly commit, and read by someone.

    strict: how often by a read_committed reader.
    """
    open_ended = [row for row in runs.rows("transactions") if row["outcome"] != STATUS_OK]
    if not open_ended:
        return []
    committed_only = [
        {"run": run, "process": process, "strict": True}
        for (run, process), row in runs.processes().items()
        if row["isolation"] == "read_committed"
    ]
    columns = {"run": pa.int32(), "process": pa.int32(), "strict": pa.bool_()}
    readers = sf.broadcast(runs.frame(columns, committed_only))
    sent = runs.tables.records.where("kind = 0 and status <> 0 and txn is not null").select("run", "tp", "value", "txn")
    reads = runs.tables.records.where("kind > 0").select("run", "tp", "value", "process")
    found = (
        reads.join(sent, ["run", "tp", "value"])
        .join(readers, ["run", "process"], "left")
        .groupBy("run", "tp", "value", "txn")
        .agg(sf.count_if(sf.coalesce("strict", sf.lit(False))).alias("strict"))
    )
    return list(found.limit(FLAGGED_MAX).toArrow().to_pylist())


def strict_readers(context: RunContext) -> Mapping[tuple[int, int], int]:
    """(partition, value) of transactional records that did not certainly commit -> reads by read_committed readers."""
    return {(row["tp"], row["value"]): row["strict"] for row in context.rows.get(NAME, ())}
