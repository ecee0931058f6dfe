"""Torn transactions: some records of one transaction are in the final log, and others are not (KIP-98, atomicity).

A committed transaction must be there completely, an aborted one not at all, and one with unknown outcome either way. If
the partition was not read up to the missing record, it is only a candidate, which is an observation; a record that the
configuration removed or allowed to be lost does not count. One with unknown outcome may be torn by what its
coordinator lawfully forgot of it, or by a marker that a log lawfully lost (transaction_forgetting.py); of a committed
one the check of lost writes has said so. Not judged: unknown outcomes if the final reader was read_uncommitted, since
it sees uncommitted records.
"""

from collections.abc import Sequence
from typing import TypedDict

from pyspark.sql import functions as sf

from harness.checks.contract.coordinators_log import Ruled
from harness.checks.contract.rulings import Cause, Class
from harness.checks.families.transactions.missing_records import MissingRecords, MissingRow
from harness.checks.families.transactions.transaction_forgetting import TransactionForgetting, marker_ruled
from harness.checks.family import Family
from harness.checks.findings import Finding, RunContext
from harness.checks.judged_runs import JudgedRuns
from harness.checks.wording.causes import cause_words
from harness.checks.wording.words import plural
from harness.history.schema.client_rows import TRANSACTIONS, TransactionRow
from harness.history.schema.column_types import END_OF_TIME_NS
from harness.history.schema.schemas import STATUS_OK
from harness.history.schema.typed_rows import RowsOf, typed

CHECK = "torn-transaction"
_ROWS_MAX = 20_000


class _PartRow(TypedDict):
    """places: the partitions that it wrote."""

    run: int
    transaction: int
    sent: int
    visible: int
    reader: int | None
    places: list[int]
    missing: list[MissingRow]


class TornRow(_PartRow):
    """certain: it was committed; otherwise its outcome is unknown."""

    certain: bool
    of_transaction: TransactionRow


ANSWER = RowsOf(CHECK, TornRow)


def query(runs: JudgedRuns) -> list[TornRow]:
    """Transactions that are partly in the final log: the number of records of each, and the missing ones."""
    if not runs.rows(TRANSACTIONS):
        return []
    sent = runs.tables.records.where("kind = 0 and transaction is not null and status <> 1").select(
        "run", "partition_id", "value", "transaction", "offset", "completed_ns", "key", "acks", "timestamp_ms"
    )
    final = runs.tables.records.where("kind = 2 and replica is null").select(
        "run", "partition_id", "value", "process", "offset"
    )
    ends = final.groupBy("run", "partition_id").agg(sf.max("offset").alias("final_end"))
    seen = final.groupBy("run", "partition_id", "value").agg(sf.min("process").alias("reader"))
    missing = sf.struct(*MissingRow.__annotations__)
    found = (
        sent.join(seen, ["run", "partition_id", "value"], "left")
        .join(sf.broadcast(ends), ["run", "partition_id"], "left")
        .groupBy("run", "transaction")
        .agg(
            sf.count("*").alias("sent"),
            sf.count("reader").alias("visible"),
            sf.min("reader").alias("reader"),
            sf.sort_array(sf.collect_set("partition_id")).alias("places"),
            sf.collect_list(sf.when(sf.col("reader").isNull(), missing)).alias("missing"),
        )
        .where("visible > 0 and visible < sent")
    )
    transactions = {(row["run"], row["transaction"]): row for row in runs.rows(TRANSACTIONS)}
    clients = runs.processes()
    rows: list[TornRow] = []
    for row in typed(_PartRow, found.limit(_ROWS_MAX).toArrow()):
        transaction = transactions.get((row["run"], row["transaction"]))
        reader = None if row["reader"] is None else clients.get((row["run"], row["reader"]))
        if transaction is None:
            continue
        certain = transaction["outcome"] == STATUS_OK
        if certain or (reader is not None and reader["isolation"] == "read_committed"):
            rows.append({**row, "certain": certain, "of_transaction": transaction})
    return rows


def find(context: RunContext) -> list[Finding]:
    records, forgetting = MissingRecords(context), TransactionForgetting.of(context)
    groups: dict[tuple[Class, Cause, bool], list[tuple[TornRow, list[MissingRow]]]] = {}
    for row in sorted(context.rows[ANSWER], key=lambda row: row["transaction"]):
        missing = [record for record in row["missing"] if not records.removed(record)]
        if missing:
            classification, cause = records.ruled(missing)
            if classification == "violation" and not row["certain"]:
                classification, cause = _ended_in_parts(context, row, forgetting) or (classification, cause)
            groups.setdefault((classification, cause, row["certain"]), []).append((row, missing))
    return [_finding(context, *key, torn) for key, torn in groups.items()]


def _ended_in_parts(context: RunContext, row: TornRow, forgetting: TransactionForgetting) -> Ruled | None:
    """What lawfully made it end one way in one partition, and another way in the next."""
    own = row["of_transaction"]
    markers = (
        marker_ruled(context.partition(place), since_ns=own["invoked_ns"], until_ns=END_OF_TIME_NS)
        for place in row["places"]
    )
    return forgetting.ruled(own, END_OF_TIME_NS) or next((each for each in markers if each is not None), None)


def _finding(
    context: RunContext,
    classification: Class,
    cause: Cause,
    certain: bool,
    torn: Sequence[tuple[TornRow, list[MissingRow]]],
) -> Finding:
    records = [record for _, missing in torn for record in missing]
    sent, visible = sum(row["sent"] for row, _ in torn), sum(row["visible"] for row, _ in torn)
    what = "committed transaction" if certain else "transaction"
    unknown = "" if certain else " of unknown outcome"
    places = sorted({context.partition(record["partition_id"]).name for record in records})
    one = places[0] if len(places) == 1 else None
    history = context.partition(records[0]["partition_id"])
    sentence = (
        f"{plural(len(torn), what)}{unknown} {plural(len(torn), 'is')} in the final log in part: {visible} of {sent} "
        f"records are there, {len(records)} are not ({', '.join(places[:5])}): {cause_words(cause)}."
    )
    transactions = [row["of_transaction"] for row, _ in torn]
    return Finding(
        run=context.run,
        check=CHECK,
        classification=classification,
        kind="candidate" if classification == "observation" else "torn",
        count=len(torn),
        topic=history.topic if one else None,
        partition=history.partition if one else None,
        sentence=sentence,
        cause=cause,
        open_question=cause.doubt is not None,
        values=[record["value"] for record in records],
        apart="committed" if certain else "unknown",
        offsets=[record["offset"] for record in records if record["offset"] is not None],
        first_ns=min(row["invoked_ns"] for row in transactions),
        last_ns=max(row["completed_ns"] for row in transactions),
        evidence={
            "transactions": [
                {
                    "transaction": row["transaction"],
                    "process": row["of_transaction"]["process"],
                    "sent": row["sent"],
                    "visible": row["visible"],
                    "error": row["of_transaction"]["error"],
                    "missing": [
                        {"partition_id": each["partition_id"], "value": each["value"], "offset": each["offset"]}
                        for each in missing[:20]
                    ],
                }
                for row, missing in torn[:20]
            ]
        },
    )


FAMILY = Family(name=CHECK, find=find, query=query)
