"""Finds where the replicas' final logs differ below their high watermarks; inconsistent_offsets.py judges it."""

from collections.abc import Sequence
from typing import TypedDict

from pyspark.sql import SparkSession, Window
from pyspark.sql import functions as sf

from harness.checks.families.transactions.isolation import ABORTED_SQL
from harness.checks.judged_runs import JudgedRuns
from harness.checks.model.partition_history import PartitionHistory, RunHistory
from harness.checks.spark.detection import Copy
from harness.checks.spark.tables import Tables, small_frame
from harness.history.schema.typed_rows import RowsOf, typed

_ROWS_MAX = 20_000
_NODE = ("run", "partition_id", "node", "snapshot", "in_sync", "log_start_offset", "high_watermark", "place")


class _OffsetRow(TypedDict):
    """An offset at which final logs differ, with their lowest and highest record there: of all logs, of those in sync.

    variants, sync_variants: 2 if there is more than one record. mask: the places of the logs that have one. total: the
    number of such offsets in the partition, also of those not returned.
    """

    run: int
    partition_id: int
    offset: int
    epoch_low: int | None
    epoch_high: int | None
    value_low: int
    value_high: int
    variants: int
    sync_variants: int
    sync_low: int | None
    synced: int
    should_have: int
    mask: int
    total: int


class ApartRow(_OffsetRow):
    """nodes: those whose logs have a record there."""

    nodes: list[int]


class DivergentRow(ApartRow):
    """kept: compaction must not remove it; None: unknown. copies: all that any log ever had there."""

    kept: bool | None
    copies: Sequence[tuple[int, Copy]]


ANSWER = RowsOf("replica-divergence", DivergentRow)


class _LogCopyRow(TypedDict):
    run: int
    partition_id: int
    offset: int
    node: int
    snapshot: int
    leader_epoch: int | None
    value: int


class _LastOfKeyRow(TypedDict):
    run: int
    partition_id: int
    offset: int
    latest: int | None
    tombstone: bool | None


class _FinalNodeRow(TypedDict):
    """A replica whose final log is compared; place: its number among those of the partition."""

    run: int
    partition_id: int
    node: int
    snapshot: int
    in_sync: bool
    log_start_offset: int
    high_watermark: int
    place: int


def query(runs: JudgedRuns) -> list[DivergentRow]:
    """For a missing record of a compacted topic also sets `kept`: compaction must not remove it (None: unknown)."""
    rows = diverging(runs.spark, runs.tables, runs.histories)
    compacted = {
        (history.run, partition.partition_id)
        for history in runs.histories
        for partition in history.partitions.values()
        if partition.may_compact and partition.read_to_end
    }
    missing = [row for row in rows if row["variants"] == 1 and (row["run"], row["partition_id"]) in compacted]
    kept = _kept(runs, missing) if missing else {}
    parted = [row for row in rows if row["variants"] > 1 and row["sync_variants"] == 1]
    copies = _copies(runs, parted) if parted else {}
    return [
        {**row, "kept": kept.get(place), "copies": copies.get(place, ())}
        for row in rows
        for place in ((row["run"], row["partition_id"], row["offset"]),)
    ]


def _copies(runs: JudgedRuns, rows: Sequence[ApartRow]) -> dict[tuple[int, int, int], list[tuple[int, Copy]]]:
    """For these offsets every (value, copy) that any log of the run had there, at the end or before."""
    place = ("run", "partition_id", "offset")
    found = runs.tables.replica_log.select(*place, "node", "snapshot", "leader_epoch", "value").join(
        sf.broadcast(runs.frame(place, rows)), [*place], "left_semi"
    )
    copies: dict[tuple[int, int, int], list[tuple[int, Copy]]] = {}
    for row in typed(_LogCopyRow, found.toArrow()):
        copy = Copy(row["node"], row["snapshot"], row["leader_epoch"])
        copies.setdefault((row["run"], row["partition_id"], row["offset"]), []).append((row["value"], copy))
    return copies


def _kept(runs: JudgedRuns, missing: Sequence[ApartRow]) -> dict[tuple[int, int, int], bool]:
    """Whether each is the last record of its key that was not aborted, among all acknowledged or read records.

    Replicas compact at different times, but none removes this one, unless it is a tombstone, after a time.
    """
    place = ("run", "partition_id")
    wanted = runs.frame((*place, "offset", "value_low"), missing)
    known = (
        runs.tables.records.join(sf.broadcast(wanted.select(*place).distinct()), [*place], "left_semi")
        .where("key is not null")
        .groupBy(*place, "value")
        .agg(
            sf.max("key").alias("key"),
            sf.max("offset").alias("at"),
            sf.bool_or("tombstone").alias("tombstone"),
            sf.bool_or(sf.expr(ABORTED_SQL)).alias("aborted"),
        )
    )
    own = wanted.withColumnRenamed("value_low", "value").join(known.drop("at", "aborted"), [*place, "value"])
    found = (
        known.select(*place, "key", sf.expr("if(aborted, null, at)").alias("at"))
        .join(sf.broadcast(own), [*place, "key"])
        .groupBy(*place, "offset")
        .agg(sf.max("at").alias("latest"), sf.bool_or("tombstone").alias("tombstone"))
    )
    return {
        (row["run"], row["partition_id"], row["offset"]): row["latest"] == row["offset"] and not row["tombstone"]
        for row in typed(_LastOfKeyRow, found.toArrow())
    }


