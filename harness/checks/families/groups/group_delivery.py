"""Group delivery: compares what a group's members read with what the group had committed.

Redelivered after commit: a member read a record below the offset that was certainly committed before its assignment
began. At-least-once allows a second delivery only of uncommitted records, unless the group lawfully forgot the offset
(group_forgetting.py), or an election took the log's end below it. Redelivered: two members of a group read a
record; counted, by what was committed when the last of them read it. Skipped: the committed offset passed records of
the final log that no member ever read; only a member that read them may commit an offset beyond them. Ahead: an offset
was committed beyond everything the group had read until then, and the records between were read later.
Offsets that a member seeks to, and commits afterwards, are not judged. Not judged as skipped: groups that do not start
at the earliest record, and runs in which no read of any group's member was recorded.
"""

from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from harness.checks.contract.rulings import Cause, CauseCode, Class
from harness.checks.families.groups.delivery_rows import (
    NO_TIMES,
    AfterCommitRow,
    AheadRow,
    CommitTimes,
    DeliveryRow,
    LateRow,
    SpanRow,
    StartRow,
    StepRow,
    TwiceRow,
)
from harness.checks.families.groups.group_register import Key, Register, members, registers, resets
from harness.checks.families.groups.redelivered_after_commit import after_commit_ruled
from harness.checks.families.groups.skipped_records import skipped, skipped_ruled
from harness.checks.family import Family
from harness.checks.findings import Finding, RunContext
from harness.checks.judged_runs import JudgedRuns, PlacedEvent
from harness.checks.wording.causes import cause_words
from harness.checks.wording.words import plural, span_words
from harness.history.schema.typed_rows import RowsOf, typed

CHECK = "group-delivery"
_MEMBER = ("run", "process", "group")
_SPAN = ("run", "partition_id", "group", "process", "assignment", "low", "high", "time_ns")
_STEPS = ("run", "partition_id", "group", "time_ns", "reached", "offset")
_COMMITTED = ("run", "partition_id", "group", "time_ns", "least", "most")
# Why a record was delivered to a second member, by what was committed at that time.
_CAUSES: Mapping[str, CauseCode] = {
    "uncommitted": "redelivered-uncommitted",
    "unknown": "redelivered-unknown",
    "held-on": "redelivered-held-on",
    "sought": "redelivered-sought",
    "after-commit": "redelivered-after-commit",
}
_READ_LATER: CauseCode = "committed-before-it-was-read"


ANSWER = RowsOf(CHECK, DeliveryRow)


def query(runs: JudgedRuns) -> list[DeliveryRow]:
    grouped = members(runs)
    if not grouped:
        return []
    rows = [{"run": run, "process": process, "group": group} for (run, process), group in grouped.items()]
    frame = sf.broadcast(runs.frame(_MEMBER, rows))
    polls = runs.tables.records.where("kind = 1").join(frame, ["run", "process"])
    known = runs.once(registers)
    began = polls.groupBy("run", "partition_id", "group", "process", "assignment").agg(
        sf.min("offset").alias("low"),
        sf.max("offset").alias("high"),
        sf.min("invoked_ns").alias("time_ns"),
        sf.min("completed_ns").alias("heard"),
        sf.max("completed_ns").alias("until"),
    )
    starts = typed(StartRow, began.toArrow())
    after_commit = _after_commit(runs, polls, known, starts)
    return [
        *_redelivered(runs, polls, known, after_commit),
        *after_commit,
        *skipped(runs, polls, known, starts),
        *_ahead(runs, polls, known),
    ]


# ---- delivered again ------------------------------------------------------------------------------------------------


