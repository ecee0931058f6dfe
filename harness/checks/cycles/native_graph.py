"""The graph of runs of ours. A send is a vertex of its own unless a transaction binds it: batches promise nothing.

Times are the clients' own (one machine, one monotonic clock). The version order is the log as the final read found it.
A send without acknowledgement (acks 0), and what failed or may not have happened, precedes nothing in real time.
One fold per value finds what runs backward; in a sound run without transactions that is nothing, and all is done.

Intervals of the line outside which no cycle can lie are the spans of backward edges, merged until none overlap.
"""

import pickle
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as sf

from harness.checks.cycles.graph import NO_END, OPERATION, VALUE, Facts, MicroOperations, edges_of
from harness.checks.cycles.interval import Answer, search_intervals, too_long
from harness.checks.cycles.model import Limits, Mode, NotSearched
from harness.checks.spark.session import are_few
from harness.checks.spark.tables import Tables
from harness.history.schema.client_rows import TRANSACTIONS
from harness.history.schema.schemas import KIND_FINAL_POLL, KIND_SEND, STATUS_OK

PLACES = 1 << 22  # sends of one operation that can be told apart
_COMMITTED = 0


def operation_of(name: int) -> int | None:
    return name // PLACES if name >= 0 else None


def transaction_of(name: int) -> int | None:
    return -name - 1 if name < 0 else None