def diverging(spark: SparkSession, tables: Tables, histories: Sequence[RunHistory]) -> list[ApartRow]:
    """Offsets at which two final logs differ, or at which a member of the ISR has no record where another has one.

    Partitions whose final logs are known to be equal (log_digest.py) are not compared.
    """
    nodes = [row for history in histories for row in _final_nodes(history)]
    if not nodes:
        return []
    frame = small_frame(spark, _NODE, nodes)
    covered = (
        frame.where("in_sync")
        .groupBy("run", "partition_id")
        .agg(sf.collect_list(sf.struct("log_start_offset", "high_watermark")).alias("covered"))
    )
    mask = sf.expr("shiftleft(1L, place)")
    synced = sf.col("in_sync")
    per_offset = (
        tables.replica_log.select("run", "partition_id", "node", "snapshot", "offset", "leader_epoch", "value")
        .join(sf.broadcast(frame), ["run", "partition_id", "node", "snapshot"])
        .where("offset < high_watermark")
        .groupBy("run", "partition_id", "offset")
        .agg(
            sf.min("leader_epoch").alias("epoch_low"),
            sf.max("leader_epoch").alias("epoch_high"),
            sf.min("value").alias("value_low"),
            sf.max("value").alias("value_high"),
            sf.min(sf.when(synced, sf.col("value"))).alias("sync_low"),
            sf.max(sf.when(synced, sf.col("value"))).alias("sync_high"),
            sf.min(sf.when(synced, sf.col("leader_epoch"))).alias("sync_epoch_low"),
            sf.max(sf.when(synced, sf.col("leader_epoch"))).alias("sync_epoch_high"),
            sf.count_if(synced).alias("synced"),
            sf.bit_or(mask).alias("mask"),
        )
        .join(sf.broadcast(covered), ["run", "partition_id"], "left")
    )
    bad = (
        per_offset.withColumn("variants", sf.expr("if(epoch_low <> epoch_high or value_low <> value_high, 2, 1)"))
        .withColumn(
            "sync_variants",
            sf.expr("if(coalesce(sync_low <> sync_high or sync_epoch_low <> sync_epoch_high, false), 2, 1)"),
        )
        .withColumn(
            "should_have",
            sf.expr(
                "coalesce(size(filter(covered, c -> c.log_start_offset <= offset and offset < c.high_watermark)), 0)"
            ),
        )
        .where("variants > 1 or (synced > 0 and synced < should_have)")
        .withColumn("total", sf.count("*").over(Window.partitionBy("run", "partition_id")))
        .select(
            "run",
            "partition_id",
            "offset",
            "epoch_low",
            "epoch_high",
            "value_low",
            "value_high",
            "variants",
            "sync_variants",
            "sync_low",
            "synced",
            "should_have",
            "mask",
            "total",
        )
        .limit(_ROWS_MAX)
    )
    members: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for row in nodes:
        members.setdefault((row["run"], row["partition_id"]), []).append((row["node"], row["place"]))
    rows: list[ApartRow] = [
        {**row, "nodes": [node for node, place in members[row["run"], row["partition_id"]] if row["mask"] >> place & 1]}
        for row in typed(_OffsetRow, bad.toArrow())
    ]
    return sorted(rows, key=lambda row: (row["run"], row["partition_id"], row["offset"]))


def _final_nodes(history: RunHistory) -> list[_FinalNodeRow]:
    """The end snapshots with a known high watermark; records above it were never promised."""
    return [
        {
            "run": history.run,
            "partition_id": partition.partition_id,
            "node": node,
            "snapshot": row["snapshot"],
            "in_sync": node in partition.final_isr,
            "log_start_offset": row["log_start_offset"] or 0,
            "high_watermark": mark,
            "place": place,
        }
        for partition in history.partitions.values()
        if not known_to_agree(partition)
        for place, (node, row) in enumerate(sorted(partition.end_snapshots.items()))
        if (mark := row["high_watermark"]) is not None
    ]


def known_to_agree(partition: PartitionHistory) -> bool:
    agreed = {
        (row["digest"], row["log_start_offset"] or 0, row["high_watermark"])
        for row in partition.end_snapshots.values()
        if row["high_watermark"] is not None
    }
    return len(agreed) == 1 and all(digest is not None for digest, _, _ in agreed)