def _redelivered(
    runs: JudgedRuns, polls: DataFrame, known: Mapping[Key, Register], after_commit: Sequence[DeliveryRow]
) -> list[DeliveryRow]:
    """Per group, partition and reason: records that more than one member read."""
    steps = [
        {
            "run": run,
            "partition_id": partition_id,
            "group": group,
            "time_ns": t,
            "least": -1 if least is None else least,
            "most": most,
        }
        for (run, group, partition_id), register in known.items()
        for t, least, most in register.steps()
    ]
    twice = (
        polls.groupBy("run", "partition_id", "group", "offset")
        .agg(
            sf.min("process").alias("one"),
            sf.max("process").alias("other"),
            sf.max("invoked_ns").alias("time_ns"),
            sf.max("completed_ns").alias("heard"),
            sf.max_by(sf.struct("process", "assignment"), "invoked_ns").alias("whose"),
        )
        .where("one <> other")
    )
    so_far = "partition by run, partition_id, group order by time_ns range between unbounded preceding and current row"
    seen = "case when had > offset then 'held-on' when may > offset then 'unknown' else 'uncommitted' end"
    found = (
        twice.unionByName(runs.frame(_COMMITTED, steps), allowMissingColumns=True)
        .selectExpr("*", f"last(least, true) over ({so_far}) as had", f"last(most, true) over ({so_far}) as may")
        .where("offset is not null")
        .withColumn("seen", sf.expr(seen))
        .groupBy("run", "partition_id", "group", "whose", "seen")
        .agg(
            sf.count("*").alias("count"),
            sf.min("offset").alias("low"),
            sf.max("offset").alias("high"),
            sf.min("heard").alias("invoked_ns"),
            sf.max("heard").alias("completed_ns"),
            sf.max("had").alias("committed"),
        )
    )
    broken = {
        (row["run"], row["partition_id"], row["group"], row["process"], row["assignment"]) for row in after_commit
    }
    sought = _own_events(runs, "seek")
    merged: dict[tuple[int, int, str, str], DeliveryRow] = {}
    for row in typed(TwiceRow, found.toArrow()):
        process, assignment = row["whose"]["process"], row["whose"]["assignment"]
        why = row["seen"]
        if why == "held-on" and (row["run"], process, row["partition_id"]) in sought:
            why = "sought"
        elif why == "held-on" and (row["run"], row["partition_id"], row["group"], process, assignment) in broken:
            why = "after-commit"
        key = (row["run"], row["partition_id"], row["group"], why)
        delivery: DeliveryRow = {
            "run": row["run"],
            "partition_id": row["partition_id"],
            "group": row["group"],
            "kind": "at-least-once",
            "count": row["count"],
            "low": row["low"],
            "last": row["high"],
            "high": row["high"],
            "process": process,
            "assignment": None,
            "first_ns": row["invoked_ns"],
            "last_ns": row["completed_ns"],
            "why": why,
            "committed": row["committed"],
            **NO_TIMES,
            "operations": [],
            "values": [],
        }
        merged[key] = _merged(delivery, merged.get(key))
    return list(merged.values())


def _merged(row: DeliveryRow, other: DeliveryRow | None) -> DeliveryRow:
    if other is None:
        return row
    return {
        **row,
        "count": row["count"] + other["count"],
        "low": min(row["low"], other["low"]),
        "high": max(row["high"], other["high"]),
        "last": max(row["last"], other["last"]),
        "first_ns": min(row["first_ns"], other["first_ns"]),
        "last_ns": max(row["last_ns"], other["last_ns"]),
        "committed": max((each for each in (row["committed"], other["committed"]) if each is not None), default=None),
        "process": None,
    }


def _own_events(runs: JudgedRuns, *wanted: str) -> dict[tuple[int, int, int], list[PlacedEvent]]:
    own: dict[tuple[int, int, int], list[PlacedEvent]] = {}
    for event in runs.group_events():
        if event["event"] in wanted:
            own.setdefault((event["run"], event["process"], event["partition_id"]), []).append(event)
    return own


