"""The graph of imported histories: a completed txn, send or poll is an operation, and event indices are its times."""

from collections.abc import Collection
from functools import cached_property

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

from harness.checks.cycles.graph import NO_END, OPERATION, VALUE, Graph, spans
from harness.checks.cycles.model import Mode
from harness.history.schema.schemas import KIND_SEND, STATUS_OK

_SEARCHED = ("txn", "send", "poll")


class ImportedGraph(Graph):
    """`operations`: run, name, begin, end, ok, reads. `orders`: run, partition_id, index, value; none without ww."""

    def __init__(
        self,
        *,
        operations: DataFrame,
        writes: DataFrame,
        reads: DataFrame,
        orders: DataFrame,
        write_write: bool,
        read_write: bool,
    ) -> None:
        self.operations = operations
        self.writes = writes
        self.reads = reads
        self.orders = orders
        self.write_write = write_write
        self.read_write = read_write

    def small_tables(self) -> list[DataFrame]:
        return [self.writers, self.placed, *([self.ordered] if self.write_write or self.read_write else [])]

    @cached_property
    def writers(self) -> DataFrame:
        """The last to try, and the first micro-op in which it did."""
        first = sf.min_by("at", sf.struct(-sf.col("name"), "at"))
        return self.writes.groupBy(*VALUE).agg(sf.max("name").alias("name"), first.alias("at"))

    @cached_property
    def ordered(self) -> DataFrame:
        """A value at several places stands at the last of them."""
        by_index = Window.partitionBy("run", "partition_id").orderBy("index")
        placed = self.orders.withColumn("previous", sf.lag("value").over(by_index))
        last = placed.groupBy(*VALUE).agg(sf.max(sf.struct("index", "previous")).alias("last"))
        return last.select(*VALUE, "last.index", "last.previous")

    @cached_property
    def placed(self) -> DataFrame:
        start = sf.when(sf.col("reads"), sf.col("end")).otherwise(sf.col("begin"))
        until = sf.when(~sf.col("reads") & ~sf.col("ok"), sf.lit(NO_END)).otherwise(sf.col("end"))
        if not self.write_write:
            rank = sf.when(sf.col("reads"), sf.lit(NO_END)).otherwise(sf.lit(-1)).cast("long")
            return self.operations.select(*OPERATION, "begin", "end", "ok", start.alias("place"), rank.alias("rank"))
        plain = self.operations.withColumn("start", start).withColumn("until", until)
        before = Window.partitionBy("run", "partition_id").orderBy("index").rowsBetween(Window.unboundedPreceding, 0)
        pushed = (
            self.ordered.join(self.writers.drop("at"), VALUE)
            .join(plain.select(*OPERATION, "start", "reads"), OPERATION)
            .withColumn("latest", sf.max("start").over(before))
            .where(~sf.col("reads"))
            .groupBy(*OPERATION)
            .agg(sf.max("latest").alias("latest"), sf.max("index").alias("index"))
        )
        rank = sf.when(sf.col("reads"), sf.lit(NO_END)).otherwise(sf.coalesce("index", sf.lit(-1)))
        return plain.join(pushed, OPERATION, "left").select(
            *OPERATION,
            "begin",
            "end",
            "ok",
            sf.least(sf.greatest("start", "latest"), "until").alias("place"),
            rank.cast("long").alias("rank"),
        )

    def backward(self) -> DataFrame:
        stand = self.placed.select(*OPERATION, sf.struct("place", "rank", "name").alias("stand"))
        writers = self.writers.join(stand, OPERATION).select(*VALUE, sf.col("stand").alias("from"))
        # Of a value's readers the first is enough: its span holds those of the others.
        readers = self.reads.join(stand, OPERATION).groupBy(*VALUE).agg(sf.min("stand").alias("to"))
        found = spans(readers.join(writers, VALUE), "to", "from")
        if self.write_write:
            earlier = writers.withColumnRenamed("value", "previous")
            later = self.ordered.join(writers.withColumnRenamed("from", "to"), VALUE).drop("value")
            found = found.unionByName(spans(later.join(earlier, ["run", "partition_id", "previous"]), "to", "from"))
        return found.unionByName(self.backward_rw()) if self.read_write else found

    def runs_with_edges(self) -> frozenset[int]:
        """Real time alone joins nearly every run's operations; only the others are asked for data edges."""
        first_end = sf.min(sf.when(sf.col("ok"), sf.col("end")))
        timed = self.operations.groupBy("run").agg((first_end < sf.max("begin")).alias("joined"))
        joined = {row["run"]: bool(row["joined"]) for row in timed.collect()}
        rest = sorted(run for run, is_joined in joined.items() if not is_joined)
        if rest:
            wanted = sf.col("run").isin(rest)
            writers = self.writers.where(wanted)
            edges = self.edges(self.reads.where(wanted), writers, self.ok_reads.where(wanted))
            joined |= {row["run"]: True for row in edges.select("run").distinct().collect()}
        return frozenset(run for run, is_joined in joined.items() if is_joined)


def imported_graph(
    *, records: DataFrame, operations: DataFrame, orders: DataFrame, mode: Mode, ww_deps: bool | Collection[int]
) -> ImportedGraph:
    operations = operations.where(sf.col("function").isin(*_SEARCHED)).select(
        "run",
        sf.col("operation").alias("name"),
        _either(operations, "invocation_index", "invoked_ns").alias("begin"),
        _either(operations, "completion_index", "completed_ns").alias("end"),
        (sf.col("status") == STATUS_OK).alias("ok"),
        (sf.col("function") != "send").alias("reads"),
    )
    at = sf.struct(
        sf.coalesce(_column(records, "micro_operation"), sf.lit(0)).alias("micro_operation"),
        sf.col("position").alias("position"),
    )
    rows = records.select("run", "partition_id", "value", sf.col("operation").alias("name"), at.alias("at"), "kind")
    known = orders.select("run", "partition_id", sf.col("index").cast("long").alias("index"), "value")
    if mode is Mode.JEPSEN and ww_deps is not True:
        known = known.where(sf.lit(False) if ww_deps is False else sf.col("run").isin(sorted(ww_deps)))
    return ImportedGraph(
        operations=operations,
        writes=rows.where(sf.col("kind") == KIND_SEND).drop("kind"),
        reads=rows.where(sf.col("kind") != KIND_SEND).drop("kind"),
        orders=known,
        write_write=mode is Mode.FULL or bool(ww_deps),
        read_write=mode is Mode.FULL,
    )


def _column(table: DataFrame, name: str) -> Column:
    return sf.col(name) if name in table.columns else sf.lit(None).cast("int")


def _either(operations: DataFrame, index: str, time: str) -> Column:
    """Event indices where the history has them: they are its order, its times only nearly so."""
    return sf.coalesce(_column(operations, index).cast("long"), sf.col(time).cast("long"))
