"""Group delivery: what a group's members read, against what the group had committed.

Redelivered after commit: a member read a record below the offset that was certainly committed before its assignment
began. At-least-once allows a second delivery only of what was not committed. Redelivered: two members of a group read
a record; counted, by what had been committed when the last of them did. Skipped: the committed offset passed records of
the final log that no member ever read; an offset beyond them may only be committed by who read them. Ahead: an offset
was committed beyond all that the group had read until then, and records between were read later.
What a member seeks to is its own affair, and so is what it then commits. Not judged as skipped: groups that do not
start at the earliest record.
"""

from collections.abc import Mapping, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from harness.checks.findings import Finding, RunContext
from harness.checks.group_register import Key, Register, members, registers, resets
from harness.checks.rulings import Cause, CauseCode
from harness.checks.runs import Runs
from harness.checks.tables import Row
from harness.checks.wording.causes import cause_words
from harness.checks.wording.words import plural, span_words

CHECK = "group-delivery"
_MEMBER = {"run": pa.int32(), "process": pa.int32(), "group": pa.string()}
_SPAN = {"run": pa.int32(), "tp": pa.int32(), "group": pa.string(), "process": pa.int32(), "assignment": pa.int32(),
         "low": pa.int64(), "high": pa.int64(), "t": pa.int64()}  # fmt: skip
_STEPS = {"run": pa.int32(), "tp": pa.int32(), "group": pa.string(), "t": pa.int64(), "reached": pa.int64(),
          "off": pa.int64()}  # fmt: skip
_COMMITTED = {"run": pa.int32(), "tp": pa.int32(), "group": pa.string(), "t": pa.int64(), "least": pa.int64(),
              "most": pa.int64()}  # fmt: skip
# Why a record was delivered to a second member, by what had been committed when it was.
_CAUSES: Mapping[str, CauseCode] = {
    "uncommitted": "redelivered-uncommitted",
    "unknown": "redelivered-unknown",
    "held-on": "redelivered-held-on",
    "sought": "redelivered-sought",
    "after-commit": "redelivered-after-commit",
}
_DELIVERED_ONCE: CauseCode = "committed-is-delivered-once"
_READ_LATER: CauseCode = "committed-before-it-was-read"
_NEVER_READ: CauseCode = "committed-and-never-read"


def query(runs: Runs) -> list[Row]:
    grouped = members(runs)
    if not grouped:
        return []
    rows = [{"run": run, "process": process, "group": group} for (run, process), group in grouped.items()]
    frame = sf.broadcast(runs.frame(_MEMBER, rows))
    polls = runs.tables.records.where("kind = 1").join(frame, ["run", "process"])
    known = registers(runs)
    starts = (
        polls.groupBy("run", "tp", "group", "process", "assignment")
        .agg(sf.min("off").alias("low"), sf.max("off").alias("high"), sf.min("t0").alias("t"),
             sf.min("t1").alias("heard"), sf.max("t1").alias("until"))
        .toArrow()
        .to_pylist()
    )  # fmt: skip
    after_commit = _after_commit(runs, polls, known, starts)
    return [
        *_redelivered(runs, polls, known, after_commit), *after_commit, *_skipped(runs, polls, known, starts),
        *_ahead(runs, polls, known),
    ]  # fmt: skip


# ---- delivered again ------------------------------------------------------------------------------------------------


def _redelivered(
    runs: Runs, polls: DataFrame, known: Mapping[Key, Register], after_commit: Sequence[Row]
) -> list[Row]:  # fmt: skip
    """Per group, partition and reason: records that more than one member read."""
    steps = [
        {"run": run, "tp": tp, "group": group, "t": t, "least": -1 if least is None else least, "most": most}
        for (run, group, tp), register in known.items()
        for t, least, most in register.steps()
    ]
    twice = (
        polls.groupBy("run", "tp", "group", "off")
        .agg(sf.min("process").alias("one"), sf.max("process").alias("other"), sf.max("t0").alias("t"),
             sf.max("t1").alias("heard"), sf.max_by(sf.struct("process", "assignment"), "t0").alias("whose"))
        .where("one <> other")
    )  # fmt: skip
    so_far = "partition by run, tp, group order by t range between unbounded preceding and current row"
    seen = "case when had > off then 'held-on' when may > off then 'unknown' else 'uncommitted' end"
    found = (
        twice.unionByName(runs.frame(_COMMITTED, steps), allowMissingColumns=True)
        .selectExpr("*", f"last(least, true) over ({so_far}) as had", f"last(most, true) over ({so_far}) as may")
        .where("off is not null")
        .withColumn("seen", sf.expr(seen))
        .groupBy("run", "tp", "group", "whose", "seen")
        .agg(sf.count("*").alias("count"), sf.min("off").alias("low"), sf.max("off").alias("high"),
             sf.min("heard").alias("t0"), sf.max("heard").alias("t1"), sf.max("had").alias("committed"))
    )  # fmt: skip
    broken = {(row["run"], row["tp"], row["group"], row["process"], row["assignment"]) for row in after_commit}
    sought = _own_events(runs, "seek")
    merged: dict[tuple[int, int, str, str], Row] = {}
    for row in found.toArrow().to_pylist():
        process, assignment = row["whose"]["process"], row["whose"]["assignment"]
        why = row["seen"]
        if why == "held-on" and (row["run"], process, row["tp"]) in sought:
            why = "sought"
        elif why == "held-on" and (row["run"], row["tp"], row["group"], process, assignment) in broken:
            why = "after-commit"
        key = (row["run"], row["tp"], row["group"], why)
        merged[key] = _merged({**row, "kind": "at-least-once", "seen": why, "process": process}, merged.get(key))
    return list(merged.values())