def _after_commit(
    runs: JudgedRuns, polls: DataFrame, known: Mapping[Key, Register], starts: Sequence[StartRow]
) -> list[DeliveryRow]:
    """Assignments that read below the offset certainly committed before they began, with the number of such reads."""
    own = _own_events(runs, "assigned", "seek")
    spans: list[StartRow] = []
    times: dict[tuple[int, int, str, int, int], CommitTimes] = {}
    for row in starts:
        register = known.get((row["run"], row["group"], row["partition_id"]))
        events = [
            e for e in own.get((row["run"], row["process"], row["partition_id"]), ()) if e["invoked_ns"] <= row["until"]
        ]
        if register is None or any(event["event"] == "seek" for event in events):
            continue
        # A member learns its partitions in a poll: that of its first records, or an earlier one.
        invoked = [event["invoked_ns"] for event in events if event["invoked_ns"] <= row["heard"]]
        began = min([row["time_ns"], *invoked[-1:]])
        committed = register.least_at(began)
        if committed is not None and row["low"] < committed:
            spans.append({**row, "high": committed, "time_ns": began})
            last = register.last_before(began)
            key = row["run"], row["partition_id"], row["group"], row["process"], row["assignment"]
            times[key] = {
                "committed_sent": None if last is None else last.invoked_ns,
                "committed_ns": None if last is None else last.completed_ns,
                "shown_ns": register.still_shown(last, began),
                "assigned_ns": began,
                "started_ns": row["heard"],
                "reread_ns": None,
            }
    if not spans:
        return []
    inside = polls.join(
        sf.broadcast(runs.frame(_SPAN, spans).drop("low", "time_ns")),
        ["run", "partition_id", "group", "process", "assignment"],
    ).where("offset < high")
    found = inside.groupBy("run", "partition_id", "group", "process", "assignment", "high").agg(
        sf.count("*").alias("count"),
        sf.min("offset").alias("low"),
        sf.max("offset").alias("last"),
        sf.min("invoked_ns").alias("invoked_ns"),
        sf.max("completed_ns").alias("completed_ns"),
        sf.min("completed_ns").alias("reread_ns"),
        sf.slice(sf.collect_set("operation"), 1, 20).alias("operations"),
    )
    return [
        {
            "run": row["run"],
            "partition_id": row["partition_id"],
            "group": row["group"],
            "kind": "after-commit",
            "count": row["count"],
            "low": row["low"],
            "last": row["last"],
            "high": row["high"],
            "process": row["process"],
            "assignment": row["assignment"],
            "first_ns": row["invoked_ns"],
            "last_ns": row["completed_ns"],
            "why": "",
            "committed": None,
            "operations": row["operations"],
            "values": [],
            **times[row["run"], row["partition_id"], row["group"], row["process"], row["assignment"]],
            "reread_ns": row["reread_ns"],
        }
        for row in typed(AfterCommitRow, found.toArrow())
    ]


# ---- committed ahead of what was read -------------------------------------------------------------------------------


def _ahead(runs: JudgedRuns, polls: DataFrame, known: Mapping[Key, Register]) -> list[DeliveryRow]:
    """Commits beyond all offsets that the group's members had read, or started at, when the commit was answered."""
    spans: list[SpanRow] = []
    commits: list[StepRow] = []
    positions: list[StepRow] = []
    for (run, group, partition_id), register in known.items():
        commits += [
            {
                "run": run,
                "partition_id": partition_id,
                "group": group,
                "time_ns": commit.completed_ns,
                "offset": commit.offset,
                "reached": None,
            }
            for commit in register.commits
            if commit.certain
        ]
    for event in runs.group_events():
        offset = event["offset"]
        if offset is None or offset < 0 or event["event"] not in ("assigned", "fetched", "seek"):
            continue
        if event["group"]:
            positions.append(
                {
                    "run": event["run"],
                    "partition_id": event["partition_id"],
                    "group": event["group"],
                    "time_ns": event["invoked_ns"],
                    "reached": offset - 1,
                    "offset": None,
                }
            )
    if not commits:
        return []
    read = polls.groupBy("run", "partition_id", "group", "operation").agg(
        sf.min("invoked_ns").alias("time_ns"),
        sf.max("offset").alias("reached"),
        sf.lit(None).cast("bigint").alias("offset"),
    )
    steps = read.select(*_STEPS).unionByName(runs.frame(_STEPS, [*commits, *positions]))
    so_far = "partition by run, partition_id, group order by time_ns range between unbounded preceding and current row"
    found_late = (
        steps.selectExpr("*", f"max(reached) over ({so_far}) as had")
        .where("offset is not null and offset > coalesce(had, -1) + 1")
        .select("run", "partition_id", "group", "time_ns", "offset", "had")
    )
    starts = resets(runs)
    for row in typed(LateRow, found_late.toArrow()):
        if row["had"] is None and starts.get((row["run"], row["group"])) != "earliest":
            continue  # the group's start is unknown
        low = 0 if row["had"] is None else row["had"] + 1
        spans.append(
            {
                "run": row["run"],
                "partition_id": row["partition_id"],
                "group": row["group"],
                "process": None,
                "assignment": None,
                "low": low,
                "high": row["offset"],
                "time_ns": row["time_ns"],
            }
        )
    if not spans:
        return []
    later = polls.select("run", "partition_id", "group", "offset").distinct()
    found = (
        later.join(sf.broadcast(runs.frame(_SPAN, spans)), ["run", "partition_id", "group"])
        .where("offset >= low and offset < high")
        .groupBy("run", "partition_id", "group")
        .agg(
            sf.countDistinct("offset").alias("count"),
            sf.min("offset").alias("low"),
            sf.max("offset").alias("last"),
            sf.max("high").alias("high"),
            sf.min("time_ns").alias("time_ns"),
        )
    )
    return [
        {
            "run": row["run"],
            "partition_id": row["partition_id"],
            "group": row["group"],
            "kind": "ahead",
            "count": row["count"],
            "low": row["low"],
            "last": row["last"],
            "high": row["high"],
            "process": None,
            "assignment": None,
            "first_ns": row["time_ns"],
            "last_ns": row["time_ns"],
            "why": "",
            "committed": None,
            **NO_TIMES,
            "operations": [],
            "values": [],
        }
        for row in typed(AheadRow, found.toArrow())
    ]


