"""One query over the records that finds every suspicious row (reference/spark.md 3.2).

The rows are folded to one per (partition, value, offset): what was said of that value at that offset by its sender and
by its readers. Windows by value, by offset and by sending process then set the flags. Only flagged rows leave Spark,
and one row for each line of the accounting, so everything after this (causes, classes, sentences) costs by what went
wrong, not by what was done. One query, because the first run of any query costs more than a million records.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from harness.checks.tables import Row, Tables

# Beyond this many flagged rows the rest is counted but not classed one by one.
FLAGGED_MAX = 1_000_000
ALL_OFFSETS = 2**63 - 1
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
    above_kept: bool = (
        False  # in the final log, as is the one above it that was acknowledged or sent before: neither was cut
    )

    @property
    def epoch(self) -> int | None:
        return self.log_epoch if self.log_epoch is not None else self.read_epoch


@dataclass(frozen=True, kw_only=True)
class Detection:
    """flagged rows by run; `counts[run, tp, flag]` exact, whatever was cut; accounting rows.

    entangled: the runs in which a cycle of operations can be at all; in the others each is later than all it follows.
    """

    flagged: Mapping[int, Sequence[Flagged]]
    counts: Mapping[tuple[int, int, str], int]
    accounting: Sequence[Row]
    entangled: frozenset[int]


# One row per (run, tp, value, off), with what is known of the value as a whole beside it (v_...), and with what lies
# around it in its partition's log and in its sender's order. `a_...`: the line of the accounting that its value is in,
# told by one of the rows (`accounts`). Both engines of benchmarks/check_history.py run this text.
QUERY = """
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
    cast(null as bigint) as jump, if(txn is null, 0, 1) as bound
  from {records}
  union all
  select run, tp, value, off, null, null, null, null, null, null, null, 0, null, null, null, jump, 0
  from edges where step is null and jump <> 1
), folded as (
  select run, tp, value, off, min(status) as status, min(s_acks) as s_acks, min(s_op) as s_op,
    min(s_process) as s_process, min(s_i) as s_i, min(s_t0) as s_t0, min(s_t1) as s_t1, bit_or(seen) as seen,
    max(r_epoch) as r_epoch, min(r_first) as r_first, min(step) as step_lo, max(step) as step_hi,
    min(jump) as jump_lo, max(jump) as jump_hi, max(bound) as bound
  from said group by run, tp, value, off
), spread as (
  -- acks=0 promises nothing, even if a client calls it a success.
  select /*+ REPARTITION(run, tp) */ *, coalesce(status = 0 and coalesce(s_acks, -1) <> 0, false) as acked from folded
), of_value as (
  select *,
    min(status) over v as v_status, min(s_acks) over v as v_acks, min(s_t0) over v as v_t0, min(s_t1) over v as v_t1,
    max(if(acked, off, null)) over v as v_ack, min(s_op) over v as v_op, min(s_process) over v as v_process,
    min(r_first) over v as v_first_read,
    bit_or(seen) over v as v_seen, count(off) over v as v_offsets, sum(if(seen & 2 > 0, 1, 0)) over v as v_finals,
    if(count(*) over v > count(off) over v, off is null, off = min(off) over v) as v_first
  from spread
  window v as (partition by run, tp, value)
), around as (
  select *,
    max(if(seen & 2 > 0, off, null)) over (
      partition by run, tp order by off range between unbounded preceding and 1 preceding) as final_below,
    count(off) over (partition by run, tp order by off range between current row and current row) as at_offset,
    max(if(seen & 2 > 0, v_t0, null)) over (
      partition by run, tp order by off range between unbounded preceding and current row) as begun_below,
    -- A row without an offset comes last of all.
    min(if(acked, s_t1, null)) over (
      partition by run, tp order by off desc nulls last range between unbounded preceding and 1 preceding
    ) as acked_above,
    min(if(acked and coalesce(s_acks, -1) <> 1, s_t1, null)) over (
      partition by run, tp order by off desc nulls last range between unbounded preceding and current row
    ) as acked_all_above,
    lag(off) over (partition by run, tp, if(acked, s_process, null) order by s_op, s_i) as sent_before,
    lag(seen & 2 > 0) over (partition by run, tp, if(acked, s_process, null) order by s_op, s_i) as kept_before,
    min(if(acked and seen & 2 > 0, s_t1, null)) over (
      partition by run, tp order by off desc nulls last range between unbounded preceding and 1 preceding
    ) as kept_above
  from of_value
)
select *,
  v_first and value = min(if(v_first, value, null)) over a as accounts,
  sum(if(v_first, 1, 0)) over a as a_count,
  sum(if(v_first and v_finals > 1, v_finals - 1, 0)) over a as a_duplicates,
  sum(if(v_first and v_seen > 0, 1, 0)) over a as a_read,
  max(if(seen & 2 > 0, off, null)) over a as a_end, max(bound) over a as a_bound
