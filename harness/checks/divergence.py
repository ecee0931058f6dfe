"""Where the replicas' final logs disagree below their high watermarks, as columns; inconsistent_offsets.py judges."""

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import SparkSession, Window
from pyspark.sql import functions as sf

from harness.checks.detection import small_frame
from harness.checks.fates import Copy
from harness.checks.runs import Runs
from harness.checks.story import PartitionStory, RunStory
from harness.checks.tables import Row, Tables
from harness.history.schemas import STATUS_FAIL

_ROWS_MAX = 20_000
_NODE = {
    "run": pa.int32(), "tp": pa.int32(), "node": pa.int32(), "snapshot": pa.int32(), "in_sync": pa.bool_(),
    "log_start": pa.int64(), "high_watermark": pa.int64(), "place": pa.int32(),
}  # fmt: skip


def query(runs: Runs) -> list[Row]:
    """Of a missing record in a compacted topic also `kept`: no compaction takes it away (None: nobody can tell)."""
    rows = diverging(runs.spark, runs.tables, runs.stories)
    compacted = {
        (story.run, partition.tp)
        for story in runs.stories
        for partition in story.partitions.values()
        if "compact" in (partition.cleanup_policy or "") and partition.read_to_end
    }
    missing = [row for row in rows if row["variants"] == 1 and (row["run"], row["tp"]) in compacted]
    kept = _kept(runs, missing) if missing else {}
    parted = [row for row in rows if row["variants"] > 1 and row["sync_variants"] == 1]
    copies = _copies(runs, parted) if parted else {}
    return [
        {**row, "kept": kept.get(place), "copies": copies.get(place, ())}
        for row in rows
        for place in ((row["run"], row["tp"], row["off"]),)
    ]


def _copies(runs: Runs, rows: Sequence[Row]) -> dict[tuple[int, int, int], list[tuple[int, Copy]]]:
    """Of these offsets every (value, copy) that any log of the run had there, at the end and before."""
    place = {"run": pa.int32(), "tp": pa.int32(), "off": pa.int64()}
    found = (
        runs.tables.replica_log.select(*place, "node", "snapshot", "epoch", "value")
        .join(sf.broadcast(runs.frame(place, rows)), [*place], "left_semi")
        .toArrow()
        .to_pylist()
    )
    copies: dict[tuple[int, int, int], list[tuple[int, Copy]]] = {}
    for row in found:
        copy = Copy(row["node"], row["snapshot"], row["epoch"])
        copies.setdefault((row["run"], row["tp"], row["off"]), []).append((row["value"], copy))
    return copies


def _kept(runs: Runs, missing: Sequence[Row]) -> dict[tuple[int, int, int], bool]:
    """Whether each of these is the last record of its key: of all that were acknowledged, or that readers found.

    Every replica compacts in its own time, but none removes that one. What was aborted goes in any case, and so does
    a tombstone in time.
    """
    place = {"run": pa.int32(), "tp": pa.int32()}
    wanted = runs.frame({**place, "off": pa.int64(), "value_low": pa.int64()}, missing)
    known = (
        runs.tables.records.join(sf.broadcast(wanted.select(*place).distinct()), [*place], "left_semi")
        .where("key is not null")
        .groupBy(*place, "value")
        .agg(sf.max("key").alias("key"), sf.max(sf.expr("if(kind > 0 or status = 0, off, null)")).alias("at"),
             sf.min(sf.expr("if(kind = 0, status, null)")).alias("status"), sf.bool_or("tombstone").alias("tombstone"))
    )  # fmt: skip
    own = sf.broadcast(wanted.withColumnRenamed("value_low", "value")).join(known.drop("at"), [*place, "value"])
    found = (
        known.drop("status", "value", "tombstone")
        .join(sf.broadcast(own), [*place, "key"])
        .groupBy(*place, "off")
        .agg(sf.max("at").alias("latest"), sf.max("status").alias("status"), sf.bool_or("tombstone").alias("tombstone"))
    )
    return {
        (row["run"], row["tp"], row["off"]): row["latest"] == row["off"]
        and row["status"] != STATUS_FAIL
        and not row["tombstone"]
        for row in found.toArrow().to_pylist()
    }


