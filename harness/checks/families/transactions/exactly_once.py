"""Exactly once (KIP-98, KIP-447): compares the inputs of transactions with their outputs, by input offset.

An output is named after its input record (facts/values.py). In the final log each input record below the group's
certainly committed offset must have one output. Certain is what was answered, and what a fetch lawfully answered.
Twice: it has more. Missing: it has none. Uncommitted: it has an output although the group's offset cannot have passed
it. Not judged: partitions that more than one group processes, groups that do not start at the earliest record, and runs
in which no record is named so, as those of an application. The permitted loss of an output explains that it is missing,
a permitted loss of the group's offsets explains the other two, and so does a log that was lawfully cut below a member's
position, so that it began anew; a missing output may also be where the final read did not get to. Outputs of
transactions that were aborted do not count, those of unknown outcome that only read_uncommitted readers saw neither
count twice nor are missing.
"""

from collections.abc import Mapping, Sequence
from typing import TypedDict

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from harness.checks.contract.coordinators_log import Ruled
from harness.checks.contract.rulings import NOTHING_PERMITS_IT, Cause, CauseCode, Class, Doubt
from harness.checks.explaining.rewinds import Rewind, Rewinds
from harness.checks.families.evidence.missing import cut_journals
from harness.checks.families.groups.group_forgetting import forgetting_ruled
from harness.checks.families.groups.group_offsets import BY_A_DEPOSED, AnsweredOffsets
from harness.checks.families.groups.group_partition import Kept
from harness.checks.families.groups.group_register import members, registers, resets
from harness.checks.families.reads import polls
from harness.checks.families.transactions.isolation import with_outcome
from harness.checks.families.transactions.missing_records import MissingRecords, MissingRow
from harness.checks.families.transactions.transaction_forgetting import TransactionForgetting
from harness.checks.family import Family
from harness.checks.findings import Finding, RunContext
from harness.checks.judged_runs import JudgedRuns
from harness.checks.model.partition_history import PartitionHistory
from harness.checks.wording.causes import cause_words
from harness.checks.wording.words import plural, span_words
from harness.history.schema.client_rows import GROUP_EVENTS, PROCESSES, TRANSACTIONS
from harness.history.schema.cluster_rows import PARTITIONS
from harness.history.schema.column_types import END_OF_TIME_NS
from harness.history.schema.schemas import STATUS_FAIL, STATUS_OK
from harness.history.schema.typed_rows import RowsOf, typed

CHECK = "read-process-write"
# A value of values.encode_output: topic, partition and offset of the input.
_NAME = r"^(.+)-(0|[1-9][0-9]*)-(0|[1-9][0-9]*)/[0-9]+[.][0-9]+$"
_MOVED = ("inconsistent-offsets", "lost-write", "dirty-read")  # families that tell of offsets given twice, and why
_INPUT = ("run", "partition_id", "group", "certain", "possible")
_PLACE = ("run", "topic", "partition", "partition_id")


class _InputRow(TypedDict):
    run: int
    partition_id: int
    group: str
    certain: int
    possible: int


class _FoundRow(_InputRow):
    """Input records of one kind; values: of their outputs."""

    kind: str
    count: int
    low: int
    high: int
    values: list[int]


class _RunRow(TypedDict):
    run: int


class LostOutputRow(MissingRow):
    """A record that was acknowledged as the output of an input, which is said to have none."""

    run: int
    input_tp: int
    input_offset: int


class ReadingRow(TypedDict):
    process: int
    completed_ns: int


class DoubledRow(TypedDict):
    """An input with more than one output; values: of some. readings: by which members of the group were given it."""

    run: int
    partition_id: int
    group: str
    offset: int
    values: list[int]
    readings: list[ReadingRow]


class ProcessedRow(_FoundRow):
    """lost: all acknowledged outputs of `missing` inputs; empty if these never had one. doubled: the inputs of `twice`;
    else empty."""

    lost: list[LostOutputRow]
    doubled: list[DoubledRow]


ANSWER = RowsOf(CHECK, ProcessedRow)