class NativeGraph:
    """`rows`: every record with its vertex (name, begin, end, ok, bound to a transaction)."""

    def __init__(self, spark: SparkSession, tables: Tables) -> None:
        self._spark = spark
        self._is_small = are_few(tables.row_count)
        self.rows = _rows(spark, tables)

    def answers(self, mode: Mode, limits: Limits) -> tuple[Sequence[Answer], Sequence[NotSearched]]:
        backward = self._backward()
        # Most have none. Of few rows it costs less to ask that alone than to merge what might be there.
        if self._is_small and backward.isEmpty():
            return [], []
        with intervals_of(backward) as intervals:
            if intervals is None:
                return [], []
            with _kept(intervals.of(self._placed)) as inside:
                return self._search(inside, mode, limits)

    def _search(self, inside: DataFrame, mode: Mode, limits: Limits) -> tuple[Sequence[Answer], Sequence[NotSearched]]:
        sizes = inside.groupBy("run", "interval").agg(
            sf.count("*").alias("operations"), sf.min("place").alias("first"), sf.max("place").alias("last")
        )
        totals = sizes.agg(sf.sum("operations"), sf.max("operations")).collect()[0]
        left_out: Sequence[NotSearched] = []
        if totals[1] > limits.interval_operations:
            left_out = too_long(sizes.where(sf.col("operations") > limits.interval_operations).toArrow(), limits)
            refused = [(one.run, one.interval) for one in left_out]
            refused_intervals = sf.broadcast(self._spark.createDataFrame(refused, "run int, interval long"))
            inside = inside.join(refused_intervals, ["run", "interval"], "left_anti")
        names = inside.select(*OPERATION, "interval")
        parts = {
            "operations": inside.select("run", "interval", "name", "begin", "end", "ok"),
            "reads": self._reads.join(names, OPERATION).select("interval", *VALUE, "name"),
            "writers": self._writers.join(names, OPERATION).select("interval", *VALUE, "name", "index", "previous"),
        }
        if totals[0] <= limits.collected_rows:
            tables = {name: part.limit(limits.collected_rows + 1).toArrow() for name, part in parts.items()}
            if all(table.num_rows <= limits.collected_rows for table in tables.values()):
                return _answers(tables, mode, limits), left_out
        return list(_in_workers(parts, totals[0], mode, limits)), left_out

    def micro_operations(self, names: Collection[tuple[int, int]]) -> MicroOperations:
        wanted = sf.broadcast(self._spark.createDataFrame(sorted(names), "run int, name long"))
        rows = self.rows.join(wanted, OPERATION, "left_semi").select(
            *VALUE, "name", sf.lit(0).alias("micro_operation"), "position", "kind"
        )
        is_send = sf.col("kind") == KIND_SEND
        writers = self._writers.join(wanted, OPERATION, "left_semi").toArrow()
        return MicroOperations(
            writes=rows.where(is_send).toArrow(),
            writers=writers.append_column("micro_operation", pa.repeat(0, writers.num_rows)),
            reads=rows.where(~is_send).toArrow(),
            ordered=writers,
        )

    @property
    def _reads(self) -> DataFrame:
        return self.rows.where(sf.col("kind") != KIND_SEND)

    @cached_property
    def _lined(self) -> DataFrame:
        """One row a value: its writer and where that stands, its first reader's end, its first place in the log.

        Numbers only, no structs, in the fold: then it hashes instead of sorting all records.
        """
        is_send = sf.col("kind") == KIND_SEND
        in_log = (sf.col("kind") == KIND_FINAL_POLL) & sf.col("replica").isNull()
        folded = self.rows.groupBy(*VALUE).agg(
            # An application may send a value again: it is one record, of all its sends.
            *[sf.max(sf.when(is_send, sf.col(of))).alias(of) for of in ("name", "position", "end", "ok", "bound")],
            sf.min(sf.when(is_send, sf.col("begin"))).alias("begin"),
            sf.min(sf.when(~is_send, sf.col("end"))).alias("read"),
            sf.min(sf.when(in_log, sf.col("offset"))).alias("index"),
        )
        start = sf.when(sf.col("bound"), sf.col("end")).otherwise(sf.col("begin"))
        until = sf.when(sf.col("ok") | sf.col("bound"), sf.col("end")).otherwise(sf.lit(NO_END))
        known = sf.col("index").isNotNull()
        by_index = Window.partitionBy("run", "partition_id").orderBy("index", "value")
        pushed = sf.max(sf.when(known, start)).over(by_index.rowsBetween(Window.unboundedPreceding, 0))
        rank = sf.when(sf.col("bound"), sf.lit(NO_END)).otherwise(sf.coalesce("index", sf.lit(-1))).cast("long")
        stood = (
            folded.withColumn("place", sf.least(sf.greatest(start, sf.when(known, pushed)), until))
            .withColumn("rank", rank)
            .withColumn("stand", sf.when(sf.col("name").isNotNull(), sf.struct("place", "rank", "name")))
        )
        before = sf.lag(sf.when(known, sf.struct("value", "stand"))).over(by_index)
        return stood.withColumn("before", sf.when(known, before))

    @property
    def _writers(self) -> DataFrame:
        """The one writer of each value, and where the value stands in its log, if it does."""
        return self._lined.where("name is not null").select(
            *VALUE, "name", "position", "index", sf.col("before.value").alias("previous")
        )

    @property
    def _placed(self) -> DataFrame:
        sends = self._lined.where("name is not null and not bound").select(
            "run", "name", "begin", "end", "ok", "place", "rank"
        )
        others = self.rows.where(sf.col("bound") | (sf.col("kind") != KIND_SEND))
        grouped = others.groupBy("run", "name").agg(
            sf.min("begin").alias("begin"), sf.max("end").alias("end"), sf.min("ok").alias("ok")
        )
        return sends.unionByName(
            grouped.withColumn("place", sf.col("end")).withColumn("rank", sf.lit(NO_END).cast("long"))
        )

    def _backward(self) -> DataFrame:
        """run, low, high: places between which edges run against the line (several may share a row)."""
        # Two transactions that end at the same instant stand in the order of their names: take either for backward.
        of_reads = sf.expr("place > read or (bound and place = read)")
        in_logs = sf.expr("before.stand > stand")
        found = sf.array(
            sf.when(of_reads, sf.struct(sf.col("read").alias("low"), sf.col("place").alias("high"))),
            sf.when(in_logs, sf.struct(sf.col("stand.place").alias("low"), sf.col("before.stand.place").alias("high"))),
        )
        lined = self._lined.where("stand is not null").where(of_reads | in_logs)
        return lined.select("run", sf.inline(sf.array_compact(found)))


@contextmanager
def _kept(rows: DataFrame) -> Iterator[DataFrame]:
    """While a search goes on, what it asks for repeatedly is kept, if that is much smaller than the records."""
    kept = rows.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        yield kept
    finally:
        kept.unpersist()