def _merged(row: Row, other: Row | None) -> Row:
    if other is None:
        return row
    return {
        **row, "count": row["count"] + other["count"], "low": min(row["low"], other["low"]),
        "high": max(row["high"], other["high"]), "t0": min(row["t0"], other["t0"]), "t1": max(row["t1"], other["t1"]),
        "committed": max((each for each in (row["committed"], other["committed"]) if each is not None), default=None),
        "process": None,
    }  # fmt: skip


def _own_events(runs: Runs, *wanted: str) -> dict[tuple[int, int, int], list[Row]]:
    own: dict[tuple[int, int, int], list[Row]] = {}
    for event in runs.group_events():
        if event["event"] in wanted:
            own.setdefault((event["run"], event["process"], event["tp"]), []).append(event)
    return own


def _after_commit(
    runs: Runs, polls: DataFrame, known: Mapping[Key, Register], starts: Sequence[Row]
) -> list[Row]:  # fmt: skip
    """Assignments that read below what was certainly committed before they began, with how much they read there."""
    own = _own_events(runs, "assigned", "seek")
    spans = []
    for row in starts:
        register = known.get((row["run"], row["group"], row["tp"]))
        events = [e for e in own.get((row["run"], row["process"], row["tp"]), ()) if e["t0"] <= row["until"]]
        if register is None or any(event["event"] == "seek" for event in events):
            continue
        # It is told of its partitions in a poll: in that of its first records, or in one before.
        told = [event["t0"] for event in events if event["t0"] <= row["heard"]]
        began = min([row["t"], *told[-1:]])
        committed = register.least_at(began)
        if committed is not None and row["low"] < committed:
            spans.append({**row, "high": committed, "t": began})
    if not spans:
        return []
    inside = polls.join(sf.broadcast(runs.frame(_SPAN, spans).drop("low", "t")),
                        ["run", "tp", "group", "process", "assignment"]).where("off < high")  # fmt: skip
    found = inside.groupBy("run", "tp", "group", "process", "assignment", "high").agg(
        sf.count("*").alias("count"), sf.min("off").alias("low"), sf.max("off").alias("last"),
        sf.min("t0").alias("t0"), sf.max("t1").alias("t1"), sf.slice(sf.collect_set("op"), 1, 20).alias("ops"),
    )  # fmt: skip
    return [{**row, "kind": "after-commit"} for row in found.toArrow().to_pylist()]


# ---- never delivered ------------------------------------------------------------------------------------------------


def _sought_ahead(runs: Runs, starts: Sequence[Row]) -> set[Key]:
    """Where a member sought to an offset beyond what it had read itself: what it passed is its own affair."""
    ahead: set[Key] = set()
    read: dict[tuple[int, int, int], list[Row]] = {}
    for row in starts:
        read.setdefault((row["run"], row["process"], row["tp"]), []).append(row)
    for place, seeks in _own_events(runs, "seek").items():
        for event in seeks:
            before = [row["high"] for row in read.get(place, ()) if row["t"] <= event["t1"]]
            if (event["off"] or 0) > max(before, default=-1) + 1:
                ahead.add((event["run"], event["group"], event["tp"]))
    return ahead


def _skipped(runs: Runs, polls: DataFrame, known: Mapping[Key, Register], starts: Sequence[Row]) -> list[Row]:
    """Records of the final log below the highest offset that was certainly committed, and read by no member."""
    begin_at, sought = resets(runs), _sought_ahead(runs, starts)
    spans = []
    for (run, group, tp), register in known.items():
        if (run, group, tp) in sought:
            continue
        certain = [commit for commit in register.commits if commit.certain]
        if certain and begin_at.get((run, group)) == "earliest":
            top = max(certain, key=lambda commit: commit.off)
            spans.append({"run": run, "tp": tp, "group": group, "process": top.event["process"], "assignment": None,
                          "low": 0, "high": top.off, "t": top.t1})  # fmt: skip
    if not spans:
        return []
    final = runs.tables.records.where("kind = 2 and replica is null").select("run", "tp", "off", "value")
    passed = final.join(sf.broadcast(runs.frame(_SPAN, spans)), ["run", "tp"]).where("off >= low and off < high")
    read = polls.select("run", "tp", "group", "off").distinct()
    found = (
        passed.join(read, ["run", "tp", "group", "off"], "left_anti")
        .groupBy("run", "tp", "group", "high", "t", "process")
        .agg(sf.countDistinct("off").alias("count"), sf.min("off").alias("low"), sf.max("off").alias("last"),
             sf.slice(sf.collect_set("value"), 1, 200).alias("values"))
    )  # fmt: skip
    return [{**row, "kind": "skipped"} for row in found.toArrow().to_pylist()]