from around
window a as (partition by run, tp, v_status, v_acks, v_seen & 2)
"""

# Whether something acknowledged and gone was lost, or only not read so far, is known when the final reads' ends are:
# the driver decides (`_settled`), from the accounting's lines and the table of partitions.
_CONDITIONS: Mapping[str, str] = {
    "gone": "acked and v_seen & 2 = 0",
    "dirty": "seen & 1 > 0 and v_seen & 2 = 0",
    "duplicate": "v_offsets > 1 and off is not null",
    "conflict": "off is not null and at_offset > 1",
    "aborted": "v_status = 1 and seen > 0",
    "phantom": "v_status is null and seen > 0",
    "early": "seen > 0 and r_first < v_t0",
    "send_order": "acked and off <= sent_before",
    "regression": "acked and off is not null and acked_above < s_t0",
    "back_inside": "step_lo < 1",
    "back_between": "jump_lo < 1",
    "skip_inside": "step_hi > 1 and off - step_hi < final_below",
    "skip_between": "jump_hi > 1 and off - jump_hi < final_below",
    # No finding of its own: only such a value can be on a cycle of operations that are no transactions (cycles/). It
    # was read before what stands at or below it in the log had begun, or acknowledged before that, or shares its place.
    "backward": """v_first_read < v_t0 or seen & 2 > 0 and (at_offset > 1 or v_first_read < begun_below
        or v_status = 0 and coalesce(v_acks, -1) <> 0 and v_t1 < begun_below)""",
}
BITS = {name: 1 << place for place, name in enumerate(_CONDITIONS)}
_UNTOLD = {"gone", "backward"}
assert {*_CONDITIONS} - _UNTOLD | {"lost", "unseen"} == {*FLAGS}
FLAG_BITS = " | ".join(f"if(coalesce({condition}, false), {BITS[name]}, 0)" for name, condition in _CONDITIONS.items())
OF_ROW = (
    "run", "tp", "value", "off", "v_status", "v_acks", "v_ack", "v_process", "v_op", "v_t0", "v_t1", "seen", "v_seen",
    "v_finals", "r_epoch", "r_first", "step_lo", "step_hi", "jump_lo", "jump_hi", "acked_all_above",
    "coalesce(seen & 2 > 0 and (kept_above < s_t0 or (kept_before and off <= sent_before)), false) as above_kept",
)  # fmt: skip
OF_LINE = ("accounts", "a_count", "a_duplicates", "a_read", "a_end", "a_bound")


def flagged_rows(spark: SparkSession, records: DataFrame) -> DataFrame:
    """The rows with a flag (`flags`, bits), and one row for each line of the accounting (`accounts`)."""
    wide = spark.sql(QUERY, records=records)
    return wide.selectExpr(*OF_ROW, *OF_LINE, f"{FLAG_BITS} as flags").where("flags <> 0 or accounts")


Partition = tuple[int, int]
Holdings = Mapping[tuple[int, int, int], tuple[int | None, frozenset[int], frozenset[int]]]


def detect(spark: SparkSession, tables: Tables) -> Detection:
    suspicious = flagged_rows(spark, tables.records)
    rows = suspicious.limit(FLAGGED_MAX).toArrow().to_pylist()
    complete = len(rows) < FLAGGED_MAX
    lines = [row for row in rows if row["accounts"]] if complete else suspicious.where("accounts").toArrow().to_pylist()
    ends = _ends(tables, lines)
    held = _holdings(spark, tables, rows)
    flagged = [each for row in rows if (each := _flagged(row, ends, held)).flags]
    by_run: dict[int, list[Flagged]] = {run: [] for run in range(tables.runs)}
    for each in flagged:
        by_run[each.run].append(each)
    for listed in by_run.values():
        listed.sort(key=lambda row: (row.tp, -1 if row.off is None else row.off, row.value))
    counts = _counts(flagged) if complete else _counts_of_all(spark, suspicious, ends)
    entangled = {row["run"] for row in rows if row["flags"] & BITS["backward"]}
    entangled |= {row["run"] for row in lines if row["a_bound"]}
    if not complete:
        entangled = set(by_run)
    return Detection(
        flagged=by_run, counts=counts, accounting=[_line(row) for row in lines], entangled=frozenset(entangled)
    )


def _ends(tables: Tables, lines: Sequence[Row]) -> dict[Partition, int]:
    """Up to which offset the final read of each partition vouches for what is missing: to all there are, if it ended.

    A partition whose final read was not said to end is vouched for as far as records came.
    """
    ends: dict[Partition, int] = {}
    for row in lines:
        if row["a_end"] is not None:
            place = row["run"], row["tp"]
            ends[place] = max(ends.get(place, -1), row["a_end"])
    for row in _all_rows(tables, "partitions"):
        if row["read_to_end"]:
            ends[row["run"], row["tp"]] = ALL_OFFSETS
    return ends


def _past(ends: Mapping[Partition, int], row: Row) -> bool:
    end = ends.get((row["run"], row["tp"]), -1)
    return end == ALL_OFFSETS or (row["off"] is not None and row["off"] <= end)


def _settled(row: Row, ends: Mapping[Partition, int]) -> frozenset[str]:
    flags = {name for name, bit in BITS.items() if row["flags"] & bit}
    past = _past(ends, row)
    if "gone" in flags:
        flags.add("lost" if past else "unseen")
    return frozenset(flags - _UNTOLD if past else flags - _UNTOLD - {"dirty"})


def _counts(flagged: Sequence[Flagged]) -> dict[tuple[int, int, str], int]:
    return Counter((row.run, row.tp, flag) for row in flagged for flag in row.flags)


def _counts_of_all(
    spark: SparkSession, suspicious: DataFrame, ends: Mapping[Partition, int]
) -> dict[tuple[int, int, str], int]:
    """Counted where the rows are, when they are too many to be brought here."""
    told = [{"run": run, "tp": tp, "end": end} for (run, tp), end in ends.items()]
    frame = small_frame(spark, {"run": pa.int32(), "tp": pa.int32(), "end": pa.int64()}, told)
    past = f"(coalesce(end = {ALL_OFFSETS}, false) or coalesce(off <= end, false))"
    conditions = {name: f"flags & {bit} <> 0" for name, bit in BITS.items()}
    gone, _ = conditions.pop("gone"), conditions.pop("backward")
    conditions |= {"lost": f"{gone} and {past}", "unseen": f"{gone} and not {past}"}
    conditions["dirty"] += f" and {past}"
    counted = (
        suspicious.join(sf.broadcast(frame), ["run", "tp"], "left")
        .groupBy("run", "tp")
        .agg(*[sf.count_if(sf.expr(condition)).alias(name) for name, condition in conditions.items()])
    )
    return {
        (row["run"], row["tp"], name): row[name]
        for row in counted.toArrow().to_pylist()
        for name in conditions
        if row[name]
    }


def _holdings(spark: SparkSession, tables: Tables, rows: Sequence[Row]) -> Holdings:
    """Which replicas ever had the flagged records, in which epoch, and which still had them at the end."""
    keys = sorted({(row["run"], row["tp"], row["value"]) for row in rows if row["flags"] & ~BITS["backward"]})
    if not keys or not any(tables.small["replica_snapshots"].values()):
        return {}
    wanted = small_frame(
        spark, {"run": pa.int32(), "tp": pa.int32(), "value": pa.int64()},
        [{"run": run, "tp": tp, "value": value} for run, tp, value in keys],
    )  # fmt: skip
    ended = {(row["run"], row["snapshot"]) for row in _all_rows(tables, "replica_snapshots") if row["reason"] == "end"}
    found = (
        tables.replica_log.join(sf.broadcast(wanted), ["run", "tp", "value"], "left_semi")
        .groupBy("run", "tp", "value")
        .agg(sf.min("epoch").alias("epoch"), sf.collect_set(sf.struct("node", "snapshot")).alias("copies"))
    )
    return {
        (row["run"], row["tp"], row["value"]): (
            row["epoch"],
            frozenset(copy["node"] for copy in row["copies"]),
            frozenset(copy["node"] for copy in row["copies"] if (row["run"], copy["snapshot"]) in ended),
        )
        for row in found.toArrow().to_pylist()
    }


def _line(row: Row) -> Row:
    """Values by what their sender was told and whether the final log has them; it adds up both ways."""
    return {
        "run": row["run"], "tp": row["tp"], "status": row["v_status"], "acks": row["v_acks"],
        "in_final": bool(row["v_seen"] & SEEN_FINAL), "count": row["a_count"], "duplicates": row["a_duplicates"],
        "read": row["a_read"],
    }  # fmt: skip


def _flagged(row: Row, ends: Mapping[Partition, int], held: Holdings) -> Flagged:
    flags = _settled(row, ends)
    if "back_inside" in flags:
        step = row["step_lo"]
    elif "back_between" in flags:
        step = row["jump_lo"]
    elif "skip_inside" in flags:
        step = row["step_hi"]
    else:
        step = row["jump_hi"] if "skip_between" in flags else None
    epoch, nodes, at_end = held.get((row["run"], row["tp"], row["value"]), (None, frozenset(), frozenset()))
    above = row["acked_all_above"]
    return Flagged(
        row["run"], row["tp"], row["value"], row["off"], row["v_status"], row["v_acks"], row["v_ack"],
        row["v_process"], row["v_op"], row["v_t0"], row["v_t1"], row["seen"], row["v_seen"], row["v_finals"],
        row["r_epoch"], row["r_first"], step, flags, epoch, nodes, at_end,
        above is not None and above < (row["v_t0"] or 0), row["above_kept"],
    )  # fmt: skip


def _all_rows(tables: Tables, name: str) -> list[Row]:
    return [row for rows in tables.small[name].values() for row in rows]


def small_frame(spark: SparkSession, columns: Mapping[str, pa.DataType], rows: Sequence[Row]) -> DataFrame:
    """A few rows of the driver's as a DataFrame, through Arrow: no Python workers."""
    schema = pa.schema([pa.field(name, kind) for name, kind in columns.items()])
    picked = [{name: row[name] for name in columns} for row in rows]
    return spark.createDataFrame(pa.Table.from_pylist(picked, schema))
