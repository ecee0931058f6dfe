"""One pass over the records that finds every suspicious row (reference/spark.md 3.2).

The rows are folded to one per (partition, value, offset): what was said of that value at that offset by its sender and
by its readers. Windows by value, by offset and by sending process then set the flags. Only flagged rows leave Spark, so
everything after this (causes, classes, sentences) costs by what went wrong, not by what was done.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.storagelevel import StorageLevel

from harness.checks.tables import Row, Tables

# Beyond this many flagged rows the rest is counted but not classed one by one.
FLAGGED_MAX = 1_000_000
_PERSIST_BELOW = 5_000_000
SEEN_POLL, SEEN_FINAL, SEEN_REPLICA = 1, 2, 4  # the bits of `seen`; the queries below spell them out

# flag -> what it says of a folded row
FLAGS: Mapping[str, str] = {
    "lost": "acknowledged, and not in the final log although that was read past it",
    "unseen": "acknowledged, not in the final log, which was not read that far",
    "duplicate": "the value was seen at another offset too",
    "conflict": "another value was seen at this offset",
    "aborted": "read although its send definitely failed",
    "phantom": "read although nobody sent it",
    "early": "read before it was sent",
    "send_order": "acknowledged at or below the offset that the same process got before",
    "regression": "acknowledged below an offset that was acknowledged before this send began",
    "back_inside": "a poll went back, or stood still, inside itself",
    "back_between": "a poll began at or below the end of the poll before it",
    "skip_inside": "a poll jumped over a record of the final log inside itself",
    "skip_between": "a poll began behind a record of the final log that the poll before had not reached",
    "dirty": "read while the load ran, and not in the final log",
}


@dataclass(frozen=True, slots=True)
class Flagged:
    """A folded row that has at least one flag. Times in ns; None where nothing was said."""

    run: int
    tp: int
    value: int
    off: int | None
    status: int | None  # of the send, whatever its offset
    acks: int | None
    acknowledged: int | None  # offset of the acknowledgement, if any
    process: int | None
    op: int | None
    t0: int | None
    t1: int | None
    seen: int  # bits, at this offset
    seen_any: int  # bits, at any offset
    final_offsets: int  # at how many offsets the final log has the value
    read_epoch: int | None
    read_first: int | None
    step: int | None  # the worst step of a poll onto this row, where a poll flag is set
    flags: frozenset[str]
    log_epoch: int | None  # from the replicas' logs
    held: frozenset[int]  # nodes that had the record in some snapshot or truncation
    held_at_end: frozenset[int]
    below_acks_all: bool  # at or above its offset, one had been acknowledged with acks=all before this send began

    @property
    def epoch(self) -> int | None:
        return self.log_epoch if self.log_epoch is not None else self.read_epoch


@dataclass(frozen=True, kw_only=True)
class Detection:
    """flagged rows by run; `counts[run, tp, flag]` exact, whatever was cut; accounting rows."""

    flagged: Mapping[int, Sequence[Flagged]]
    counts: Mapping[tuple[int, int, str], int]
    accounting: Sequence[Row]


# One row per (run, tp, value, off), with what is known of the value as a whole beside it (v_...).
_FOLD = """
with edges as (
  -- The step from the end of a consumer's poll before to the first record of this one: only edges are shuffled.
  -- A poll that failed tells the truth about what it saw, but the consumer may not have moved on.
  select run, tp, value, off, step,
    off - last(if(status = 0, off, null), true) over (
      partition by run, process, assignment, tp order by op, i rows between unbounded preceding and 1 preceding
    ) as jump
  from {records} where kind > 0 and (step is null or last)
), said as (
  select run, tp, value, off,
    if(kind = 0, status, null) as status, if(kind = 0, acks, null) as s_acks, if(kind = 0, op, null) as s_op,
    if(kind = 0, process, null) as s_process, if(kind = 0, i, null) as s_i, if(kind = 0, t0, null) as s_t0,
    if(kind = 0, t1, null) as s_t1,
    case when kind = 1 then 1 when kind = 2 and replica is null then 2 when kind = 2 then 4 else 0 end as seen,
    if(kind > 0, epoch, null) as r_epoch, if(kind > 0, t1, null) as r_first, if(kind > 0, step, null) as step,
    cast(null as bigint) as jump
  from {records}
  union all
  select run, tp, value, off, null, null, null, null, null, null, null, 0, null, null, null, jump
  from edges where step is null and jump <> 1
), spread as (
  select /*+ REPARTITION(run, tp, value) */ * from said
), folded as (
  select run, tp, value, off, min(status) as status, min(s_acks) as s_acks, min(s_op) as s_op,
    min(s_process) as s_process, min(s_i) as s_i, min(s_t0) as s_t0, min(s_t1) as s_t1, bit_or(seen) as seen,
    max(r_epoch) as r_epoch, min(r_first) as r_first, min(step) as step_lo, max(step) as step_hi,
    min(jump) as jump_lo, max(jump) as jump_hi
  from spread group by run, tp, value, off
)
select *,
  -- acks=0 promises nothing, even if a client calls it a success.
  status <=> 0 and coalesce(s_acks, -1) <> 0 as acked,
  min(status) over v as v_status, min(s_acks) over v as v_acks, min(s_t0) over v as v_t0, min(s_t1) over v as v_t1,
  max(if(status = 0 and coalesce(s_acks, -1) <> 0, off, null)) over v as v_ack,
  min(s_op) over v as v_op, min(s_process) over v as v_process, bit_or(seen) over v as v_seen,
  count(off) over v as v_offsets, count_if(seen & 2 > 0) over v as v_finals,
  row_number() over (partition by run, tp, value order by off nulls first) as v_row
