"""What became of the inputs of an application's flows: who was given them, what was sent for each, what is there.

Inputs and outputs meet by the id of an input (table value_origins), or by their value where no ids were told. What the
group has committed its coordinator's log says: of a partition the last record that held when the check was asked for.
Everything is counted for each id, and only ids that look wrong are answered.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from harness.checks.contract.rulings import DoubtCode
from harness.checks.families.evidence.missing import SENDERS
from harness.checks.families.transactions.isolation import with_outcome
from harness.checks.families.transactions.missing_records import MissingRow
from harness.checks.judged_runs import JudgedRuns, by_run
from harness.checks.model.kept_logs import HeldOffset, committed_until
from harness.history.facts.incarnations import client_name
from harness.history.facts.internal_topics import GROUP_OFFSETS_TOPIC
from harness.history.schema.client_rows import FLOWS, PROCESSES, VALUE_ORIGINS, FlowRow
from harness.history.schema.cluster_rows import PARTITIONS
from harness.history.schema.internal_rows import INTERNAL_SNAPSHOTS
from harness.history.schema.schemas import STATUS_FAIL, STATUS_INFO, STATUS_OK
from harness.history.schema.typed_rows import RowsOf, typed

NAME = "application-flow"
Held = dict[tuple[int, str, str, int], HeldOffset]
_PLACE = ("run", "flow", "partition_id", "is_input", "told", "client_topic", "held")
_SEEN = ("run", "partition_id", "kind", "offset", "value", "process", "transaction", "outcome")


class InputRow(TypedDict):
    """An input's record in the final log, below what the group committed. member: a member of the group was given it;
    else somebody was who may be one."""

    partition_id: int
    offset: int
    value: int
    member: bool


class IdRow(TypedDict):
    """All that is known of one id that looks wrong. origin: null: of records whose id nobody told. inputs: records that
    have it; unnamed: those given to members; outputs, open_outputs: in the final log, of transactions that were not
    aborted; acknowledged, unknown, refused: sends of outputs (those of aborted transactions are refused). passed:
    inputs that need an output."""

    run: int
    flow: int
    origin: int | None
    inputs: int
    outputs: int
    open_outputs: int
    unnamed: int
    acknowledged: int
    unknown: int
    refused: int
    passed: list[InputRow]
    first_partition: int | None
    first_offset: int | None
    values: list[int]
    transactions: list[int]


class OutputRow(MissingRow):
    """An output that was acknowledged, or may have been written, and that the final log lacks."""

    run: int
    flow: int
    origin: int
    status: int


class FoundFlow(TypedDict):
    """group: whose commits count; null: of a doubt, or where nobody committed anything. is_written: a recorded client
    sent outputs, or may have been meant to. lost: of ids in `ids`."""

    run: int
    flow: int
    group: str | None
    doubt: DoubtCode | None
    in_a_transaction: bool
    is_written: bool
    ids: list[IdRow]
    lost: list[OutputRow]


class _SenderRow(TypedDict):
    run: int
    process: int
    partition_id: int


ANSWER = RowsOf(NAME, FoundFlow)


@dataclass(frozen=True, kw_only=True)
class _Judged:
    """One flow, its group, and what that had committed of each partition of the input."""

    flow: FlowRow
    group: str | None
    doubt: DoubtCode | None
    held: dict[int, HeldOffset]  # by partition


def query(runs: JudgedRuns) -> list[FoundFlow]:
    flows = runs.rows(FLOWS)
    if not flows:
        return []
    until: dict[int, int] = {}
    for flow in flows:
        until[flow["run"]] = max(flow["asked_ns"], until.get(flow["run"], flow["asked_ns"]))
    committed = committed_until(runs.tables, until)
    judged = [_judged(runs, flow, committed) for flow in flows]
    known = [each for each in judged if each.doubt is None]
    seen = _seen(runs, known) if known else None
    ids = [] if seen is None else typed(IdRow, _that_look_wrong(seen).toArrow())
    suspected = [row for row in ids if row["passed"] and row["origin"] is not None]
    lost = _missing_outputs(runs, seen, suspected) if seen is not None and suspected else []
    writing = _writing(runs, known) if suspected else frozenset[tuple[int, int]]()
    return [_found(each, ids, lost, writing) for each in judged]


def _found(
    own: _Judged, ids: Sequence[IdRow], lost: Sequence[OutputRow], writing: frozenset[tuple[int, int]]
) -> FoundFlow:
    place = own.flow["run"], own.flow["flow"]
    return {
        "run": place[0],
        "flow": place[1],
        "group": own.group,
        "doubt": own.doubt,
        "in_a_transaction": bool(own.held) and all(each.in_a_transaction for each in own.held.values()),
        "is_written": place in writing,
        "ids": [row for row in ids if (row["run"], row["flow"]) == place],
        "lost": [row for row in lost if (row["run"], row["flow"]) == place],
    }


# ---- whose commits count --------------------------------------------------------------------------------------------


def _judged(runs: JudgedRuns, flow: FlowRow, committed: Held) -> _Judged:
    run = flow["run"]
    held = {
        (group, part): each
        for (of_run, group, topic, part), each in committed.items()
        if of_run == run and topic == flow["input"] and each.offset is not None
    }
    groups = {group for group, _ in held}
    wanted = {flow["group"]} if flow["group"] is not None else groups & _read_for(runs, run) or groups
    doubt: DoubtCode | None = None
    if not any(row["topic"] == GROUP_OFFSETS_TOPIC for row in runs.tables.rows(INTERNAL_SNAPSHOTS, run)):
        doubt = "commits-not-kept"
    elif not wanted & groups:
        doubt = "nothing-committed"
    elif len(wanted) > 1:
        doubt = "several-groups"
    group = min(wanted & groups) if doubt is None else None
    return _Judged(
        flow=flow, group=group, doubt=doubt, held={part: held[own, part] for own, part in held if own == group}
    )


def _read_for(runs: JudgedRuns, run: int) -> set[str | None]:
    return {row["reads_for"] for row in runs.tables.rows(PROCESSES, run) if row["reads_for"]}


# ---- the records of each id -----------------------------------------------------------------------------------------


def _seen(runs: JudgedRuns, flows: Sequence[_Judged]) -> DataFrame:
    """Sends, polls and final reads of inputs and outputs, each with its flow, its id and who read it."""
    records = runs.tables.records
    reads = with_outcome(runs, records.where("kind > 0 and replica is null")).select(*_SEEN)
    sends = records.where("kind = 0").withColumn("outcome", sf.col("status").cast("int")).select(*_SEEN)
    origins = sf.broadcast(
        runs.frame(("run", "topic", "value", "origin"), runs.rows(VALUE_ORIGINS))
        .withColumnRenamed("topic", "client_topic")
        .withColumn("named", sf.lit(True))
    )
    readers = sf.broadcast(runs.frame(("run", "flow", "process", "member"), _readers(runs, flows)))
    return (
        reads.withColumn("outcome", sf.col("outcome").cast("int"))
        .unionByName(sends)
        .join(sf.broadcast(runs.frame(_PLACE, _places(runs, flows))), ["run", "partition_id"])
        .join(origins, ["run", "client_topic", "value"], "left")
        .join(readers, ["run", "flow", "process"], "left")
        .withColumn("known", sf.expr("not told or coalesce(named, false)"))
        .withColumn("origin", sf.expr("if(told, origin, value)"))
        .where("origin is not null or not known")
    )


def _places(runs: JudgedRuns, flows: Sequence[_Judged]) -> list[dict[str, object]]:
    partitions = by_run(runs.rows(PARTITIONS))
    rows: list[dict[str, object]] = []
    for own in flows:
        flow, sides = own.flow, {own.flow["input"]: True, own.flow["output"]: False}
        for place in partitions.get(flow["run"], ()):
            is_input = sides.get(client_name(place["topic"]))
            if is_input is None:
                continue
            held = own.held.get(place["partition"]) if is_input else None
            rows.append(
                {
                    "run": flow["run"],
                    "flow": flow["flow"],
                    "partition_id": place["partition_id"],
                    "is_input": is_input,
                    "told": flow["input_told"] if is_input else flow["output_told"],
                    "client_topic": client_name(place["topic"]),
                    "held": -1 if held is None or held.offset is None else held.offset,
                }
            )
    return rows


def _readers(runs: JudgedRuns, flows: Sequence[_Judged]) -> list[dict[str, object]]:
    """Recorded clients that are members of a flow's group, or may be."""
    return [
        {"run": own.flow["run"], "flow": own.flow["flow"], "process": row["process"], "member": bool(row["reads_for"])}
        for own in flows
        for row in runs.tables.rows(PROCESSES, own.flow["run"])
        if row["role"] != "producer" and row["reads_for"] in (None, own.group)
    ]


