"""Last stable offset: a read_committed reader passed the first record of a transaction that was still open (KIP-98).

Such a reader must not see anything at or above the first offset of any open transaction; its first record was in the
log before all records above it. One that was committed was certainly open until the last of its sends was answered,
because its producer ends it only after that. Any other one the coordinator may have ended meanwhile, in one partition
after the other, and in the next epoch, so that nothing more of it is appended where it has ended: there it was open
until the last send that got an offset was called. So a record above must not be returned by a poll that ended before
that. A permitted rewind of the log explains it, and so does a coordinator that lawfully forgot (KIP-98): it may have
ended what its producer had open, with the markers of what it had decided before (transaction_forgetting.py). Where
another client of its transactional id had a transaction meanwhile, a marker for that one, or for fencing this one, may
have ended it: that two clients could go on is told by zombie-transaction, and this stays open.
"""

from collections.abc import Sequence
from typing import TypedDict

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from harness.checks.contract.deposed import READ_AHEAD_NS
from harness.checks.contract.rulings import Cause, Doubt
from harness.checks.explaining.rewinds import Rewind, under_a_reader
from harness.checks.families.transactions.isolation import committed_readers
from harness.checks.families.transactions.transaction_forgetting import TransactionForgetting
from harness.checks.family import Family
from harness.checks.findings import Finding, RunContext
from harness.checks.judged_runs import JudgedRuns
from harness.checks.model.partition_history import PartitionHistory
from harness.checks.wording.causes import cause_words
from harness.checks.wording.words import plural, ranges
from harness.history.schema.client_rows import TRANSACTIONS, TransactionRow
from harness.history.schema.schemas import STATUS_OK
from harness.history.schema.typed_rows import RowsOf, typed

CHECK = "last-stable-offset"
_ROWS_MAX = 20_000
_OF_TRANSACTION = ("open_until", "transaction", "answered_ns", "begun_ns", "first_offset")


class PassedRow(TypedDict):
    """A record that was read although a transaction with an earlier one was still open. answered_ns: by then all
    records of that had their offsets. begun_ns: its first send there was called. first_offset: its first one there."""

    run: int
    partition_id: int
    offset: int
    value: int
    operation: int
    process: int
    invoked_ns: int
    completed_ns: int
    leader_epoch: int | None
    transaction: int
    open_until: int
    answered_ns: int
    begun_ns: int
    first_offset: int
    total: int


ANSWER = RowsOf(CHECK, PassedRow)


def query(runs: JudgedRuns) -> list[PassedRow]:
    strict = committed_readers(runs)
    if not strict or not runs.rows(TRANSACTIONS):
        return []
    sent = runs.tables.records.where("kind = 0 and transaction is not null and offset is not null")
    ends = sent.groupBy("run", "transaction").agg(
        sf.max("completed_ns").alias("answered_ns"), sf.expr(f"bool_or(status = {STATUS_OK})").alias("committed")
    )
    begins = (
        sent.groupBy("run", "partition_id", "transaction")
        .agg(
            sf.min("offset").alias("offset"),
            sf.min("invoked_ns").alias("begun_ns"),
            sf.max("invoked_ns").alias("called_ns"),
        )
        .join(ends, ["run", "transaction"])
        .selectExpr(
            "run",
            "partition_id",
            "offset",
            "transaction",
            "answered_ns",
            "if(committed, answered_ns, called_ns) as open_until",
            "begun_ns",
            "offset as first_offset",
            "cast(null as bigint) as value",
            "cast(null as bigint) as operation",
            "cast(null as int) as process",
            "cast(null as bigint) as invoked_ns",
            "cast(null as bigint) as completed_ns",
            "cast(null as int) as leader_epoch",
        )
    )
    readers = sf.broadcast(runs.frame(("run", "process"), strict))
    reads = (
        runs.tables.records.where("kind > 0")
        .join(readers, ["run", "process"], "left_semi")
        .selectExpr(
            "run",
            "partition_id",
            "offset",
            "cast(null as bigint) as transaction",
            "cast(null as bigint) as answered_ns",
            "cast(null as bigint) as open_until",
            "cast(null as bigint) as begun_ns",
            "cast(null as bigint) as first_offset",
            "value",
            "operation",
            "process",
            "invoked_ns",
            "completed_ns",
            "leader_epoch",
        )
    )
    below = "partition by run, partition_id order by offset range between unbounded preceding and current row"
    found = (
        begins.unionByName(reads)
        .selectExpr("*", f"max(struct({', '.join(_OF_TRANSACTION)})) over ({below}) as opened")
        .where("value is not null and completed_ns < opened.open_until")
        .selectExpr(
            "run",
            "partition_id",
            "offset",
            "value",
            "operation",
            "process",
            "invoked_ns",
            "completed_ns",
            "leader_epoch",
            *(f"opened.{name} as {name}" for name in _OF_TRANSACTION),
            "count(*) over (partition by run, partition_id) as total",
        )
    )
    rows = typed(PassedRow, found.orderBy("run", "partition_id", "offset").limit(_ROWS_MAX).toArrow())
    late = [row for row in rows if row["begun_ns"] > row["completed_ns"]]
    return rows if not late else [row for row in rows if row not in late] + _past_earlier_ones(runs, late, begins)