# ---- in words -------------------------------------------------------------------------------------------------------


def find(context: RunContext) -> list[Finding]:
    rows = context.rows[ANSWER]
    ruled = [(row, *_ruled(context, row)) for row in rows if row["kind"] != "skipped"]
    ruled += skipped_ruled(context, (row for row in rows if row["kind"] == "skipped"))
    return [_finding(context, row, classification, cause) for row, classification, cause in sorted(ruled, key=_order)]


def _order(ruled: tuple[DeliveryRow, Class, Cause]) -> tuple[int, str, str, int, str]:
    row = ruled[0]
    return row["partition_id"], row["group"], row["kind"], row["low"], row["why"]


def _ruled(context: RunContext, row: DeliveryRow) -> tuple[Class, Cause]:
    if row["kind"] == "after-commit":
        return after_commit_ruled(context, context.partition(row["partition_id"]), row)
    if row["kind"] == "at-least-once":
        return "observation", Cause(code=_CAUSES[row["why"]])
    return "violation", Cause(code=_READ_LATER)


def _sentence(context: RunContext, row: DeliveryRow, classification: Class, cause: Cause) -> str:
    name, group = context.partition(row["partition_id"]).name, row["group"]
    count, records = row["count"], plural(row["count"], "record")
    span = span_words(row["low"], row["last"])
    if row["kind"] == "after-commit":
        return (
            f"Process {row['process']} of group {group} read {records} of {name} ({span}) although the group had "
            f"committed {row['high']} before its assignment began: {cause_words(cause)}."
        )
    if row["kind"] == "at-least-once":
        return (
            f"{records} of {name} ({span}) {plural(count, 'was')} delivered to more than one member of group {group}: "
            f"{cause_words(cause)}."
        )
    if row["kind"] == "ahead":
        return (
            f"Group {group} committed offset {row['high']} of {name} {context.history.seconds(row['first_ns'])}, "
            f"beyond {records} ({span}) that its members read only later."
        )
    why = "" if classification == "violation" else f": {cause_words(cause)}"
    return (
        f"Group {group} committed offset {row['high']} of {name}, and none of its members ever read {records} below it "
        f"({span}){why}."
    )


def _finding(context: RunContext, row: DeliveryRow, classification: Class, cause: Cause) -> Finding:
    history = context.partition(row["partition_id"])
    # For redelivered records only the least certainly committed offset is known.
    again = row["kind"] == "at-least-once"
    committed = {"committed_at_least": row["committed"]} if again else {"committed": row["high"]}
    return Finding(
        run=context.run,
        check="group-redelivery" if row["kind"] in ("after-commit", "at-least-once") else "group-skip",
        classification=classification,
        kind=row["kind"],
        topic=history.topic,
        partition=history.partition,
        count=row["count"],
        sentence=_sentence(context, row, classification, cause),
        cause=cause,
        open_question=cause.doubt is not None,
        offsets=[row["low"], row["last"]],
        values=row["values"],
        operations=sorted(row["operations"]),
        first_ns=row["first_ns"],
        last_ns=row["last_ns"],
        evidence={"group": row["group"], **committed, "process": row["process"]},
    )


FAMILY = Family(name=CHECK, find=find, query=query)
