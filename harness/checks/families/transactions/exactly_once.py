"""Exactly once (KIP-98, KIP-447): compares the inputs of transactions with their outputs, by input offset.

An output is named after its input record (history/values.py). In the final log each input record below the group's
certainly committed offset must have one output. Twice: it has more. Missing: it has none. Uncommitted: it has an output
although the group's offset cannot have passed it. Not judged: partitions that more than one group processes, and groups
that do not start at the earliest record. Permitted losses of records explain missing outputs, permitted losses of the
group's offsets explain the other two; a missing output may also be where the final read did not get to.
"""

from collections.abc import Mapping
from typing import TypedDict

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from harness.checks.contract.rulings import NOTHING_PERMITS_IT, Cause, Class, Doubt
from harness.checks.families.groups.group_offsets import offsets_ruled
from harness.checks.families.groups.group_register import registers, resets
from harness.checks.findings import Finding, RunContext
from harness.checks.judged_runs import JudgedRuns
from harness.checks.wording.causes import cause_words
from harness.checks.wording.words import plural, span_words
from harness.history.schema.cluster_rows import PARTITIONS
from harness.history.schema.typed_rows import RowsOf, typed

CHECK = "read-process-write"
# values.decode_output, as Spark reads it
_NAME = r"^(.+)-(0|[1-9][0-9]*)-(0|[1-9][0-9]*)/[0-9]+[.][0-9]+$"
_INPUT = {
    "run": pa.int32(),
    "partition_id": pa.int32(),
    "group": pa.string(),
    "certain": pa.int64(),
    "possible": pa.int64(),
}
_PLACE = {"run": pa.int32(), "topic": pa.string(), "partition": pa.int32(), "partition_id": pa.int32()}


class _InputRow(TypedDict):
    run: int
    partition_id: int
    group: str
    certain: int
    possible: int


class ProcessedRow(_InputRow):
    """Input records of one kind; values: of their outputs."""

    kind: str
    count: int
    low: int
    high: int
    values: list[int]


ANSWER = RowsOf(CHECK, ProcessedRow)


def query(runs: JudgedRuns) -> list[ProcessedRow]:
    """Per input partition and kind: the number of input records, their first and last offset, the outputs' values."""
    inputs = _inputs(runs)
    if not inputs:
        return []
    frame = sf.broadcast(runs.frame(_INPUT, inputs))
    outputs = _outputs(runs).groupBy("run", "partition_id", "offset").agg(
        sf.count("*").alias("outputs"), sf.slice(sf.collect_set("value"), 1, 3).alias("values")
    )  # fmt: skip
    final = runs.tables.records.where("kind = 2 and replica is null").select("run", "partition_id", "offset").distinct()
    kinds = (
        "array_compact(array(if(outputs > 1, 'twice', null), "
        "if(outputs is null and offset < certain, 'missing', null), "
        "if(outputs > 0 and offset >= possible, 'uncommitted', null)))"
    )
    found = (
        final.join(outputs, ["run", "partition_id", "offset"], "full")
        .join(frame, ["run", "partition_id"])
        .withColumn("kind", sf.explode(sf.expr(kinds)))
        .groupBy("run", "partition_id", "group", "kind", "certain", "possible")
        .agg(sf.count("*").alias("count"), sf.min("offset").alias("low"), sf.max("offset").alias("high"),
             sf.slice(sf.flatten(sf.collect_list("values")), 1, 200).alias("values"))
    )  # fmt: skip
    return typed(ProcessedRow, found.toArrow())


