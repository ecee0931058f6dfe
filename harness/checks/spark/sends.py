"""What is asked of the sends alone, and only in a run in which the one query (detection.py) found cause for it.

That a value was sent more than once shows in the sums: fewer values than sends. Which of the records that stand in
another order than their calls were surely called in that order is asked of the processes that have such.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypedDict

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from harness.checks.spark.fused_query import CALLED, OVER, Flags, FoldedRow
from harness.checks.spark.tables import Tables, small_frame
from harness.history.facts.incarnations import is_created_anew
from harness.history.schema.cluster_rows import PARTITIONS, TOPICS
from harness.history.schema.schemas import KIND_SEND, STATUS_FAIL, STATUS_OK
from harness.history.schema.typed_rows import typed

Value = tuple[int, int, int]  # run, partition, value
Place = tuple[int, int, int, int | None]  # and offset
_VALUE = ("run", "partition_id", "value")
_UPWARDS = """partition by run, partition_id, process order by offset desc
    range between unbounded preceding and current row"""
_ACKNOWLEDGED = f"kind = {KIND_SEND} and status = 0 and coalesce(acks, -1) <> 0 and offset is not null"

_UNCOMMITTED = f"transaction is not null and status <> {STATUS_OK}"
_PERHAPS_APPENDED = f"status <> {STATUS_FAIL} or transaction is not null"  # what was aborted was appended


class _ValueRow(TypedDict):
    run: int
    partition_id: int
    value: int


class _PlaceRow(_ValueRow):
    offset: int


class _TriesRow(_ValueRow):
    tries: int
    uncommitted: list[int]


class _AgainRow(TypedDict):
    run: int
    again: int


@dataclass(frozen=True, kw_only=True)
class Sends:
    """in_order: the places that were given to what was surely sent after one that stands there or above.
    overtook_none: the values that stand only below calls of before their topic was created. again: by run, how many
    sends were of a value that had been sent before. tries: how many sends may have been appended, of each duplicate
    that was sent more than once, and at which offsets those were that were answered in a transaction that did not
    certainly commit."""

    in_order: frozenset[Place]
    overtook_none: frozenset[Value]
    again: Mapping[int, int]
    tries: Mapping[Value, tuple[int, frozenset[int]]]


def value_of(row: FoldedRow | _ValueRow) -> Value:
    return row["run"], row["partition_id"], row["value"]


def place_of(row: FoldedRow | _PlaceRow) -> Place:
    return (*value_of(row), row["offset"])


def sends_of(
    spark: SparkSession, tables: Tables, rows: Sequence[FoldedRow], lines: Sequence[FoldedRow], flags: Flags
) -> Sends:
    repeated = _repeated(tables, lines)
    again = (
        []
        if repeated is None
        else typed(_AgainRow, repeated.groupBy("run").agg(sf.sum(sf.col("sends") - 1).alias("again")).toArrow())
    )
    doubled = sorted({value_of(row) for row in rows if row["flags"] & flags.bits["duplicate"]}) if again else []
    turned_round = [row for row in rows if row["flags"] & flags.bits["send_order"] and row["own_process"] is not None]
    tries: Sequence[_TriesRow] = ()
    if repeated is not None and doubled:
        wanted = sf.broadcast(small_frame(spark, _VALUE, [dict(zip(_VALUE, each, strict=True)) for each in doubled]))
        tries = typed(_TriesRow, repeated.join(wanted, list(_VALUE), "left_semi").drop("sends").toArrow())
    return Sends(
        in_order=_surely_later(spark, tables, turned_round),
        overtook_none=_below_earlier_topics_calls(spark, tables, turned_round),
        again={row["run"]: row["again"] for row in again},
        tries={value_of(row): (row["tries"], frozenset(row["uncommitted"])) for row in tries},
    )


def _repeated(tables: Tables, lines: Sequence[FoldedRow]) -> DataFrame | None:
    """The values that were sent more than once; None if there are none."""
    values = dict.fromkeys(tables.activity, 0)
    for line in lines:
        if line["value_status"] is not None:
            values[line["run"]] += line["line_count"]
    fewer = [run for run, marks in tables.activity.items() if values[run] < marks["sends"]]
    if not fewer:
        return None
    sends = tables.every_record.where(sf.col("run").isin(fewer) & (sf.col("kind") == KIND_SEND))
    return (
        sends.groupBy(*_VALUE)
        .agg(
            sf.count("*").alias("sends"),
            sf.count_if(sf.expr(_PERHAPS_APPENDED)).alias("tries"),
            sf.collect_set(sf.expr(f"if({_UNCOMMITTED}, offset, null)")).alias("uncommitted"),
        )
        .where("sends > 1")
    )


def _surely_later(spark: SparkSession, tables: Tables, against: Sequence[FoldedRow]) -> frozenset[Place]:
    """Those whose call began after the other's had returned or was answered, whoever made them; and those that stand
    below one that their own operation had sent before: an operation's order is known."""
    if not against:
        return frozenset()
    processes = sorted({(row["run"], row["partition_id"], row["own_process"]) for row in against})
    columns = ("run", "partition_id", "process")
    wanted = small_frame(spark, columns, [dict(zip(columns, each, strict=True)) for each in processes])
    before = """partition by run, partition_id, operation order by position
        rows between unbounded preceding and 1 preceding"""
    later = (
        tables.every_record.where(_ACKNOWLEDGED)
        .join(sf.broadcast(wanted), list(columns), "left_semi")
        .selectExpr(
            *_VALUE,
            "offset",
            "invoked_ns",
            f"min(least(returned_ns, completed_ns)) over ({_UPWARDS}) as over_ns",
            f"max(if(returned_ns is null, offset, null)) over ({before}) as before",
        )
        .where("over_ns < invoked_ns or offset <= before")
    )
    return frozenset(map(place_of, typed(_PlaceRow, later.select(*_VALUE, "offset").toArrow())))


