"""Timestamps (KIP-32): compares a record's timestamp with its producer's, its broker's clock and its log.

Changed: a reader got another timestamp than the producer's answer had (LogAppendTime) or the producer had set
(CreateTime), or two reads differ. Answered: the record's own lies between its send and its answer, and the one that
its producer was answered does not, or lies farther off: the answer is the odd one, not the record. A batch that is
sent again and is already in the log is answered with its largest timestamp (UnifiedLog), so under CreateTime a
record's own may be earlier than the answer, but not than its send. Out of time: a broker stamped a record outside the
time between its send and its acknowledgement, by more than a second; reported only if the brokers' clock is this
machine's. Backwards: under LogAppendTime a record of the final log has an earlier timestamp than the one before it. A
leader takes the time while it holds the log's lock, so within a leader epoch nothing permits that but a clock that was
set back; between leaders the clocks of two machines may differ. Both are observations, open where it is not known
whether a clock was set back.
"""

from collections.abc import Sequence
from typing import TypedDict

from pyspark.sql import functions as sf

from harness.checks.contract.rulings import NOTHING_PERMITS_IT, Cause, Class, Doubt
from harness.checks.family import Family
from harness.checks.findings import Finding, RunContext
from harness.checks.judged_runs import JudgedRuns
from harness.checks.wording.causes import cause_words
from harness.checks.wording.words import plural, ranges
from harness.history.schema.schemas import KIND_SEND
from harness.history.schema.typed_rows import RowsOf, typed
from harness.scenario.model import ATTACHED

CHECK = "timestamps"
_ROWS_MAX = 20_000
_CLOCKS_NS = 10**9
_TWO_CLOCKS = Cause(code="two-clocks")
_ROUNDED_NS = 2 * 10**6  # milliseconds are rounded, and so are the anchors of the clocks
_WORDS = {
    "changed": "read with a timestamp that is not the one sent",
    "answered": "answered with a timestamp that is not the record's",
    "out-of-time": "stamped by the broker outside the time between send and acknowledgement",
    "backwards": "appended with an earlier timestamp than the record before",
}


class TimestampRow(TypedDict):
    """A value or an offset with a wrong timestamp."""

    run: int
    partition_id: int
    value: int
    offset: int | None
    before_ms: int | None
    now_ms: int
    invoked_ns: int | None
    completed_ns: int | None
    leader_epoch: int | None
    epoch_before: int | None
    kind: str
    total: int


ANSWER = RowsOf(CHECK, TimestampRow)
_Key = tuple[int, str, Cause]  # partition, kind, and what explains it
_Groups = dict[_Key, list[TimestampRow]]