def _inputs(runs: JudgedRuns) -> list[_InputRow]:
    """Partitions whose offsets were sent to transactions, with the least and greatest possible committed offset."""
    begin_at, known = resets(runs), registers(runs)
    groups: dict[tuple[int, int], set[str]] = {}
    for event in runs.group_events():
        if event["event"] == "committed" and event["transaction"] is not None:
            groups.setdefault((event["run"], event["partition_id"]), set()).add(event["group"])
    rows: list[_InputRow] = []
    for (run, partition_id), own in groups.items():
        group = min(own)
        if len(own) == 1 and begin_at.get((run, group)) == "earliest":
            register = known.get((run, group, partition_id))
            commits = register.commits if register is not None else ()  # none if all were refused
            certain = max((commit.offset for commit in commits if commit.certain), default=0)
            possible = max((commit.offset for commit in commits), default=0)
            rows.append(
                {"run": run, "partition_id": partition_id, "group": group, "certain": certain, "possible": possible}
            )
    return rows


def _outputs(runs: JudgedRuns) -> DataFrame:
    """Outputs in the final log, by partition and offset of their inputs; each once, even if read several times."""
    named = runs.tables.value_names.select(
        "run", "value", sf.regexp_extract("name", _NAME, 1).alias("topic"),
        sf.expr(f"try_cast(regexp_extract(name, r'{_NAME}', 2) as int)").alias("partition"),
        sf.expr(f"try_cast(regexp_extract(name, r'{_NAME}', 3) as bigint)").alias("offset"),
    ).where("partition is not null")  # fmt: skip
    return (
        runs.tables.records.where("kind = 2 and replica is null")
        .selectExpr("run", "value", "partition_id as output_tp", "offset as output_off")
        .join(named, ["run", "value"])
        .join(sf.broadcast(runs.frame(_PLACE, runs.rows(PARTITIONS))), ["run", "topic", "partition"])
        .select("run", "partition_id", "offset", "value", "output_tp", "output_off")
        .distinct()
    )


_WORDS: Mapping[str, str] = {
    "twice": "more than one output in the final log",
    "missing": "no output in the final log, although the group's offset passed them",
    "uncommitted": "an output in the final log, although the group's offset cannot have passed them",
}


def find(context: RunContext) -> list[Finding]:
    rows = sorted(context.rows[ANSWER], key=lambda row: (row["partition_id"], row["kind"]))
    return [_finding(context, row) for row in rows]


def _finding(context: RunContext, row: ProcessedRow) -> Finding:
    history, count = context.partition(row["partition_id"]), row["count"]
    classification, cause = _ruled(context, row)
    sentence = (
        f"{plural(count, 'record')} of {history.name} ({span_words(row['low'], row['high'])}) {plural(count, 'has')} "
        f"{_WORDS[row['kind']]} (group {row['group']} committed {row['certain']}): {cause_words(cause)}."
    )
    return Finding(
        run=context.run, check=CHECK, classification=classification, kind=row["kind"], topic=history.topic,
        partition=history.partition, count=count, sentence=sentence, cause=cause,
        open_question=classification == "observation", offsets=[row["low"], row["high"]],
        values=row["values"] or (),
        evidence={"group": row["group"], "committed": row["certain"], "committed_at_most": row["possible"]},
    )  # fmt: skip


def _ruled(context: RunContext, row: ProcessedRow) -> tuple[Class, Cause]:
    history = context.partition(row["partition_id"])
    lost = [loss for loss in context.found.get("lost-write", ()) if loss.classification == "permitted"]
    elsewhere = [loss for loss in lost if loss.topic != history.topic]
    if row["kind"] == "missing" and elsewhere:
        return "permitted", Cause(code="outputs-lost", by=elsewhere[0].ruling.cause if elsewhere[0].ruling else None)
    if row["kind"] != "missing":
        return offsets_ruled(context.history, history, since=0, until=2**62)
    others = [other for other in context.history.partitions.values() if other is not history]
    if any(other.deletion is not None for other in others):
        doubt = Doubt(code="outputs-gone-with-a-topic")
        return "observation", Cause(code="outputs-gone-with-a-topic", doubt=doubt)
    unread = [other.name for other in others if not other.read_to_end]
    if unread:
        doubt = Doubt(code="outputs-not-read", partitions=tuple(sorted(unread)[:3]))
        return "observation", Cause(code="outputs-not-read", doubt=doubt)
    return "violation", NOTHING_PERMITS_IT