def _answers(parts: dict[str, pa.Table], mode: Mode, limits: Limits) -> list[Answer]:
    """The order of a log is that of its writers' values: what nobody is known to have sent relates no operations."""
    writers = parts["writers"]
    facts = Facts(
        writers=writers,
        reads=parts["reads"],
        ordered=writers.select([*VALUE, "index", "previous"]),
    )
    edges = edges_of(facts, write_write=True, read_write=False)
    return list(search_intervals(parts["operations"], edges, mode, limits))


_AT_ONCE = 250_000  # operations whose intervals one task of a worker searches together


def _in_workers(parts: dict[str, DataFrame], operations: int, mode: Mode, limits: Limits) -> Iterator[Answer]:
    """More than the driver shall hold: each interval is searched where it lies, bounded by its length."""
    rows = _of_one_kind(parts).withColumn(
        "bucket", sf.pmod(sf.hash("run", "interval"), sf.lit(operations // _AT_ONCE + 1))
    )

    names = tuple(parts)

    def search(group: pa.Table) -> pa.Table:
        tables = {name: group.filter(pc.field("part") == name) for name in names}
        answers = [answer for answer in _answers(tables, mode, limits) if answer.components or answer.not_searched]
        return pa.table({"answer": pa.array(map(pickle.dumps, answers), pa.binary())})

    for row in rows.groupBy("bucket").applyInArrow(search, "answer binary").toLocalIterator():
        yield pickle.loads(row["answer"])


def _of_one_kind(parts: dict[str, DataFrame]) -> DataFrame:
    """All parts as one frame: a column is null where a part has none."""
    whole = None
    for name, part in parts.items():
        part = part.withColumn("part", sf.lit(name))
        whole = part if whole is None else whole.unionByName(part, allowMissingColumns=True)
    assert whole is not None
    return whole


def _rows(spark: SparkSession, tables: Tables) -> DataFrame:
    is_send = sf.col("kind") == KIND_SEND
    bound = sf.col("transaction").isNotNull()
    name = (
        sf.when(bound, -sf.col("transaction") - 1)
        .when(is_send, sf.col("operation") * PLACES + sf.col("position") + 1)
        .otherwise(sf.col("operation") * PLACES)
    )
    ok = sf.when(bound, sf.col("txn_ok")).otherwise(
        (sf.col("status") == STATUS_OK) & (~is_send | (sf.coalesce("acks", sf.lit(-1)) != 0))
    )
    return _with_transactions(spark, tables).select(
        *VALUE,
        "kind",
        "offset",
        "replica",
        "position",
        name.alias("name"),
        bound.alias("bound"),
        ok.alias("ok"),
        sf.coalesce("txn_t0", "invoked_ns").alias("begin"),
        sf.coalesce("txn_t1", "completed_ns").alias("end"),
    )


def _with_transactions(spark: SparkSession, tables: Tables) -> DataFrame:
    """Records with the times of their transaction. One that nobody saw end spans its records, and precedes nothing."""
    if not any(marks["transactional"] for marks in tables.activity.values()):
        none = sf.lit(None).cast("long")
        return tables.records.withColumns({"txn_t0": none, "txn_t1": none, "txn_ok": sf.lit(False)})
    known = spark.createDataFrame(
        [
            (
                row["run"],
                row["transaction"],
                row["invoked_ns"],
                row["completed_ns"],
                row["outcome"] == _COMMITTED and row["completed_ns"] is not None,
            )
            for row in tables.every(TRANSACTIONS)
        ],
        "run int, transaction long, begun long, ended long, committed boolean",
    )
    seen = (
        tables.records.where("transaction is not null")
        .groupBy("run", "transaction")
        .agg(sf.min("invoked_ns").alias("first"), sf.max("completed_ns").alias("last"))
    )
    spanned = seen.join(known, ["run", "transaction"], "left").select(
        "run",
        "transaction",
        sf.coalesce("begun", "first").alias("txn_t0"),
        sf.coalesce("ended", "last").alias("txn_t1"),
        sf.coalesce("committed", sf.lit(False)).alias("txn_ok"),
    )
    return tables.records.join(spanned, ["run", "transaction"], "left")


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