def _ahead(runs: Runs, polls: DataFrame, known: Mapping[Key, Register]) -> list[Row]:
    """Commits beyond everything that the group's members had read, or begun at, when the commit was answered."""
    spans = []
    commits: list[Row] = []
    positions: list[Row] = []
    for (run, group, tp), register in known.items():
        commits += [
            {"run": run, "tp": tp, "group": group, "t": commit.t1, "off": commit.off, "reached": None}
            for commit in register.commits
            if commit.certain
        ]
    for event in runs.group_events():
        told = event["event"] in ("assigned", "fetched", "seek") and event["off"] is not None and event["off"] >= 0
        if told and event["group"]:
            positions.append({"run": event["run"], "tp": event["tp"], "group": event["group"], "t": event["t0"],
                              "reached": event["off"] - 1, "off": None})  # fmt: skip
    if not commits:
        return []
    read = polls.groupBy("run", "tp", "group", "op").agg(
        sf.min("t0").alias("t"), sf.max("off").alias("reached"), sf.lit(None).cast("bigint").alias("off")
    )
    steps = read.select(*_STEPS).unionByName(runs.frame(_STEPS, [*commits, *positions]))
    so_far = "partition by run, tp, group order by t range between unbounded preceding and current row"
    late = (
        steps.selectExpr("*", f"max(reached) over ({so_far}) as had")
        .where("off is not null and off > coalesce(had, -1) + 1")
        .select("run", "tp", "group", "t", "off", "had")
        .toArrow()
        .to_pylist()
    )
    starts = resets(runs)
    for row in late:
        if row["had"] is None and starts.get((row["run"], row["group"])) != "earliest":
            continue  # where the group began nobody told
        low = 0 if row["had"] is None else row["had"] + 1
        spans.append({**row, "process": None, "assignment": None, "low": low, "high": row["off"]})
    if not spans:
        return []
    later = polls.select("run", "tp", "group", "off").distinct()
    found = (
        later.join(sf.broadcast(runs.frame(_SPAN, spans)), ["run", "tp", "group"])
        .where("off >= low and off < high")
        .groupBy("run", "tp", "group")
        .agg(sf.countDistinct("off").alias("count"), sf.min("off").alias("low"), sf.max("off").alias("last"),
             sf.max("high").alias("high"), sf.min("t").alias("t"))
    )  # fmt: skip
    return [{**row, "kind": "ahead"} for row in found.toArrow().to_pylist()]


# ---- in words -------------------------------------------------------------------------------------------------------


def find(context: RunContext) -> list[Finding]:
    rows = sorted(
        context.rows.get(CHECK, ()),
        key=lambda row: (row["tp"], row["group"], row["kind"], row["low"], row.get("seen", "")),
    )
    return [_finding(context, row) for row in rows]


def _finding(context: RunContext, row: Row) -> Finding:
    story = context.partition(row["tp"])
    count, records = row["count"], plural(row["count"], "record")
    check, classification, code = "group-skip", "violation", _NEVER_READ
    if row["kind"] == "after-commit":
        check, code = "group-redelivery", _DELIVERED_ONCE
        sentence = (
            f"Process {row['process']} of group {row['group']} read {records} of {story.name} "
            f"({span_words(row['low'], row['last'])}) although the group had committed {row['high']} before its "
            "assignment began."
        )
    elif row["kind"] == "at-least-once":
        check, classification, code = "group-redelivery", "observation", _CAUSES[row["seen"]]
        sentence = (
            f"{records} of {story.name} ({span_words(row['low'], row['high'])}) {plural(count, 'was')} delivered to "
            f"more than one member of group {row['group']}: {cause_words(Cause(code=code))}."
        )
    elif row["kind"] == "ahead":
        code = _READ_LATER
        sentence = (
            f"Group {row['group']} committed offset {row['high']} of {story.name} {context.story.seconds(row['t'])}, "
            f"beyond {records} ({span_words(row['low'], row['last'])}) that its members read only later."
        )
    else:
        sentence = (
            f"Group {row['group']} committed offset {row['high']} of {story.name}, and none of its members ever read "
            f"{records} below it ({span_words(row['low'], row['last'])})."
        )
    # Of what was delivered again the least that was certainly committed is known.
    committed = {"committed_at_least": row["committed"]} if "committed" in row else {"committed": row["high"]}
    return Finding(
        run=context.run, check=check, classification="violation" if classification == "violation" else "observation",
        kind=row["kind"], topic=story.topic, part=story.part, count=count, sentence=sentence,
        cause=Cause(code=code),
        offsets=[row["low"], row["last" if "last" in row else "high"]], values=row.get("values") or (),
        operations=sorted(row.get("ops") or ()), t_first=row.get("t0", row.get("t")),
        t_last=row.get("t1", row.get("t")),
        evidence={"group": row["group"], **committed, "process": row.get("process")},
    )  # fmt: skip
