"""Intervals of the line outside which no cycle can lie: the spans of backward edges, merged until none overlap."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pyspark import StorageLevel
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as sf

_BUCKETS = 1 << 16  # a run's line is cut into about as many, so that rows find their interval by an equality join


@dataclass(frozen=True, kw_only=True)
class Intervals:
    """`table`: run, interval, low, high and one row per `bucket`; few enough to be sent to every task."""

    table: DataFrame
    width: int

    def of(self, rows: DataFrame) -> DataFrame:
        """Those of the rows (with `run` and `place`) that lie in an interval, and which."""
        bucketed = rows.withColumn("bucket", sf.expr(f"place div {self.width}L"))
        inside = bucketed.join(self.table, ["run", "bucket"]).where("place between low and high")
        return inside.drop("bucket", "low", "high")


@contextmanager
def intervals_of(backward: DataFrame) -> Iterator[Intervals | None]:
    """backward: run, low, high. None when there is no interval, hence no cycle."""
    spans = _merged(backward).persist(StorageLevel.MEMORY_AND_DISK)
    try:
        yield _bucketed(spans)
    finally:
        spans.unpersist()


def _merged(backward: DataFrame) -> DataFrame:
    """run, interval, low, high: one row per group of spans that overlap or touch."""
    by_low = Window.partitionBy("run").orderBy("low", "high")
    reach = sf.max("high").over(by_low.rowsBetween(Window.unboundedPreceding, -1))
    opens = sf.when(sf.col("low") <= reach, 0).otherwise(1)
    numbered = backward.withColumn("opens", opens).withColumn(
        "interval", sf.sum("opens").over(by_low.rowsBetween(Window.unboundedPreceding, 0))
    )
    return numbered.groupBy("run", "interval").agg(sf.min("low").alias("low"), sf.max("high").alias("high"))


def _bucketed(intervals: DataFrame) -> Intervals | None:
    spans = intervals.groupBy("run").agg((sf.max("high") - sf.min("low")).alias("span")).agg(sf.max("span")).collect()
    span = spans[0][0]
    if span is None:
        return None
    width = int(span) // _BUCKETS + 1
    buckets = sf.explode(sf.sequence(sf.expr(f"low div {width}L"), sf.expr(f"high div {width}L")))
    return Intervals(table=intervals.withColumn("bucket", buckets), width=width)