def query(runs: JudgedRuns) -> list[ProcessedRow]:
    """Per input partition and kind: the number of input records, their first and last offset, the outputs' values."""
    inputs = _inputs(runs)
    naming = _runs_that_name(runs) if inputs else frozenset[int]()
    inputs = [each for each in inputs if each["run"] in naming]
    if not inputs:
        return []
    frame = sf.broadcast(runs.frame(_INPUT, inputs))
    read = with_outcome(runs, runs.tables.records.where("kind = 2 and replica is null"))
    outputs = (
        _named(runs, read.where(f"outcome <> {STATUS_FAIL}"))
        .groupBy("run", "partition_id", "offset")
        .agg(
            sf.count_if(sf.col("outcome") == STATUS_OK).alias("outputs"),
            sf.slice(sf.collect_set("value"), 1, 3).alias("values"),
        )
    )
    final = read.where(f"outcome = {STATUS_OK}").select("run", "partition_id", "offset").distinct()
    kinds = (
        "array_compact(array(if(outputs > 1, 'twice', null), "
        "if(outputs is null and offset < certain, 'missing', null), "
        "if(outputs > 0 and offset >= possible, 'uncommitted', null)))"
    )
    wrong = (
        final.join(outputs, ["run", "partition_id", "offset"], "full")
        .join(frame, ["run", "partition_id"])
        .withColumn("kind", sf.explode(sf.expr(kinds)))
    )
    counted = _counted(wrong)
    doubled = _doubled(runs, wrong.where("kind = 'twice'")) if any(row["kind"] == "twice" for row in counted) else {}
    rows: list[ProcessedRow] = [
        {
            **row,
            "lost": [],
            "doubled": doubled.get((row["run"], row["partition_id"]), []) if row["kind"] == "twice" else [],
        }
        for row in counted
    ]
    if not any(row["kind"] == "missing" for row in rows):
        return rows
    return [row for row in rows if row["kind"] != "missing"] + _missing(runs, wrong.where("kind = 'missing'"), rows)


def _doubled(runs: JudgedRuns, inputs: DataFrame) -> dict[tuple[int, int], list[DoubledRow]]:
    """By partition; one group processes each."""
    grouped = [{"run": run, "process": process, "group": group} for (run, process), group in members(runs).items()]
    polls_of_members = (
        runs.tables.records.where("kind = 1")
        .join(sf.broadcast(runs.frame(("run", "process", "group"), grouped)), ["run", "process"])
        .select("run", "partition_id", "group", "offset", "process", "completed_ns")
    )
    found = (
        inputs.select("run", "partition_id", "group", "offset", "values")
        .join(polls_of_members, ["run", "partition_id", "group", "offset"], "left")
        .groupBy("run", "partition_id", "group", "offset")
        .agg(
            sf.first("values").alias("values"),
            sf.expr("collect_set(if(process is null, null, struct(process, completed_ns)))").alias("readings"),
        )
    )
    doubled: dict[tuple[int, int], list[DoubledRow]] = {}
    for row in sorted(typed(DoubledRow, found.toArrow()), key=lambda row: row["offset"]):
        doubled.setdefault((row["run"], row["partition_id"]), []).append(row)
    return doubled


def _missing(runs: JudgedRuns, inputs: DataFrame, counted: Sequence[ProcessedRow]) -> list[ProcessedRow]:
    """The inputs that never had an acknowledged output, then those whose outputs are gone, of each partition."""
    outputs = _acknowledged_outputs(runs, inputs)
    had_one = outputs.selectExpr("run", "input_tp as partition_id", "input_offset as offset").distinct()
    never = _counted(inputs.join(had_one, ["run", "partition_id", "offset"], "left_anti"))
    lost: dict[tuple[int, int], list[LostOutputRow]] = {}
    for output in typed(LostOutputRow, outputs.toArrow()):
        lost.setdefault((output["run"], output["input_tp"]), []).append(output)
    rows: list[ProcessedRow] = [{**row, "lost": [], "doubled": []} for row in never]
    for row in counted:
        own = lost.get((row["run"], row["partition_id"])) if row["kind"] == "missing" else None
        if own:
            offsets = {output["input_offset"] for output in own}
            rows.append({**row, "count": len(offsets), "low": min(offsets), "high": max(offsets), "lost": own})
    return rows


def _counted(wrong: DataFrame) -> list[_FoundRow]:
    found = wrong.groupBy("run", "partition_id", "group", "kind", "certain", "possible").agg(
        sf.count("*").alias("count"),
        sf.min("offset").alias("low"),
        sf.max("offset").alias("high"),
        sf.slice(sf.flatten(sf.collect_list("values")), 1, 200).alias("values"),
    )
    return typed(_FoundRow, found.toArrow())