def _past_earlier_ones(runs: JudgedRuns, late: Sequence[PassedRow], begins: DataFrame) -> list[PassedRow]:
    """Of reads from before the transaction began there, in a log that was cut since: past one that was open then."""
    kept = [name for name in PassedRow.__annotations__ if name not in _OF_TRANSACTION]
    reads = runs.frame(tuple(kept), [{name: row[name] for name in kept} for row in late])  # type: ignore[literal-required]
    opened = begins.select("run", "partition_id", *_OF_TRANSACTION)
    found = (
        sf.broadcast(reads)
        .join(opened, ["run", "partition_id"])
        .where("first_offset <= offset and begun_ns <= completed_ns and completed_ns < open_until")
        .groupBy(*kept)
        .agg(sf.max(sf.struct(*_OF_TRANSACTION)).alias("opened"))
        .select(*kept, "opened.*")
    )
    return typed(PassedRow, found.toArrow())


def find(context: RunContext) -> list[Finding]:
    groups: dict[tuple[int, Rewind], list[PassedRow]] = {}
    forgetting = TransactionForgetting.of(context)
    for row in context.rows[ANSWER]:
        rewind = _rewind(context.partition(row["partition_id"]), row)
        forgotten = forgetting.of_number(row["transaction"], row["completed_ns"])
        if rewind.classification == "violation" and forgotten is not None:
            rewind = Rewind(
                classification=forgotten[0], cause=forgotten[1], open_question=forgotten[1].doubt is not None
            )
        if rewind.classification == "violation" and _had_another_client(context.tables[TRANSACTIONS], row):
            doubt = Doubt(code="another-client-of-its-id")
            cause = Cause(code="marker-in-doubt", doubt=doubt)
            rewind = Rewind(classification="observation", cause=cause, open_question=True)
        groups.setdefault((row["partition_id"], rewind), []).append(row)
    found = []
    for (partition_id, rewind), rows in groups.items():
        history, count = context.partition(partition_id), len(rows) if len(rows) < _ROWS_MAX else rows[0]["total"]
        sentence = (
            f"{plural(count, 'record')} of {history.name} (at {ranges(row['offset'] for row in rows)}) "
            f"{plural(count, 'was')} returned to read_committed readers while a transaction with an earlier record "
            f"there was still open (first to process {rows[0]['process']}, past transaction {rows[0]['transaction']}): "
            f"{cause_words(rewind.cause)}."
        )
        found.append(
            Finding(
                run=context.run,
                check=CHECK,
                classification=rewind.classification,
                kind="passed",
                topic=history.topic,
                partition=history.partition,
                count=count,
                sentence=sentence,
                cause=rewind.cause,
                open_question=rewind.open_question,
                offsets=[row["offset"] for row in rows],
                values=[row["value"] for row in rows],
                operations=sorted({row["operation"] for row in rows}),
                first_ns=min(row["completed_ns"] for row in rows),
                last_ns=max(row["completed_ns"] for row in rows),
                evidence={
                    "transactions": sorted({row["transaction"] for row in rows})[:20],
                    "open_until_ns": max(row["open_until"] for row in rows),
                },
            )
        )
    return found


def _rewind(history: PartitionHistory, row: PassedRow) -> Rewind:
    """Why both may have been in logs of their own: the end moved back to the transaction's first record or below, after
    what was read had been there, or after that record had been. What is older than both explains nothing. What was
    read of an epoch was there in it, and of an unknown one, not long before it was asked for."""
    epoch = row["leader_epoch"]
    if epoch is None:
        there_ns = row["invoked_ns"] - READ_AHEAD_NS
    else:
        later = (each.latest_t for each in history.elections if each.epoch > epoch)
        there_ns = min(later, default=row["begun_ns"])
    return under_a_reader(
        history,
        offset=row["first_offset"],
        epoch=None,
        time_ns=row["answered_ns"],
        since_ns=min(row["begun_ns"], there_ns),
        code="rewound-under-the-reader",
    )


def _had_another_client(transactions: Sequence[TransactionRow], row: PassedRow) -> bool:
    """Whether another client of its transactional id had a transaction between its begin and the read."""
    own = next((each for each in transactions if each["transaction"] == row["transaction"]), None)
    return own is not None and any(
        own["transactional_id"] is not None
        and each["transactional_id"] == own["transactional_id"]
        and each["process"] != own["process"]
        and each["invoked_ns"] < row["completed_ns"]
        and each["completed_ns"] > own["invoked_ns"]
        for each in transactions
    )


FAMILY = Family(name=CHECK, find=find, query=query)