def _that_look_wrong(seen: DataFrame) -> DataFrame:
    """Of IdRow."""
    passed = (
        "transform(filter(below, each -> array_contains(given, each) or array_contains(perhaps_given, each)), each -> "
        "named_struct('partition_id', each.partition_id, 'offset', each.offset, 'value', each.value, "
        "'member', array_contains(given, each)))"
    )
    wrong = (
        "size(passed) > 0 or (known and least(outputs, acknowledged + unknown) > greatest(inputs, 1)) "
        "or (of_output > 0 and of_input = 0) or not known"
    )
    return (
        _by_id(seen)
        .withColumn("passed", sf.expr(f"if(outputs = 0, {passed}, array())"))
        .where(wrong)
        .select(
            *("run", "flow", "origin", "inputs", "outputs", "open_outputs", "unnamed"),
            *("acknowledged", "unknown", "refused", "passed"),
            sf.col("first.partition_id").alias("first_partition"),
            sf.col("first.offset").alias("first_offset"),
            "values",
            "transactions",
        )
    )


def _by_id(seen: DataFrame) -> DataFrame:
    """below: inputs in the final log that the group committed past; given, perhaps_given: to members, or to those who
    may be."""
    place, record = "struct(partition_id, offset)", "struct(partition_id, offset, value)"
    of_input, of_output = "known and is_input", "known and not is_input"
    final = "kind = 2 and outcome"
    return seen.groupBy("run", "flow", "origin", "known").agg(
        sf.expr(f"size({_distinct(place, f'{of_input} and kind > 0')})").alias("inputs"),
        sf.count_if(sf.expr("is_input")).alias("of_input"),
        *(
            sf.expr(f"size({_distinct(place, f'{of_output} and {final} = {status}')})").alias(name)
            for name, status in (("outputs", STATUS_OK), ("open_outputs", STATUS_INFO))
        ),
        sf.count_if(sf.expr("not known and is_input and kind = 1 and member is not null")).alias("unnamed"),
        sf.count_if(sf.expr("not is_input and kind = 2")).alias("of_output"),
        *(
            sf.count_if(sf.expr(f"{of_output} and kind = 0 and outcome = {status}")).alias(name)
            for name, status in (("acknowledged", STATUS_OK), ("unknown", STATUS_INFO), ("refused", STATUS_FAIL))
        ),
        sf.expr(_distinct(record, f"{of_input} and {final} = {STATUS_OK} and offset < held")).alias("below"),
        *(
            sf.expr(_distinct(record, f"{of_input} and kind = 1 and {who}")).alias(name)
            for name, who in (("given", "member"), ("perhaps_given", "not member"))
        ),
        sf.expr(f"min(if({of_input} and kind > 0, {place}, null))").alias("first"),
        sf.expr(f"slice({_distinct('value', 'not is_input and kind = 2')}, 1, 20)").alias("values"),
        sf.expr(_distinct("transaction", f"{of_output} and kind = 0")).alias("transactions"),
    )