def _acknowledged_outputs(runs: JudgedRuns, inputs: DataFrame) -> DataFrame:
    """Of LostOutputRow: of these inputs, in a committed transaction or in none."""
    sent = runs.tables.records.where(f"kind = 0 and status = {STATUS_OK}")
    named = _named(runs, sent.withColumn("outcome", sf.lit(STATUS_OK)))
    ends = (
        runs.tables.records.where("kind = 2 and replica is null")
        .groupBy("run", "partition_id")
        .agg(sf.max("offset").alias("final_end"))
    )
    return (
        named.join(sf.broadcast(inputs.select("run", "partition_id", "offset")), ["run", "partition_id", "offset"])
        .selectExpr("run", "partition_id as input_tp", "offset as input_offset", "output_tp as partition_id", "value")
        .join(sent.select("run", *(set(MissingRow.__annotations__) - {"final_end"})), ["run", "partition_id", "value"])
        .join(sf.broadcast(ends), ["run", "partition_id"], "left")
    )


def _inputs(runs: JudgedRuns) -> list[_InputRow]:
    """Partitions whose offsets were sent to transactions, with the least and greatest possible committed offset."""
    begin_at, known = resets(runs), runs.once(registers)
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
            certain = 0 if register is None else register.greatest_committed()
            possible = max((commit.offset for commit in commits), default=0)
            rows.append(
                {"run": run, "partition_id": partition_id, "group": group, "certain": certain, "possible": possible}
            )
    return rows


def _runs_that_name(runs: JudgedRuns) -> frozenset[int]:
    """Those in which outputs name their inputs. What an application writes says nothing of what it read."""
    names = runs.tables.value_names.where(sf.regexp_extract("name", _NAME, 1) != "").select("run").distinct()
    return frozenset(row["run"] for row in typed(_RunRow, names.toArrow()))


def _named(runs: JudgedRuns, records: DataFrame) -> DataFrame:
    """Outputs among these rows, by partition and offset of their inputs; each once, even if read several times."""
    named = runs.tables.value_names.select(
        "run",
        "value",
        sf.regexp_extract("name", _NAME, 1).alias("topic"),
        sf.expr(f"try_cast(regexp_extract(name, r'{_NAME}', 2) as int)").alias("partition"),
        sf.expr(f"try_cast(regexp_extract(name, r'{_NAME}', 3) as bigint)").alias("offset"),
    ).where("partition is not null")
    return (
        records.selectExpr("run", "value", "partition_id as output_tp", "offset as output_off", "outcome")
        .join(named, ["run", "value"])
        .join(sf.broadcast(runs.frame(_PLACE, runs.rows(PARTITIONS))), ["run", "topic", "partition"])
        .select("run", "partition_id", "offset", "value", "output_tp", "output_off", "outcome")
        .distinct()
    )


_WORDS: Mapping[str, str] = {
    "twice": "more than one output in the final log",
    "missing": "no output in the final log, although the group's offset passed them",
    "uncommitted": "an output in the final log, although the group's offset cannot have passed them",
}


def find(context: RunContext) -> list[Finding]:
    found = []
    records = MissingRecords(context)
    for row in sorted(context.rows[ANSWER], key=lambda row: (row["partition_id"], row["kind"])):
        if row["kind"] != "missing":
            found += _twice_or_uncommitted(context, row)
        elif row["lost"]:
            found += _lost(context, row, records)
        else:
            found.append(_finding(context, row, *_or_what_explains_it(context, row, _without_output(context, row))))
    return found


def _twice_or_uncommitted(context: RunContext, row: ProcessedRow) -> list[Finding]:
    place = context.partition(row["partition_id"])
    kept = Kept(group=row["group"], partition=place, sent_ns=0, stored_ns=0, gone_ns=END_OF_TIME_NS)
    ruled = _told_to_go_back(context, row) or _or_what_explains_it(context, row, forgetting_ruled(context, kept))
    by_a_deposed, others = _answered_by_a_deposed(context, row) if ruled[0] == "violation" else ([], [])
    if not by_a_deposed:
        return [_finding(context, row, *ruled)]
    found = [_finding(context, _only(row, by_a_deposed), "observation", BY_A_DEPOSED)]
    return [*found, _finding(context, _only(row, others), *ruled)] if others else found