def _below_earlier_topics_calls(
    spark: SparkSession, tables: Tables, turned_round: Sequence[FoldedRow]
) -> frozenset[Value]:
    """Of a topic that was created anew, what was called for the one before comes to it only because it was sent again:
    no order was promised between the two."""
    created = _created_anew(tables)
    against = [row for row in turned_round if (row["run"], row["partition_id"]) in created]
    if not against:
        return frozenset()
    columns = ("run", "partition_id", "process", "created_ns")
    processes = sorted({(row["run"], row["partition_id"], row["own_process"] or 0) for row in against})
    wanted = [dict(zip(columns, (*each, created[each[:2]]), strict=True)) for each in processes]
    overtaking = (
        tables.every_record.where(_ACKNOWLEDGED)
        .join(sf.broadcast(small_frame(spark, columns, wanted)), ["run", "partition_id", "process"])
        .selectExpr(
            *_VALUE,
            f"{CALLED} as called",
            f"min(if(invoked_ns > created_ns, {OVER}, null)) over ({_UPWARDS}) as over_above_ns",
        )
        .where("over_above_ns < called")
    )
    found = map(value_of, typed(_ValueRow, overtaking.select(*_VALUE).toArrow()))
    return frozenset(map(value_of, against)).difference(found)


def _created_anew(tables: Tables) -> dict[tuple[int, int], int]:
    """Until when each partition of a topic that had one of its name before it may not have been there yet."""
    anew = {
        (row["run"], row["topic"]): (row["created_ns"] or 0) + (row["uncertainty_ns"] or 0)
        for row in tables.every(TOPICS)
        if is_created_anew(row, tables.rows(TOPICS, row["run"]))
    }
    return {
        (row["run"], row["partition_id"]): anew[row["run"], row["topic"]]
        for row in (tables.every(PARTITIONS) if anew else ())
        if (row["run"], row["topic"]) in anew
    }
