"""Exactly once (KIP-98, KIP-447): what was read, processed and written in transactions, input offset by input offset.

An output is named after the input record it was made of (history/values.py). In the final log each input record below
the group's certainly committed offset has one output. Twice: it has more. Missing: it has none. Uncommitted: an output
is there, and the group's offset cannot have passed its input. Not judged: partitions that more than one group
processes, and groups that do not start at the earliest record. Records that were lawfully lost excuse what is missing,
and a lawful loss of the group's offsets what was processed twice.
"""

from collections.abc import Mapping

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from harness.checks.contract import Class
from harness.checks.findings import Finding, RunContext, plural, span_words
from harness.checks.group_offsets import offsets_ruled
from harness.checks.group_register import Key, Register, registers, resets
from harness.checks.runs import Runs
from harness.checks.tables import Row

CHECK = "read-process-write"
# values.encode_output, as Spark reads it
_NAME = r"^(.+)-([0-9]+)-([0-9]+)/[0-9]+[.][0-9]+$"
_INPUT = {"run": pa.int32(), "tp": pa.int32(), "group": pa.string(), "certain": pa.int64(), "possible": pa.int64()}
_PLACE = {"run": pa.int32(), "topic": pa.string(), "part": pa.int32(), "tp": pa.int32()}


def query(runs: Runs) -> list[Row]:
    """Per input partition and kind: how many input records, from which offset to which, and values of their outputs."""
    inputs = _inputs(runs)
    if not inputs:
        return []
    frame = sf.broadcast(runs.frame(_INPUT, inputs))
    outputs = _outputs(runs).groupBy("run", "tp", "off").agg(
        sf.count("*").alias("outputs"), sf.slice(sf.collect_set("value"), 1, 3).alias("values")
    )  # fmt: skip
    final = runs.tables.records.where("kind = 2 and replica is null").select("run", "tp", "off").distinct()
    kind = (
        "case when outputs > 1 then 'twice' when outputs is null and off < certain then 'missing' "
        "when outputs = 1 and off >= possible then 'uncommitted' end"
    )
    found = (
        final.join(outputs, ["run", "tp", "off"], "full")
        .join(frame, ["run", "tp"])
        .withColumn("kind", sf.expr(kind))
        .where("kind is not null")
        .groupBy("run", "tp", "group", "kind", "certain", "possible")
        .agg(sf.count("*").alias("count"), sf.min("off").alias("low"), sf.max("off").alias("high"),
             sf.slice(sf.flatten(sf.collect_list("values")), 1, 200).alias("values"))
    )  # fmt: skip
    return list(found.toArrow().to_pylist())


def _inputs(runs: Runs) -> list[Row]:
    """Partitions whose offsets were sent to transactions, with how far they were committed at the least and most."""
    begin_at = resets(runs)
    by_place: dict[tuple[int, int], list[tuple[Key, Register]]] = {}
    for key, register in registers(runs).items():
        if any(commit.event["txn"] is not None for commit in register.commits):
            by_place.setdefault((key[0], key[2]), []).append((key, register))
    rows: list[Row] = []
    for (run, tp), groups in by_place.items():
        ((_, group, _), register) = groups[0]
        if len(groups) == 1 and begin_at.get((run, group)) == "earliest":
            certain = max((commit.off for commit in register.commits if commit.certain), default=0)
            possible = max(commit.off for commit in register.commits)
            rows.append({"run": run, "tp": tp, "group": group, "certain": certain, "possible": possible})
    return rows


def _outputs(runs: Runs) -> DataFrame:
    """Outputs in the final log, at the partition and offset of their inputs."""
    places = [{name: row[name] for name in _PLACE} for row in runs.rows("partitions")]
    named = runs.tables.value_names.select(
        "run", "value", sf.regexp_extract("text", _NAME, 1).alias("topic"),
        sf.expr(f"try_cast(regexp_extract(text, r'{_NAME}', 2) as int)").alias("part"),
        sf.expr(f"try_cast(regexp_extract(text, r'{_NAME}', 3) as bigint)").alias("off"),
    ).where("part is not null")  # fmt: skip
    return (
        runs.tables.records.where("kind = 2 and replica is null")
        .select("run", "value")
        .join(named, ["run", "value"])
        .join(sf.broadcast(runs.frame(_PLACE, places)), ["run", "topic", "part"])
        .select("run", "tp", "off", "value")
    )


_WORDS: Mapping[str, str] = {
    "twice": "more than one output in the final log",
    "missing": "no output in the final log, although the group's offset passed them",
    "uncommitted": "an output in the final log, although the group's offset cannot have passed them",
}


def find(context: RunContext) -> list[Finding]:
    rows = sorted(context.rows.get(CHECK, ()), key=lambda row: (row["tp"], row["kind"]))
    return [_finding(context, row) for row in rows]


def _finding(context: RunContext, row: Row) -> Finding:
    story, count = context.partition(row["tp"]), row["count"]
    classification, cause = _ruled(context, row)
    sentence = (
        f"{plural(count, 'record')} of {story.name} ({span_words(row['low'], row['high'])}) {plural(count, 'has')} "
        f"{_WORDS[row['kind']]} (group {row['group']} committed {row['certain']}): {cause}."
    )
    return Finding(
        run=context.run, check=CHECK, classification=classification, kind=row["kind"], topic=story.topic,
        part=story.part, count=count, sentence=sentence, cause=cause, offsets=[row["low"], row["high"]],
        values=row["values"] or (), salt=row["group"],
        evidence={"group": row["group"], "committed": row["certain"], "committed_at_most": row["possible"]},
    )  # fmt: skip


def _ruled(context: RunContext, row: Row) -> tuple[Class, str]:
    story = context.partition(row["tp"])
    lost = [loss for loss in context.found.get("lost-write", ()) if loss.classification == "permitted"]
    elsewhere = [loss for loss in lost if loss.topic != story.topic]
    if row["kind"] == "missing" and elsewhere:
        return "permitted", f"outputs were lost by a permitted {elsewhere[0].cause_kind}"
    if row["kind"] != "missing":
        return offsets_ruled(story, 2**62)
    return "violation", "nothing permits it"