def query(runs: JudgedRuns) -> list[TimestampRow]:
    if not runs.detection.restamped and not runs.any_was("log_append"):
        return []
    stamped = runs.tables.records.where("timestamp_ms is not null")
    sends = runs.tables.records.where("timestamp_ms is not null or kind = 0")
    columns = ("run", "least_ns", "most_ns")
    clocks = [
        {"run": history.run, "least_ns": history.wall_ns[0], "most_ns": history.wall_ns[1]}
        for history in runs.histories
        if history.wall_ns is not None and history.scenario is not None and history.scenario.cluster.system != ATTACHED
    ]
    sent = sf.expr("kind = 0 and coalesce(acks, -1) <> 0 and timestamp_ms is not null")
    said = sends.groupBy("run", "partition_id", "value").agg(
        sf.min(sf.when(sent, sf.col("timestamp_ms"))).alias("sent_ms"),
        sf.min(sf.when(sent, sf.col("invoked_ns"))).alias("invoked_ns"),
        sf.max(sf.when(sent, sf.col("completed_ns"))).alias("completed_ns"),
        sf.min(sf.when(sent, sf.col("status"))).alias("status"),
        sf.min(sf.when(sf.col("kind") > 0, sf.col("timestamp_ms"))).alias("low_ms"),
        sf.max(sf.when(sf.col("kind") > 0, sf.col("timestamp_ms"))).alias("high_ms"),
        sf.max(sf.when(sf.col("kind") > 0, sf.col("offset"))).alias("offset"),
        sf.bool_or("log_append").alias("log_append"),
        sf.count_if(sf.col("kind") == KIND_SEND).alias("sends"),
    )
    # For a send without an answer only the client's timestamp is known, which the broker's replaces.
    unanswered = "status <> 0 and log_append"
    again = (
        f"not log_append and low_ms <= sent_ms and low_ms * 1000000 >= invoked_ns + least_ns - {_ROUNDED_NS} "
        f"and sent_ms * 1000000 <= completed_ns + most_ns + {_ROUNDED_NS}"
    )
    lawful = f"coalesce({unanswered}, false) or coalesce({again}, false)"
    changed = f"low_ms <> high_ms or (sent_ms <> low_ms and not ({lawful}))"
    outside = (
        f"log_append and (high_ms * 1000000 < invoked_ns + least_ns - {_CLOCKS_NS} "
        f"or (status = 0 and low_ms * 1000000 > completed_ns + most_ns + {_CLOCKS_NS}))"
    )
    kind = f"case when coalesce({changed}, false) then 'changed' when coalesce({outside}, false) then 'out-of-time' end"
    values = (
        # What an application sends again under one value has a timestamp for each time.
        said.where("sends <= 1")
        .join(sf.broadcast(runs.frame(columns, clocks)), "run", "left")
        .selectExpr(
            "run",
            "partition_id",
            "value",
            "offset",
            "sent_ms as before_ms",
            "if(low_ms = sent_ms, high_ms, low_ms) as now_ms",
            "invoked_ns",
            "completed_ns",
            "cast(null as int) as leader_epoch",
            "cast(null as int) as epoch_before",
            f"{kind} as kind",
        )
        .where("kind is not null")
    )
    final = (
        stamped.where("kind = 2 and replica is null and log_append")
        .groupBy("run", "partition_id", "offset")
        .agg(
            sf.max("timestamp_ms").alias("now_ms"),
            sf.max("leader_epoch").alias("leader_epoch"),
            sf.max("value").alias("value"),
            sf.min("invoked_ns").alias("invoked_ns"),
            sf.max("completed_ns").alias("completed_ns"),
        )
    )
    order = "partition by run, partition_id order by offset"
    backwards = (
        final.selectExpr(
            "*", f"lag(now_ms) over ({order}) as before_ms", f"lag(leader_epoch) over ({order}) as epoch_before"
        )
        .where("now_ms < before_ms")
        .withColumn("kind", sf.lit("backwards"))
    )
    rows = values.unionByName(backwards.select(values.columns))
    totals = "count(*) over (partition by run, partition_id, kind, leader_epoch <=> epoch_before) as total"
    return typed(TimestampRow, rows.selectExpr("*", totals).limit(_ROWS_MAX).toArrow())


def find(context: RunContext) -> list[Finding]:
    groups: _Groups = {}
    for row in sorted(context.rows[ANSWER], key=lambda row: (row["partition_id"], row["kind"], row["offset"] or 0)):
        groups.setdefault((row["partition_id"], _kind(context, row), _cause(context, row)), []).append(row)
    return [_finding(context, *key, rows, _total(groups, key)) for key, rows in groups.items()]


def _cause(context: RunContext, row: TimestampRow) -> Cause:
    history = context.history
    if row["kind"] != "backwards":
        return NOTHING_PERMITS_IT
    if row["leader_epoch"] != row["epoch_before"]:
        return _TWO_CLOCKS
    if context.partition(row["partition_id"]).is_foreign:
        return Cause(code="clock-in-doubt", doubt=Doubt(code="clock-in-doubt"))
    by_ns = ((row["before_ms"] or 0) - row["now_ms"]) * 10**6
    return Cause(code="clock-set-back") if clock_explains(by_ns, history.set_back_ns) else NOTHING_PERMITS_IT


