"""Where a record stood that is there no more, in partitions whose settings may have removed it.

A place is a value at an offset: a record that was sent again may have stood at several, be gone from one of them and be
there at another. So each is asked for by itself, and what the final log has later of its key is what stands above it.
"""

from typing import TypedDict

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from harness.checks.families.transactions.isolation import ABORTED_SQL
from harness.checks.judged_runs import JudgedRuns
from harness.checks.spark.detection import SEEN_FINAL
from harness.history.schema.typed_rows import RowsOf, typed

NAME = "removal"
_MISSING = frozenset({"lost", "unseen", "dirty", "duplicate"})


class GoneRow(TypedDict):
    """A place that a record is gone from, and what is known of the record.

    place: its offset as it was flagged; None: no answer told one. offset: the same, or else the highest at which
    anybody had its value. oldest: the lowest offset of its key in the final log; later_ns, later_ms: of those of its
    key above it in the final log, also of its own value, when the first was sent, and its earliest timestamp.
    """

    run: int
    partition_id: int
    value: int
    place: int | None
    offset: int | None
    key: int | None
    timestamp_ms: int | None
    tombstone: bool | None
    invoked_ns: int | None
    aborted: bool | None
    oldest: int | None
    later_ns: int | None
    later_ms: int | None
    final_t: int | None


ANSWER = RowsOf(NAME, GoneRow)
_PARTITION = ("run", "partition_id")


def query(runs: JudgedRuns) -> list[GoneRow]:
    """Those of partitions that compacted, or whose log does not start at 0."""
    wanted = [
        {"run": history.run, "partition_id": partition.partition_id}
        for history in runs.histories
        for partition in history.partitions.values()
        if (partition.log_start or 0) > 0 or partition.may_compact
    ]
    among = {(row["run"], row["partition_id"]) for row in wanted}
    gone = {
        (row.run, row.partition_id, row.value, row.offset)
        for rows in runs.detection.flagged.values()
        for row in rows
        if row.flags & _MISSING and not row.seen & SEEN_FINAL and (row.run, row.partition_id) in among
    }
    if not gone:
        return []
    columns = (*_PARTITION, "value", "place")
    places = runs.frame(columns, [dict(zip(columns, place, strict=True)) for place in gone])
    records = runs.tables.records.join(sf.broadcast(runs.frame(_PARTITION, wanted)), [*_PARTITION], "left_semi")
    ends = records.where("kind = 2").groupBy(*_PARTITION).agg(sf.min("invoked_ns").alias("final_t"))
    found = _with_those_above(_known(records), places).join(sf.broadcast(ends), [*_PARTITION], "left")
    return typed(GoneRow, found.toArrow())


def _known(records: DataFrame) -> DataFrame:
    """By value. kept_first, kept_last: its lowest and highest offset in the final log."""
    kept = sf.expr("if(kind = 2 and replica is null, offset, null)")
    return records.groupBy(*_PARTITION, "value").agg(
        sf.max("key").alias("key"),
        sf.max("offset").alias("highest"),
        sf.min("timestamp_ms").alias("timestamp_ms"),
        sf.bool_or("tombstone").alias("tombstone"),
        sf.min(kept).alias("kept_first"),
        sf.max(kept).alias("kept_last"),
        sf.min(sf.expr("if(kind = 0, invoked_ns, null)")).alias("invoked_ns"),
        sf.bool_or(sf.expr(ABORTED_SQL)).alias("aborted"),
    )


def _with_those_above(known: DataFrame, places: DataFrame) -> DataFrame:
    """The places, with what the final log has of each one's key. What stands there stands as high as it stands last."""
    every = (
        known.join(sf.broadcast(places.withColumn("is_gone", sf.lit(True))), [*_PARTITION, "value"], "left")
        .where("is_gone or (key is not null and kept_last is not null)")
        .withColumn("stands", sf.expr("kept_last is not null and not coalesce(aborted, false)"))
        .withColumn(
            "each",
            sf.expr("""explode(array(
                struct(true as is_place, coalesce(place, highest) as offset),
                struct(false as is_place, kept_last as offset)))"""),
        )
        .where("if(each.is_place, is_gone, stands)")
    )
    # A record whose key nobody recorded has that of its value.
    of_key = "partition by run, partition_id, key, if(key is null, value, null)"
    above = f"{of_key} order by each.offset desc nulls last range between unbounded preceding and 1 preceding"
    return (
        every.selectExpr(
            *_PARTITION,
            "value",
            "place",
            "each.is_place",
            "each.offset",
            "key",
            "timestamp_ms",
            "tombstone",
            "invoked_ns",
            "aborted",
            f"min(if(key is null or each.is_place, null, kept_first)) over ({of_key}) as oldest",
            f"min(if(each.is_place, null, coalesce(invoked_ns, 0))) over ({above}) as later_ns",
            f"min(if(each.is_place, null, timestamp_ms)) over ({above}) as later_ms",
        )
        .where("is_place")
        .drop("is_place")
    )