def _distinct(what: str, condition: str) -> str:
    return f"collect_set(if({condition}, {what}, null))"


# ---- the sends of those that have no output -------------------------------------------------------------------------


def _missing_outputs(runs: JudgedRuns, seen: DataFrame, suspected: Sequence[IdRow]) -> list[OutputRow]:
    ids = sf.broadcast(runs.frame(("run", "flow", "origin"), suspected))
    named = (
        seen.where(f"not is_input and known and kind = 0 and outcome <> {STATUS_FAIL}")
        .join(ids, ["run", "flow", "origin"])
        .select("run", "flow", "origin", "partition_id", "value")
        .distinct()
    )
    sent = runs.tables.records.where(f"kind = 0 and status <> {STATUS_FAIL}")
    ends = (
        runs.tables.records.where("kind = 2 and replica is null")
        .groupBy("run", "partition_id")
        .agg(sf.max("offset").alias("final_end"))
    )
    columns = ("run", "status", *(name for name in MissingRow.__annotations__ if name != "final_end"))
    found = (
        sent.select(*columns)
        .join(named, ["run", "partition_id", "value"])
        .join(sf.broadcast(ends), ["run", "partition_id"], "left")
    )
    return typed(OutputRow, found.toArrow())


def _writing(runs: JudgedRuns, flows: Sequence[_Judged]) -> frozenset[tuple[int, int]]:
    """(run, flow) of which a recorded client sent outputs; or sent nothing at all, so that it may be the one."""
    sent = typed(
        _SenderRow, runs.tables.records.where("kind = 0").select("run", "process", "partition_id").distinct().toArrow()
    )
    topics = {(row["run"], row["partition_id"]): client_name(row["topic"]) for row in runs.rows(PARTITIONS)}
    to = {(row["run"], topics.get((row["run"], row["partition_id"]))) for row in sent}
    busy = {(row["run"], row["process"]) for row in sent}
    idle = {
        row["run"]
        for row in runs.rows(PROCESSES)
        if row["role"] in SENDERS and (row["run"], row["process"]) not in busy
    }
    return frozenset(
        (own.flow["run"], own.flow["flow"])
        for own in flows
        if (own.flow["run"], own.flow["output"]) in to or own.flow["run"] in idle
    )
