"""Leader epochs that readers were given: each record's is the one that it has in the logs.

A leader answers a fetch with the batches as they lie in its log, stamp and all (KIP-320 has consumers fence themselves
by it). So a record that a reader got at an offset, with the value that the logs have there, has the epoch that they
have; else what it got was stamped otherwise than what is stored, or it was committed in one epoch, cut, and written
again in another. The latter is lawful where its loss is: the contract rules on it as on any lost record that was read.

Asked record by record only where the epochs that a partition's readers saw go beyond where its logs have them.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TypedDict

import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from harness.checks.contract.rulings import Cause
from harness.checks.family import Family
from harness.checks.findings import Finding, RunContext, is_damaged
from harness.checks.judged_runs import JudgedRuns
from harness.checks.model.elections import Snapshot
from harness.checks.model.lost_records import LostRecord
from harness.checks.model.partition_history import PartitionHistory
from harness.checks.spark.passing_by import grouped
from harness.checks.wording.causes import cause_words
from harness.checks.wording.words import plural
from harness.history.schema.schemas import STATUS_OK
from harness.history.schema.typed_rows import RowsOf, typed

NAME = "read-epochs"
CHECK = "leader-epochs"
_PLACE = ("run", "partition_id")
_COPY = (*_PLACE, "offset", "value")
_READ = f"kind > 0 and replica is null and status = {STATUS_OK} and leader_epoch >= 0"


class _SpanRow(TypedDict):
    """The first and the last offset that readers saw of one epoch."""

    run: int
    partition_id: int
    leader_epoch: int
    first: int
    last: int


class OtherEpochRow(TypedDict):
    """Records that readers were given with leader_epoch, and that the logs have with `stored`: how many, of the first
    one its place and a reader, and when they were read."""

    run: int
    partition_id: int
    leader_epoch: int
    stored: int
    count: int
    offset: int
    value: int
    process: int
    first_ns: int
    last_ns: int


ANSWER = RowsOf(NAME, OtherEpochRow)


def query(runs: JudgedRuns) -> list[OtherEpochRow]:
    chains = {
        (history.run, partition.partition_id): chain
        for history in runs.histories
        for partition in history.partitions.values()
        if (chain := _chains(partition))
    }
    if not chains:
        return []
    beyond = [row for row in _spans(runs) if _is_beyond(row, chains)]
    if not beyond:
        return []
    found = (
        _seen(runs, beyond)
        .unionByName(_stored(runs, beyond), allowMissingColumns=True)
        .groupBy(*_COPY, "leader_epoch")
        .agg(
            sf.min("invoked_ns").alias("first_ns"),
            sf.max("completed_ns").alias("last_ns"),
            sf.min("process").alias("process"),
            sf.count("snapshot").alias("copies"),
            sf.bool_or("final").alias("final"),
        )
        .withColumn("stored", sf.expr(f"max(if(final, leader_epoch, null)) over (partition by {', '.join(_COPY)})"))
        .where("first_ns is not null and copies = 0 and stored is not null")
        .groupBy(*_PLACE, "leader_epoch", "stored")
        .agg(
            sf.count("offset").alias("count"),
            sf.min(sf.struct("offset", "value", "process")).alias("record"),
            sf.min("first_ns").alias("first_ns"),
            sf.max("last_ns").alias("last_ns"),
        )
        .select(*_PLACE, "leader_epoch", "stored", "count", "record.*", "first_ns", "last_ns")
    )
    return typed(OtherEpochRow, found.toArrow())


def _seen(runs: JudgedRuns, beyond: Sequence[_SpanRow]) -> DataFrame:
    """What readers were given of these epochs."""
    wanted = runs.frame((*_PLACE, "leader_epoch"), beyond)
    read = runs.tables.records.where(_READ).join(sf.broadcast(wanted), [*_PLACE, "leader_epoch"])
    return read.select(*_COPY, "leader_epoch", "invoked_ns", "completed_ns", "process")


def _stored(runs: JudgedRuns, beyond: Sequence[_SpanRow]) -> DataFrame:
    """What the logs of these partitions have; final: a log to be held against."""
    final = runs.frame((*_PLACE, "snapshot"), _in_sync(runs, beyond)).withColumn("final", sf.lit(True))
    in_runs, in_partitions = {row["run"] for row in beyond}, {row["partition_id"] for row in beyond}
    return (
        runs.tables.replica_log.where("leader_epoch >= 0")
        .where(sf.col("run").isin(in_runs) & sf.col("partition_id").isin(in_partitions))
        .select(*_COPY, "leader_epoch", "snapshot")
        .join(sf.broadcast(final), [*_PLACE, "snapshot"], "left")
    )


def _spans(runs: JudgedRuns) -> list[_SpanRow]:
    by_readers = (pc.field("kind") > 0) & pc.field("replica").is_null() & (pc.field("status") == STATUS_OK)
    read = [*_PLACE, "leader_epoch", "offset"]
    batches = runs.tables.batches("records", read, by_readers & (pc.field("leader_epoch") >= 0))
    spans = grouped(batches, [*_PLACE, "leader_epoch"], {"first": ("offset", "min"), "last": ("offset", "max")})
    return [] if spans is None else typed(_SpanRow, spans)


def _in_sync(runs: JudgedRuns, beyond: Sequence[_SpanRow]) -> list[dict[str, int]]:
    """The logs to be held against. Whoever left, or was deposed, may have cut since what its log had then: such a log
    explains an epoch, and contradicts none."""
    places = {(each["run"], each["partition_id"]) for each in beyond}
    return [
        {"run": history.run, "partition_id": partition.partition_id, "snapshot": log.row["snapshot"]}
        for history in runs.histories
        for partition in history.partitions.values()
        if (history.run, partition.partition_id) in places
        for log in _final_logs(partition)
    ]


def _final_logs(partition: PartitionHistory) -> list[Snapshot]:
    return [log for log in partition.logs if log.row["reason"] == "end" and log.node in partition.final_isr]


def _chains(partition: PartitionHistory) -> Mapping[int, tuple[int, int]]:
    """epoch -> the offsets between which any in-sync log has it at the end: from the first on, and below the second."""
    found: dict[int, tuple[int, int]] = {}
    for log in _final_logs(partition):
        behind_all = (-1, log.row["log_end_offset"] or 0)
        for (epoch, start), (_, end) in pairwise([*log.chain, behind_all]):
            first, behind = found.get(epoch, (start, end))
            found[epoch] = min(first, start), max(behind, end)
    return found


def _is_beyond(row: _SpanRow, chains: Mapping[tuple[int, int], Mapping[int, tuple[int, int]]]) -> bool:
    chain = chains.get((row["run"], row["partition_id"]))
    if chain is None:
        return False
    first, behind = chain.get(row["leader_epoch"], (row["last"] + 1, 0))
    return row["first"] < first or row["last"] >= behind


# ---- what they come to ----------------------------------------------------------------------------------------------


def find(context: RunContext) -> list[Finding]:
    rows: Sequence[OtherEpochRow] = context.rows[ANSWER]
    return list(_found(context, sorted(rows, key=lambda row: (row["partition_id"], row["offset"]))))


def _found(context: RunContext, rows: Sequence[OtherEpochRow]) -> Iterator[Finding]:
    for row in rows:
        history = context.partition(row["partition_id"])
        ruling = context.judge(history).rule(_lost(history, row))
        if ruling.classification == "permitted":
            continue  # its loss is told; another attempt of its producer's got its place
        cause = Cause(code="epoch-of-no-log", doubt=ruling.undecided)
        if is_damaged(history, row["offset"]):  # no checksum covers the stamp
            cause = Cause(
                code="epochs-of-a-damaged-log", nodes=tuple(sorted({loss.node for loss in history.disk_losses}))
            )
        sentence = (
            f"{plural(row['count'], 'record')} of {history.name}, the first at {row['offset']}, "
            f"{plural(row['count'], 'was')} given to readers as of epoch {row['leader_epoch']}, and every in-sync "
            f"log has {'them' if row['count'] > 1 else 'it'} with epoch {row['stored']}: {cause_words(cause)}."
        )
        is_decided = cause.code == "epoch-of-no-log" and cause.doubt is None
        yield Finding(
            run=context.run,
            check=CHECK,
            classification="violation" if is_decided else "observation",
            kind="read",
            topic=history.topic,
            partition=history.partition,
            count=row["count"],
            sentence=sentence,
            cause=cause,
            epoch=row["leader_epoch"],
            offsets=[row["offset"]],
            values=[row["value"]],
            first_ns=row["first_ns"],
            last_ns=row["last_ns"],
            open_question=cause.doubt is not None,
            evidence={"partition": history.name, "read": dict(row)},
        )


def _lost(history: PartitionHistory, row: OtherEpochRow) -> LostRecord:
    """What was read, as a record of its own: committed in that epoch, and in no log any more."""
    return LostRecord(
        offset=row["offset"],
        epoch=row["leader_epoch"],
        acks=None,
        t_acknowledged=row["first_ns"],
        committed=True,
        in_a_log=False,
        t_last_read=row["first_ns"],
        matched=not is_damaged(history, row["offset"]),
    )


FAMILY = Family(name=NAME, query=query, find=find)