from folded
window v as (partition by run, tp, value)
"""

# {folded} with what lies around each row in its partition's log and in its sender's order.
_NEIGHBOURS = """
with spread as (
  select /*+ REPARTITION(run, tp) */ *, -off as down from {folded}
)
select *,
  max(if(seen & 2 > 0, off, null)) over (partition by run, tp) as final_end,
  max(if(seen & 2 > 0, off, null)) over (
    partition by run, tp order by off range between unbounded preceding and 1 preceding) as final_below,
  lag(off) over (partition by run, tp order by off, value) as off_before,
  lead(off) over (partition by run, tp order by off, value) as off_after,
  -- A row without an offset sorts below all others, into every frame: it must not count here.
  min(if(acked and off is not null, s_t1, null)) over (
    partition by run, tp order by down range between unbounded preceding and 1 preceding) as acked_above,
  min(if(acked and off is not null and coalesce(s_acks, -1) <> 1, s_t1, null)) over (
    partition by run, tp order by down range between unbounded preceding and current row) as acked_all_above,
  lag(off) over (partition by run, tp, if(acked, s_process, null) order by s_op, s_i) as sent_before
from spread
"""

_NEVER_FINAL = "v_seen & 2 = 0"
_READ_PAST = "(coalesce(read_to_end, false) or coalesce(off <= final_end, false))"
_CONDITIONS: Mapping[str, str] = {
    "lost": f"acked and {_NEVER_FINAL} and {_READ_PAST}",
    "unseen": f"acked and {_NEVER_FINAL} and not {_READ_PAST}",
    "duplicate": "v_offsets > 1 and off is not null",
    "conflict": "coalesce(off = off_before, false) or coalesce(off = off_after, false)",
    "aborted": "v_status = 1 and seen > 0",
    "phantom": "v_status is null and seen > 0",
    "early": "seen > 0 and r_first < v_t0",
    "send_order": "acked and off <= sent_before",
    "regression": "acked and off is not null and acked_above < s_t0",
    "back_inside": "step_lo < 1",
    "back_between": "jump_lo < 1",
    "skip_inside": "step_hi > 1 and off - step_hi < final_below",
    "skip_between": "jump_hi > 1 and off - jump_hi < final_below",
    "dirty": f"seen & 1 > 0 and {_NEVER_FINAL} and {_READ_PAST}",
}
assert _CONDITIONS.keys() == FLAGS.keys()


def fold(spark: SparkSession, records: DataFrame) -> DataFrame:
    return spark.sql(_FOLD, records=records)


def with_flags(spark: SparkSession, folded: DataFrame, partitions: DataFrame) -> DataFrame:
    """Adds one boolean per flag. `partitions`: run, tp, read_to_end."""
    wide = spark.sql(_NEIGHBOURS, folded=folded).join(sf.broadcast(partitions), ["run", "tp"], "left")
    flags = [f"coalesce({condition}, false) as is_{name}" for name, condition in _CONDITIONS.items()]
    return wide.selectExpr("*", *flags)


def _holdings(flagged: DataFrame, tables: Tables, snapshots: DataFrame) -> DataFrame:
    """Which replicas ever had the flagged records, in which epoch, and which still had them at the end."""
    wanted = flagged.select("run", "tp", "value").distinct()
    return (
        tables.replica_log.join(wanted, ["run", "tp", "value"], "left_semi")
        .join(sf.broadcast(snapshots), ["run", "snapshot"], "left")
        .groupBy("run", "tp", "value")
        .agg(
            sf.min("epoch").alias("log_epoch"),
            sf.collect_set("node").alias("held"),
            sf.collect_set(sf.when(sf.col("reason") == "end", sf.col("node"))).alias("held_at_end"),
        )
    )


_COLLECTED = (
    "run", "tp", "value", "off", "v_status", "v_acks", "v_ack", "v_process", "v_op", "v_t0", "v_t1", "seen", "v_seen",
    "v_finals", "r_epoch", "r_first", "step_lo", "step_hi", "jump_lo", "jump_hi", "acked_all_above",
)  # fmt: skip


@contextmanager
def folded_records(spark: SparkSession, tables: Tables) -> Iterator[DataFrame]:
    """The folded rows, kept in memory while they are few: they are looked at twice."""
    folded = fold(spark, tables.records)
    if tables.record_count < _PERSIST_BELOW:
        folded = folded.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        yield folded
    finally:
        folded.unpersist()


def detect(spark: SparkSession, tables: Tables) -> Detection:
    partitions = small_frame(
        spark, {"run": pa.int32(), "tp": pa.int32(), "read_to_end": pa.bool_()}, _all_rows(tables, "partitions")
    )
    snapshots = small_frame(
        spark,
        {"run": pa.int32(), "snapshot": pa.int32(), "reason": pa.string()},
        _all_rows(tables, "replica_snapshots"),
    ).distinct()
    with folded_records(spark, tables) as folded:
        names = [f"is_{name}" for name in FLAGS]
        flagged = with_flags(spark, folded, partitions).where(" or ".join(names)).select(*_COLLECTED, *names)
        flagged = flagged.persist(StorageLevel.MEMORY_AND_DISK)
        try:
            counted = flagged.groupBy("run", "tp").agg(*[sf.count_if(sf.col(name)).alias(name) for name in names])
            counts = {
                (row["run"], row["tp"], name): row[f"is_{name}"]
                for row in counted.toArrow().to_pylist()
                for name in FLAGS
                if row[f"is_{name}"]
            }
            rows: list[Flagged] = []
            if counts:
                kept = flagged.limit(FLAGGED_MAX)
                holdings = _holdings(kept, tables, snapshots)
                rows = _rows(kept.join(holdings, ["run", "tp", "value"], "left").toArrow())
        finally:
            flagged.unpersist()
        accounting = _accounting(folded).toArrow().to_pylist()
    by_run: dict[int, list[Flagged]] = {run: [] for run in range(tables.runs)}
    for row in rows:
        by_run[row.run].append(row)
    for listed in by_run.values():
        listed.sort(key=lambda row: (row.tp, -1 if row.off is None else row.off, row.value))
    return Detection(flagged=by_run, counts=counts, accounting=accounting)


def _accounting(folded: DataFrame) -> DataFrame:
    """Values by what their sender was told and whether the final log has them; it adds up both ways."""
    return (
        folded.where("v_row = 1")
        .withColumn("in_final", sf.col("v_seen").bitwiseAND(SEEN_FINAL) > 0)
        .groupBy("run", "tp", sf.col("v_status").alias("status"), sf.col("v_acks").alias("acks"), "in_final")
        .agg(
            sf.count("*").alias("count"),
            sf.sum(sf.when(sf.col("v_finals") > 1, sf.col("v_finals") - 1).otherwise(0)).alias("duplicates"),
            sf.count_if(sf.col("v_seen") > 0).alias("read"),
        )
    )


def _rows(table: pa.Table) -> list[Flagged]:
    rows = []
    for row in table.to_pylist():
        flags = frozenset(name for name in FLAGS if row[f"is_{name}"])
        if "back_inside" in flags:
            step = row["step_lo"]
        elif "back_between" in flags:
            step = row["jump_lo"]
        elif "skip_inside" in flags:
            step = row["step_hi"]
        else:
            step = row["jump_hi"] if "skip_between" in flags else None
        rows.append(
            Flagged(
                row["run"], row["tp"], row["value"], row["off"], row["v_status"], row["v_acks"], row["v_ack"],
                row["v_process"], row["v_op"], row["v_t0"], row["v_t1"], row["seen"], row["v_seen"], row["v_finals"],
                row["r_epoch"], row["r_first"], step, flags, row["log_epoch"], frozenset(row["held"] or ()),
                frozenset(row["held_at_end"] or ()),
                row["acked_all_above"] is not None and row["acked_all_above"] < (row["v_t0"] or 0),
            )
        )  # fmt: skip
    return rows


def _all_rows(tables: Tables, name: str) -> list[Row]:
    return [row for rows in tables.small[name].values() for row in rows]


def small_frame(spark: SparkSession, columns: Mapping[str, pa.DataType], rows: Sequence[Row]) -> DataFrame:
    """A few rows of the driver's as a DataFrame, through Arrow: no Python workers."""
    schema = pa.schema([pa.field(name, kind) for name, kind in columns.items()])
    picked = [{name: row[name] for name in columns} for row in rows]
    return spark.createDataFrame(pa.Table.from_pylist(picked, schema))