def diverging(spark: SparkSession, tables: Tables, stories: Sequence[RunStory]) -> list[Row]:
    """Offsets at which two final logs differ, or at which a member of the ISR has no record where another has one.

    Partitions whose final logs are known to be the same (log_digest.py) need no comparing.
    """
    nodes = [row for story in stories for row in _final_nodes(story)]
    if not nodes:
        return []
    frame = small_frame(spark, _NODE, nodes)
    covered = frame.where("in_sync").groupBy("run", "tp").agg(
        sf.collect_list(sf.struct("log_start", "high_watermark")).alias("covered")
    )  # fmt: skip
    mask = sf.expr("shiftleft(1L, place)")
    synced = sf.col("in_sync")
    per_offset = (
        tables.replica_log.select("run", "tp", "node", "snapshot", "off", "epoch", "value")
        .join(sf.broadcast(frame), ["run", "tp", "node", "snapshot"])
        .where("off < high_watermark")
        .groupBy("run", "tp", "off")
        .agg(
            sf.min("epoch").alias("epoch_low"), sf.max("epoch").alias("epoch_high"),
            sf.min("value").alias("value_low"), sf.max("value").alias("value_high"),
            sf.min(sf.when(synced, sf.col("value"))).alias("sync_low"),
            sf.max(sf.when(synced, sf.col("value"))).alias("sync_high"),
            sf.min(sf.when(synced, sf.col("epoch"))).alias("sync_epoch_low"),
            sf.max(sf.when(synced, sf.col("epoch"))).alias("sync_epoch_high"),
            sf.count_if(synced).alias("synced"), sf.bit_or(mask).alias("mask"),
        )
        .join(sf.broadcast(covered), ["run", "tp"], "left")
    )  # fmt: skip
    bad = (
        per_offset.withColumn(
            "variants", sf.expr("if(epoch_low <> epoch_high or value_low <> value_high, 2, 1)")
        )
        .withColumn(
            "sync_variants",
            sf.expr("if(coalesce(sync_low <> sync_high or sync_epoch_low <> sync_epoch_high, false), 2, 1)"),
        )
        .withColumn(
            "should_have",
            sf.expr("coalesce(size(filter(covered, c -> c.log_start <= off and off < c.high_watermark)), 0)"),
        )
        .where("variants > 1 or (synced > 0 and synced < should_have)")
        .withColumn("total", sf.count("*").over(Window.partitionBy("run", "tp")))
        .select("run", "tp", "off", "epoch_low", "epoch_high", "value_low", "value_high", "variants", "sync_variants",
                "sync_low", "synced", "should_have", "mask", "total")
        .limit(_ROWS_MAX)
    )  # fmt: skip
    members: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for row in nodes:
        members.setdefault((row["run"], row["tp"]), []).append((row["node"], row["place"]))
    rows = bad.toArrow().to_pylist()
    for row in rows:
        row["nodes"] = [node for node, place in members[row["run"], row["tp"]] if row["mask"] >> place & 1]
    return sorted(rows, key=lambda row: (row["run"], row["tp"], row["off"]))


def _final_nodes(story: RunStory) -> list[Row]:
    """The end snapshots whose high watermark is known; what lies above it was never promised."""
    return [
        {
            "run": story.run, "tp": partition.tp, "node": node, "snapshot": row["snapshot"],
            "in_sync": node in partition.final_isr, "log_start": row["log_start"] or 0,
            "high_watermark": row["high_watermark"], "place": place,
        }
        for partition in story.partitions.values()
        if not known_to_agree(partition)
        for place, (node, row) in enumerate(sorted(partition.end_snapshots.items()))
        if row["high_watermark"] is not None
    ]  # fmt: skip


def known_to_agree(partition: PartitionStory) -> bool:
    told = {
        (row["digest"], row["log_start"] or 0, row["high_watermark"])
        for row in partition.end_snapshots.values()
        if row["high_watermark"] is not None
    }
    return len(told) == 1 and all(digest is not None for digest, _, _ in told)