def _lost(context: RunContext, row: ProcessedRow, records: MissingRecords) -> list[Finding]:
    """A finding for each thing that became of the outputs."""
    lost: dict[int, list[LostOutputRow]] = {}
    for output in row["lost"]:
        lost.setdefault(output["input_offset"], []).append(output)
    groups: dict[tuple[Class, Cause], list[int]] = {}
    for offset, outputs in lost.items():
        if not all(records.removed(output) for output in outputs):
            groups.setdefault(records.ruled(outputs), []).append(offset)
    found = []
    for (classification, cause), offsets in sorted(groups.items(), key=lambda group: min(group[1])):
        values = [output["value"] for offset in sorted(offsets) for output in lost[offset]]
        own: ProcessedRow = {
            **row,
            "count": len(offsets),
            "low": min(offsets),
            "high": max(offsets),
            "values": values[:200],
        }
        found.append(_finding(context, own, classification, cause))
    return found


def _finding(context: RunContext, row: ProcessedRow, classification: Class, cause: Cause) -> Finding:
    history, count = context.partition(row["partition_id"]), row["count"]
    sentence = (
        f"{plural(count, 'record')} of {history.name} ({span_words(row['low'], row['high'])}) {plural(count, 'has')} "
        f"{_WORDS[row['kind']]} (group {row['group']} committed {row['certain']}): {cause_words(cause)}."
    )
    return Finding(
        run=context.run,
        check=CHECK,
        classification=classification,
        kind=row["kind"],
        topic=history.topic,
        partition=history.partition,
        count=count,
        sentence=sentence,
        cause=cause,
        open_question=classification == "observation",
        offsets=[row["low"], row["high"]],
        values=row["values"] or (),
        evidence={"group": row["group"], "committed": row["certain"], "committed_at_most": row["possible"]},
    )


def _or_what_explains_it(context: RunContext, row: ProcessedRow, ruled: tuple[Class, Cause]) -> tuple[Class, Cause]:
    """Its inputs are others than those that an output was made of, in a log that was cut meanwhile, or were read again,
    as the log had been cut below the reader's position; or coordinators lawfully forgot what became of the outputs."""
    if ruled[0] != "violation":
        return ruled
    place, span = context.partition(row["partition_id"]), range(row["low"], row["high"] + 1)
    losses = [loss for check in _MOVED for loss in context.found.get(check, ()) if _is_at(loss, place)]
    moved = {offset: loss for loss in losses for offset in loss.offsets if offset in span}
    again: dict[int, Finding | Rewind] = {}
    if row["kind"] == "twice":
        again = {**_begun_below(context, row), **_read_again(context, row)}
    if len(moved) >= row["count"] or all(offset in moved or offset in again for offset in span):
        by = [*moved.values(), *again.values()]
        if all(each.classification != "violation" for each in by):
            doubt = next((Doubt(code="inputs-moved") for each in by if each.classification != "permitted"), None)
            code: CauseCode = "inputs-moved" if moved else "inputs-read-again"
            return "observation" if doubt else "permitted", Cause(code=code, doubt=doubt, partitions=(place.name,))
    forgetting = TransactionForgetting.of(context)
    own = [each for each in context.tables[TRANSACTIONS] if each["group"] == row["group"]]
    forgotten = (forgetting.ruled(each, END_OF_TIME_NS) for each in own)
    return next((each for each in forgotten if each is not None), ruled)


def _told_to_go_back(context: RunContext, row: ProcessedRow) -> Ruled | None:
    """Why the members that read all these inputs again had lawfully been told an offset that does not pass them."""
    by = AnsweredOffsets(context, row["group"], context.partition(row["partition_id"]))
    found: list[Ruled] = []
    for each in row["doubled"]:
        told = (by.below_what_was_lost(one["process"], one["completed_ns"], each["offset"]) for one in each["readings"])
        ruled = next((one for one in told if one is not None), None)
        if ruled is None:
            return None
        found.append(ruled)
    return found[0] if found else None


def _answered_by_a_deposed(context: RunContext, row: ProcessedRow) -> tuple[list[DoubledRow], list[DoubledRow]]:
    """The inputs that a member read again where a replaced coordinator may have told it to go on; and the others."""
    by = AnsweredOffsets(context, row["group"], context.partition(row["partition_id"]))
    by_a_deposed: list[DoubledRow] = []
    others: list[DoubledRow] = []
    for each in row["doubled"]:
        (by_a_deposed if _was_read_again(context, each, by) else others).append(each)
    return by_a_deposed, others


