"""The dependency graph in columns: who wrote, who read, and where an operation stands on a line along which time runs.

An operation may stand anywhere between its invocation and its completion (later too, when nothing can follow it): then
every realtime edge runs forward. The places are chosen so that few other edges run backward: a reader at its end, a
writer at the latest beginning of those before it in the version order. What still runs backward may close a cycle.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from harness.checks.cycles.model import RW, WR, WW

VALUE = ["run", "partition_id", "value"]
OPERATION = ["run", "name"]
INTERVAL = "interval"  # a column of readers and writers once each is known to lie in one: then only edges inside count
NO_END = 1 << 62  # as a place: nothing bounds it; as a rank: behind every writer at the same place


class Graph(ABC):
    """`reads` and `writes`: run, partition_id, value, name, at (struct of mop and i).

    The flags say which edges belong to the graph.
    """

    reads: DataFrame
    writes: DataFrame
    write_write: bool
    read_write: bool

    @property
    @abstractmethod
    def writers(self) -> DataFrame:
        """The one writer of each value: run, partition_id, value, name, at."""

    @property
    @abstractmethod
    def ordered(self) -> DataFrame:
        """The version order: run, partition_id, value, index (rising), previous (the value before it, or null)."""

    @property
    @abstractmethod
    def placed(self) -> DataFrame:
        """Every operation: run, name, begin, end, ok (real time follows it), place, rank (for equal places)."""

    @abstractmethod
    def backward(self) -> DataFrame:
        """run, low, high: places between which edges run against the line (several may share a row)."""

    # -- edges: run, source, target, relation, partition_id, value, next_value, source_at, target_at ----------------

    def wr(self, reads: DataFrame, writers: DataFrame) -> DataFrame:
        on = [*VALUE, *_interval(writers)]
        written = writers.select(*on, sf.col("name").alias("source"), sf.col("at").alias("source_at"))
        joined = reads.withColumnsRenamed({"name": "target", "at": "target_at"}).join(written, on)
        return _edges(joined, WR, sf.lit(None).cast("long"))

    def ww(self, writers: DataFrame) -> DataFrame:
        on = [*VALUE, *_interval(writers)]
        earlier = writers.select(*on, sf.col("name").alias("source"), sf.col("at").alias("source_at"))
        return _edges(self._following(writers).join(earlier, on), WW, sf.col("next_value"))

    def rw(self, reads: DataFrame, writers: DataFrame) -> DataFrame:
        """From the reader of a partition, by the last value that it read there, to the writer of the next one."""
        where = _interval(writers)
        last = (
            reads.join(self.ordered.select(*VALUE, "index"), VALUE)
            .groupBy("run", "partition_id", "name", *where)
            .agg(sf.max(sf.struct("index", "value", "at")).alias("last"))
            .select(
                "run",
                "partition_id",
                "last.value",
                *where,
                sf.col("name").alias("source"),
                sf.col("last.at").alias("source_at"),
            )
        )
        return _edges(last.join(self._following(writers), [*VALUE, *where]), RW, sf.col("next_value"))

    def _following(self, writers: DataFrame) -> DataFrame:
        """Per value the next one and its writer: run, partition_id, value, next_value, target, target_at."""
        where = _interval(writers)
        written = writers.select(*VALUE, *where, sf.col("name").alias("target"), sf.col("at").alias("target_at"))
        after = self.ordered.where("previous is not null").join(written, VALUE)
        return after.withColumnRenamed("value", "next_value").withColumnRenamed("previous", "value").drop("index")

    def edges(self, reads: DataFrame, writers: DataFrame, ok_reads: DataFrame) -> DataFrame:
        """All edges between these readers and writers. Who failed has seen what he read, but waited for no one."""
        found = self.wr(reads, writers)
        if self.write_write:
            found = found.unionByName(self.ww(writers))
        return found.unionByName(self.rw(ok_reads, writers)) if self.read_write else found

    @contextmanager
    def kept(self) -> Iterator[None]:
        """While a search goes on, what it asks for repeatedly is kept, if that is much smaller than the records."""
        tables = [table.persist(StorageLevel.MEMORY_AND_DISK) for table in self.small_tables()]
        try:
            yield
        finally:
            for table in tables:
                table.unpersist()

    @abstractmethod
    def small_tables(self) -> Sequence[DataFrame]:
        """Those of writers, ordered and placed that are worth keeping."""

    @cached_property
    def ok_reads(self) -> DataFrame:
        return self.reads.join(self.placed.where("ok").select(*OPERATION), OPERATION, "left_semi")

    def backward_rw(self) -> DataFrame:
        stand = sf.struct("place", "rank", "name").alias("stand")
        ends = self.placed.select("run", "name", stand)
        source = ends.select("run", sf.col("name").alias("source"), sf.col("stand").alias("from"))
        target = ends.select("run", sf.col("name").alias("target"), sf.col("stand").alias("to"))
        edges = self.rw(self.ok_reads, self.writers).join(source, ["run", "source"]).join(target, ["run", "target"])
        return spans(edges, "to", "from")


def spans(edges: DataFrame, to: str, source: str) -> DataFrame:
    """run, low, high of the edges whose source stands behind their target."""
    against = edges.where(sf.col(source) > sf.col(to))
    return against.select("run", sf.col(f"{to}.place").alias("low"), sf.col(f"{source}.place").alias("high"))


def _interval(rows: DataFrame) -> list[str]:
    return [INTERVAL] if INTERVAL in rows.columns else []


def _edges(joined: DataFrame, relation: int, next_value: Column) -> DataFrame:
    return joined.where("source <> target").select(
        "run",
        *_interval(joined),
        "source",
        "target",
        sf.lit(relation).alias("relation"),
        "partition_id",
        "value",
        next_value.alias("next_value"),
        "source_at",
        "target_at",
    )