def clock_explains(by_ns: int, set_back_ns: int) -> bool:
    """Whether times that go back by so much may be of a clock that was seen to be set back by that much."""
    return set_back_ns > 0 and by_ns <= set_back_ns + _ROUNDED_NS


def _kind(context: RunContext, row: TimestampRow) -> str:
    """Clients run on this machine: what they set lies within their own send by its clock."""
    wall, before_ms, now_ms = context.history.wall_ns, row["before_ms"], row["now_ms"]
    invoked_ns, completed_ns = row["invoked_ns"], row["completed_ns"]
    if row["kind"] != "changed" or wall is None or None in (before_ms, invoked_ns, completed_ns):
        return row["kind"]
    assert before_ms is not None
    assert invoked_ns is not None
    assert completed_ns is not None
    earliest_ns, latest_ns = invoked_ns + wall[0], completed_ns + wall[1]

    def outside_ns(time_ms: int) -> int:
        return max(0, earliest_ns - time_ms * 10**6, time_ms * 10**6 - latest_ns)

    own_ns = outside_ns(now_ms)
    return "answered" if own_ns <= _CLOCKS_NS and outside_ns(before_ms) > own_ns + _ROUNDED_NS else "changed"


def _total(groups: _Groups, key: _Key) -> int:
    """Counted by the query, where its kind was not parted in two."""
    partition_id, kind, cause = key
    other = {"answered": "changed", "changed": "answered"}.get(kind)
    is_parted = (other is not None and (partition_id, other, cause) in groups) or any(
        each != key and each[:2] == key[:2] and _TWO_CLOCKS not in (each[2], cause) for each in groups
    )
    return len(groups[key]) if is_parted else groups[key][0]["total"]


def _finding(
    context: RunContext, partition_id: int, kind: str, cause: Cause, rows: Sequence[TimestampRow], count: int
) -> Finding:
    history = context.partition(partition_id)
    classification: Class = "violation" if cause == NOTHING_PERMITS_IT else "observation"
    first = rows[0]
    sentence = (
        f"{plural(count, 'record')} of {history.name} (at {ranges(row['offset'] for row in rows)}) "
        f"{plural(count, 'was')} {_WORDS[kind]} (first {first['now_ms']} ms, where {_against(kind, first)}): "
        f"{cause_words(cause)}."
    )
    return Finding(
        run=context.run,
        check=CHECK,
        classification=classification,
        kind=f"{kind}-across-leaders" if cause == _TWO_CLOCKS else kind,
        topic=history.topic,
        partition=history.partition,
        count=count,
        sentence=sentence,
        cause=cause,
        open_question=cause.doubt is not None,
        epoch=first["leader_epoch"],
        offsets=[row["offset"] for row in rows if row["offset"] is not None],
        values=[row["value"] for row in rows],
        first_ns=min((row["invoked_ns"] for row in rows if row["invoked_ns"] is not None), default=None),
        last_ns=max((row["completed_ns"] for row in rows if row["completed_ns"] is not None), default=None),
        evidence={
            "records": [
                {
                    "offset": row["offset"],
                    "value": row["value"],
                    "before_ms": row["before_ms"],
                    "now_ms": row["now_ms"],
                    "leader_epoch": row["leader_epoch"],
                    "epoch_before": row["epoch_before"],
                }
                for row in rows[:20]
            ]
        },
    )


def _against(kind: str, row: TimestampRow) -> str:
    if kind == "backwards":
        return f"the record before has {row['before_ms']} ms"
    if kind == "answered":
        return f"the broker answered {row['before_ms']} ms"
    return "others read another" if row["before_ms"] is None else f"the producer knows {row['before_ms']} ms"


FAMILY = Family(name=CHECK, find=find, query=query, follows_detection=True)