def _was_read_again(context: RunContext, row: DoubledRow, by: AnsweredOffsets) -> bool:
    """Whether it had been read before such an answer, as far as the members' journals tell, and was by that answer."""
    for reading in row["readings"]:
        answer = by.by_a_deposed(reading["process"], reading["completed_ns"])
        if answer is not None and (answer["told"] or 0) <= row["offset"]:
            was_read = any(each["completed_ns"] <= answer["completed_ns"] for each in row["readings"])
            if was_read or cut_journals(context):
                return True
    return False


def _only(row: ProcessedRow, doubled: Sequence[DoubledRow]) -> ProcessedRow:
    values = [value for each in doubled for value in each["values"]]
    low, high = doubled[0]["offset"], doubled[-1]["offset"]
    return {**row, "count": len(doubled), "low": low, "high": high, "values": values[:200]}


def _read_again(context: RunContext, row: ProcessedRow) -> dict[int, Finding]:
    """The offsets below a position that a member of the group went back from, and what was found of that."""
    place = context.partition(row["partition_id"])
    members = {each["process"] for each in context.tables[PROCESSES] if each["group"] == row["group"]}
    found = [each for each in context.found.get(polls.NAME, ()) if each.kind == "external" and _is_at(each, place)]
    return {
        offset: each
        for jump in context.rows[polls.ANSWER]
        if jump["partition_id"] == row["partition_id"] and members & set(jump["readers"])
        for each in found
        if jump["value"] in each.values and jump["offset"] < jump["position"]
        for offset in range(max(jump["offset"], row["low"]), min(jump["position"], row["high"] + 1))
    }


def _begun_below(context: RunContext, row: ProcessedRow) -> dict[int, Rewind]:
    """The offsets that a member was given below where the group's offset told it to go on, and why the log's end may
    have been below that."""
    place, rewinds = context.partition(row["partition_id"]), Rewinds(context)
    own = [
        event
        for event in context.tables[GROUP_EVENTS]
        if (event["group"], event["topic"], event["partition"]) == (row["group"], place.topic, place.partition)
        and event["status"] == STATUS_OK
        and event["offset"] is not None
    ]
    found: dict[int, Rewind] = {}
    for each in row["doubled"]:
        for reading in each["readings"]:
            began = max(
                (
                    event
                    for event in own
                    if event["process"] == reading["process"]
                    and event["event"] in ("fetched", "seek")
                    and event["completed_ns"] <= reading["completed_ns"]
                ),
                key=lambda event: event["completed_ns"],
                default=None,
            )
            position = -1 if began is None or began["event"] == "seek" else began["offset"] or -1
            if began is None or position <= each["offset"]:
                continue
            commits = (
                event["invoked_ns"]
                for event in own
                if (event["event"], event["offset"]) == ("committed", position)
                and event["invoked_ns"] <= began["completed_ns"]
            )
            since_ns = min(commits, default=began["invoked_ns"])
            rewind = rewinds.under_a_position(place, position, since_ns=since_ns, until_ns=reading["completed_ns"])
            if rewind is not None:
                found[each["offset"]] = rewind
    return found


def _is_at(loss: Finding, place: PartitionHistory) -> bool:
    return (loss.topic, loss.partition) == (place.topic, place.partition)


def _without_output(context: RunContext, row: ProcessedRow) -> tuple[Class, Cause]:
    """Class and cause for inputs of which no output was acknowledged."""
    history = context.partition(row["partition_id"])
    others = [other for other in context.history.partitions.values() if other is not history]
    if any(other.deletion is not None for other in others):
        doubt = Doubt(code="outputs-gone-with-a-topic")
        return "observation", Cause(code="outputs-gone-with-a-topic", doubt=doubt)
    unread = [other.name for other in others if not other.read_to_end]
    if unread:
        doubt = Doubt(code="outputs-not-read", partitions=tuple(sorted(unread)[:3]))
        return "observation", Cause(code="outputs-not-read", doubt=doubt)
    return "violation", NOTHING_PERMITS_IT


FAMILY = Family(name=CHECK, find=find, query=query)
