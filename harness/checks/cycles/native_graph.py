"""The graph of runs of ours. A send is a vertex of its own unless a transaction binds it: batches promise nothing.

Times are the clients' own (one machine, one monotonic clock). The version order is the log as the final read found it.
A send without acknowledgement (acks 0), and what failed or may not have happened, precedes nothing in real time.
One fold per value finds what runs backward; in a sound run without transactions that is nothing, and all is done.
"""

from functools import cached_property

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as sf

from harness.checks.cycles.graph import NO_END, VALUE, Graph, spans
from harness.checks.spark.tables import Tables
from harness.history.schema.client_rows import TRANSACTIONS
from harness.history.schema.schemas import KIND_FINAL_POLL, KIND_SEND, STATUS_OK

PLACES = 1 << 22  # sends of one operation that can be told apart
_COMMITTED = 0


def operation_of(name: int) -> int | None:
    return name // PLACES if name >= 0 else None


def transaction_of(name: int) -> int | None:
    return -name - 1 if name < 0 else None


class NativeGraph(Graph):
    """`rows`: every record with its vertex (name, begin, end, ok, bound to a transaction)."""

    def __init__(self, spark: SparkSession, tables: Tables, *, read_write: bool) -> None:
        self.write_write = True
        self.read_write = read_write
        self.rows = _rows(spark, tables)
        self.reads = self.rows.where(sf.col("kind") != KIND_SEND).select(*VALUE, "name", _at("position"))
        self.writes = self.rows.where(sf.col("kind") == KIND_SEND).select(*VALUE, "name", _at("position"))

    def small_tables(self) -> list[DataFrame]:
        return []  # as large as the records themselves, and a sound run asks for them once

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

    @cached_property
    def writers(self) -> DataFrame:
        return self._lined.where("name is not null").select(*VALUE, "name", _at("position"))

    @cached_property
    def ordered(self) -> DataFrame:
        return self._lined.where("index is not null").select(*VALUE, "index", sf.col("before.value").alias("previous"))

    @cached_property
    def placed(self) -> DataFrame:
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

    def backward(self) -> DataFrame:
        lined = self._lined.where("stand is not null")
        # Two transactions that end at the same instant stand in the order of their names: take either for backward.
        read = lined.where("place > read or (bound and place = read)").select(
            "run", sf.col("read").alias("low"), sf.col("place").alias("high")
        )
        log = spans(lined.where("before.stand is not null").withColumn("from", sf.col("before.stand")), "stand", "from")
        found = read.unionByName(log)
        return found.unionByName(self.backward_rw()) if self.read_write else found


def _at(place: str) -> Column:
    return sf.struct(sf.lit(0).alias("micro_operation"), sf.col(place).alias("position")).alias("at")


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
    bound = tables.records.where("transaction is not null")
    if bound.isEmpty():
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
    seen = bound.groupBy("run", "transaction").agg(
        sf.min("invoked_ns").alias("first"), sf.max("completed_ns").alias("last")
    )
    spanned = seen.join(known, ["run", "transaction"], "left").select(
        "run",
        "transaction",
        sf.coalesce("begun", "first").alias("txn_t0"),
        sf.coalesce("ended", "last").alias("txn_t1"),
        sf.coalesce("committed", sf.lit(False)).alias("txn_ok"),
    )
    return tables.records.join(spanned, ["run", "transaction"], "left")
