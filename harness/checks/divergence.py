"""Where the replicas' final logs disagree below their high watermarks, as columns; inconsistent_offsets.py judges."""

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import SparkSession, Window
from pyspark.sql import functions as sf

from harness.checks.detection import small_frame
from harness.checks.runs import Runs
from harness.checks.story import RunStory
from harness.checks.tables import Row, Tables

_ROWS_MAX = 20_000
_NODE = {
    "run": pa.int32(), "tp": pa.int32(), "node": pa.int32(), "snapshot": pa.int32(), "in_sync": pa.bool_(),
    "log_start": pa.int64(), "high_watermark": pa.int64(),
}  # fmt: skip


def query(runs: Runs) -> list[Row]:
    return diverging(runs.spark, runs.tables, runs.stories)


def diverging(spark: SparkSession, tables: Tables, stories: Sequence[RunStory]) -> list[Row]:
    """Offsets at which two final logs differ, or at which a member of the ISR has no record where another has one."""
    nodes = [row for story in stories for row in _final_nodes(story)]
    if not nodes:
        return []
    frame = small_frame(spark, _NODE, nodes)
    covered = frame.where("in_sync").groupBy("run", "tp").agg(
        sf.collect_list(sf.struct("log_start", "high_watermark")).alias("covered")
    )  # fmt: skip
    mask = sf.expr("shiftleft(1L, pmod(node, 63))")
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
                "synced", "should_have", "mask", "total")
        .limit(_ROWS_MAX)
    )  # fmt: skip
    members: dict[tuple[int, int], list[int]] = {}
    for row in nodes:
        members.setdefault((row["run"], row["tp"]), []).append(row["node"])
    rows = bad.toArrow().to_pylist()
    for row in rows:
        held = [node for node in members[row["run"], row["tp"]] if row["mask"] >> (node % 63) & 1]
        row["nodes"] = held
    return sorted(rows, key=lambda row: (row["run"], row["tp"], row["off"]))


def _final_nodes(story: RunStory) -> list[Row]:
    """The end snapshots whose high watermark is known; what lies above it was never promised."""
    return [
        {
            "run": story.run, "tp": partition.tp, "node": node, "snapshot": row["snapshot"],
            "in_sync": node in partition.final_isr, "log_start": row["log_start"] or 0,
            "high_watermark": row["high_watermark"],
        }
        for partition in story.partitions.values()
        for node, row in partition.end_snapshots.items()
        if row["high_watermark"] is not None
    ]  # fmt: skip
