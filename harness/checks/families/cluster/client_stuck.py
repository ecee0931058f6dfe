"""client-stuck: a producer without an acknowledgement, or a reader without a record, although the cluster was healthy.

Healthy, by the cluster's own books: no fault is in force, no node is down by itself, and every partition has a leader
and at least min.insync.replicas in-sync replicas. Only sends completely inside such a time count, and a reported time
never covers two of them, so that neither a fault nor its after-effects count against the client. What brokers answered
meanwhile is told, with what explains it; where they answered nothing, the client library broke its promise, not the
system. An observation. What a reader waited for is told in reading_gaps.py; a group needs the leader of its own
partition, too.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypedDict

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as sf

from harness.checks.explaining.answered_errors import Answered, answered, answered_words
from harness.checks.explaining.chain import fault_words
from harness.checks.families.cluster.availability import ACCEPTED, READING, Gap, reader_words
from harness.checks.family import Family
from harness.checks.findings import Finding, RunContext
from harness.checks.judged_runs import JudgedRuns
from harness.checks.model.partition_history import PartitionHistory, RunHistory
from harness.checks.model.settings import SettingsOverTime
from harness.checks.spark.tables import Tables, small_frame
from harness.checks.wording.words import plural
from harness.history.facts.error_codes import OF_THE_PRODUCER
from harness.history.facts.fault_facts import begin_of, begun, end_of
from harness.history.facts.incarnations import client_name
from harness.history.facts.internal_topics import GROUP_OFFSETS_TOPIC
from harness.history.facts.node_end_facts import back_of, earliest_of
from harness.history.journals.journal_columns import NO_ANSWER
from harness.history.schema.column_types import END_OF_TIME_NS
from harness.history.schema.schemas import STATUS_FAIL, STATUS_INFO
from harness.history.schema.typed_rows import RowsOf, typed

CHECK = "client-stuck"
_MIN_ISR_KEY = "min.insync.replicas"
Span = tuple[int, int]


def unhealthy(history: RunHistory) -> list[Span]:
    """The times with a fault in force, a node down by itself, or a partition of the load that took no writes.

    Merged, in order, closed.
    """
    spans = [(begin_of(fault), end_of(fault)) for fault in begun(history.faults)]
    spans += [(earliest_of(end), back_of(end)) for end in history.ends]
    wanted = history.scenario.workload.topics if history.scenario is not None else ()
    for partition in history.partitions.values():
        if partition.topic != client_name(partition.topic) or (wanted and partition.topic not in wanted):
            continue  # a topic that was created again accepted no writes before that
        if partition.deletion is not None:
            spans.append((partition.deletion.earliest_t, END_OF_TIME_NS))
        spans += _unwritable(partition, history.settings)
    return _merged(spans)


def _merged(spans: Iterable[Span]) -> list[Span]:
    """Without overlaps, in order."""
    joined: list[Span] = []
    for begin, end in sorted(spans):
        if joined and begin <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((begin, end))
    return joined


def _unwritable(partition: PartitionHistory, settings: SettingsOverTime) -> list[Span]:
    """The times in which the partition could not accept writes; nothing is known before its first state.

    Where a change's time has a margin, the margin counts as unable to accept writes. Of several values that
    min.insync.replicas had meanwhile the highest counts.
    """
    begins = [state["time_ns"] - (state["uncertainty_ns"] or 0) for state in partition.states]
    ends = [*(state["time_ns"] + (state["uncertainty_ns"] or 0) for state in partition.states), END_OF_TIME_NS]
    spans = [
        (begin, end)
        for state, begin, end in zip(partition.states, begins, ends[1:], strict=True)
        if state["leader"] < 0
        or len(state["isr"] or ()) < settings.numbers(_MIN_ISR_KEY, partition.topic, begin, end, state["leader"])[-1]
    ]
    return [(-END_OF_TIME_NS, ends[0]), *spans]


class LastOffset(TypedDict):
    """Where a producer's last acknowledged record of a partition was."""

    partition_id: int
    offset: int | None


class _Stretch(TypedDict):
    """A time in which a producer got no acknowledgement. lasts: of the partitions that it sent to. last_ok: when it had
    got one before."""

    run: int
    process: int
    begin_ns: int
    end_ns: int
    sends: int
    unknown: int
    lasts: list[LastOffset]
    last_ok: int | None


class StuckRow(_Stretch):
    others: int


ANSWER = RowsOf(CHECK, StuckRow)


class _MeanwhileRow(TypedDict):
    run: int
    process: int
    begin_ns: int
    end_ns: int
    others: int


def query(runs: JudgedRuns) -> list[StuckRow]:
    """A separate job, only if any send was not acknowledged."""
    unanswered = any(row["status"] in (STATUS_FAIL, STATUS_INFO) for row in runs.detection.accounting)
    return stretches(runs.spark, runs.tables, runs.histories) if unanswered else []


def stretches(spark: SparkSession, tables: Tables, histories: Sequence[RunHistory]) -> list[StuckRow]:
    """Times of at least `stuck_after` without an acknowledgement, while the cluster was healthy.

    others: the number of records of other producers acknowledged meanwhile.
    """
    last_ns = {run: marks["last_ns"] for run, marks in tables.activity.items()}
    asked = [history for history in histories if _was_long_healthy(history, last_ns.get(history.run))]
    if not asked:
        return []
    sick = [
        {"run": history.run, "begin_ns": begin, "end_ns": end} for history in asked for begin, end in unhealthy(history)
    ]
    spans = (
        small_frame(spark, ("run", "begin_ns", "end_ns"), sick)
        .groupBy("run")
        .agg(sf.collect_list(sf.struct("begin_ns", "end_ns")).alias("sick"))
    )
    bounds = [{"run": history.run, "bound_ns": _bound_ns(history)} for history in asked]
    limits = small_frame(spark, ("run", "bound_ns"), bounds)
    # A send whose answer was cut off by the run's end has no end time of its own: it does not count.
    answered = f"kind = 0 and coalesce(acks, -1) <> 0 and not error <=> '{NO_ANSWER}'"
    accepted = f"if({ACCEPTED}, 0, status) as status"
    sends = tables.records.where(answered).selectExpr(
        "run", "process", "partition_id", "offset", accepted, "invoked_ns", "completed_ns"
    )
    before = Window.partitionBy("run", "process").orderBy("completed_ns").rangeBetween(Window.unboundedPreceding, 0)
    there = Window.partitionBy("run", "process", "partition_id").orderBy("completed_ns")
    there = there.rangeBetween(Window.unboundedPreceding, 0)
    unanswered = (
        sends.withColumn("last_ok", sf.max(sf.expr("if(status = 0, completed_ns, null)")).over(before))
        .withColumn(
            "last",
            sf.max(sf.expr("if(status = 0, offset, null)")).over(there.rangeBetween(Window.unboundedPreceding, 0)),
        )
        .where("status <> 0")
        .join(sf.broadcast(spans), "run", "left")
        .where("not exists(coalesce(sick, array()), s -> s.begin_ns <= completed_ns and invoked_ns <= s.end_ns)")
        .withColumn("calm", sf.expr("size(filter(coalesce(sick, array()), s -> s.end_ns < invoked_ns))"))
    )
    found = (
        unanswered.groupBy("run", "process", "calm", "last_ok")
        .agg(
            sf.greatest(sf.min("invoked_ns"), sf.col("last_ok")).alias("begin_ns"),
            sf.max("completed_ns").alias("end_ns"),
            sf.count("*").alias("sends"),
            sf.count_if(sf.col("status") == 2).alias("unknown"),
            sf.collect_set(sf.struct("partition_id", sf.col("last").alias("offset"))).alias("lasts"),
        )
        .join(sf.broadcast(limits), "run")
        .where("end_ns - begin_ns >= bound_ns")
        .select("run", "process", "begin_ns", "end_ns", "sends", "unknown", "lasts", "last_ok")
    )
    rows = typed(_Stretch, found.toArrow())
    return _with_others(spark, rows, sends.where("status = 0")) if rows else []


def _was_long_healthy(history: RunHistory, last_ns: int | None) -> bool:
    """Whether any healthy time, up to when the last operation ended, has room for a stretch that is told."""
    sick, over = unhealthy(history), END_OF_TIME_NS if last_ns is None else last_ns
    began = [-END_OF_TIME_NS, *(end for _, end in sick)]
    ended = [*(begin for begin, _ in sick), END_OF_TIME_NS]
    return any(min(end, over) - begin >= _bound_ns(history) for begin, end in zip(began, ended, strict=True))


def _bound_ns(history: RunHistory) -> int:
    seconds = history.scenario.workload.stuck_after_s if history.scenario is not None else 10.0
    return int(seconds * 1e9)


def _with_others(spark: SparkSession, found: Sequence[_Stretch], acknowledged: DataFrame) -> list[StuckRow]:
    columns = ("run", "process", "begin_ns", "end_ns")
    oks = acknowledged.selectExpr("run as ok_run", "process as other", "completed_ns as ok_t")
    meanwhile = sf.expr("ok_run = run and other <> process and ok_t between begin_ns and end_ns")
    counted = (
        oks.join(sf.broadcast(small_frame(spark, columns, found)), meanwhile)
        .groupBy("run", "process", "begin_ns", "end_ns")
        .agg(sf.count("*").alias("others"))
    )
    others = {_stretch(row): row["others"] for row in typed(_MeanwhileRow, counted.toArrow())}
    return [{**row, "others": others.get(_stretch(row), 0)} for row in found]


def _stretch(row: _Stretch | _MeanwhileRow) -> tuple[int, int, int, int]:
    return row["run"], row["process"], row["begin_ns"], row["end_ns"]


def find(context: RunContext) -> list[Finding]:
    scenario = context.history.scenario
    if scenario is not None and not scenario.workload.workers:
        return []  # a probe tries once, and the scenario sets its time-out
    stuck = sorted(context.rows[ANSWER], key=lambda row: (row["begin_ns"], row["process"]))
    return [_finding(context, row) for row in stuck] + [_of_reader(context, each) for each in _stuck_readers(context)]


@dataclass(frozen=True, kw_only=True)
class _StuckReader:
    """gap: one of those that show it."""

    gap: Gap
    begin_ns: int
    end_ns: int
    partitions: tuple[str, ...]


def _stuck_readers(context: RunContext) -> Iterator[_StuckReader]:
    """The healthy parts of readers' gaps; those of one reader at one time are one."""
    rows = context.rows[READING]
    if not rows:
        return
    sick = unhealthy(context.history)
    coordinators = [
        span
        for (topic, _), partition in context.history.internal.items()
        if topic == GROUP_OFFSETS_TOPIC
        for span in _leaderless(partition)
    ]
    found: dict[str, list[tuple[int, int, str, Gap]]] = {}
    for gap in rows:
        spans = _merged([*sick, *coordinators]) if gap["group"] is not None else sick
        for begin, end in _outside(spans, gap["begin_ns"], gap["end_ns"]):
            if end - begin >= _bound_ns(context.history):
                name = context.partition(gap["partition_id"]).name
                found.setdefault(reader_words(gap), []).append((begin, end, name, gap))
    for parts in found.values():
        for begin, end in _merged((begin, end) for begin, end, _, _ in parts):
            own = [(name, gap) for since, until, name, gap in parts if begin <= since and until <= end]
            names = tuple(sorted({name for name, _ in own}))
            yield _StuckReader(gap=own[0][1], begin_ns=begin, end_ns=end, partitions=names)


def _leaderless(partition: PartitionHistory) -> Iterator[Span]:
    """Nothing is known before its first state."""
    ends = [*(state["time_ns"] + (state["uncertainty_ns"] or 0) for state in partition.states), END_OF_TIME_NS]
    yield -END_OF_TIME_NS, ends[0]
    for state, end in zip(partition.states, ends[1:], strict=True):
        if state["leader"] < 0:
            yield state["time_ns"] - (state["uncertainty_ns"] or 0), end


def _outside(spans: Sequence[Span], begin: int, end: int) -> Iterator[Span]:
    """The parts of [begin, end] that none of these spans, merged and in order, touches."""
    for since, until in spans:
        if since > end:
            break
        if since > begin:
            yield begin, since
        begin = max(begin, until)
    if begin < end:
        yield begin, end


def _of_reader(context: RunContext, stuck: _StuckReader) -> Finding:
    history, gap = context.history, stuck.gap
    seconds = (stuck.end_ns - stuck.begin_ns) / 1e9
    who, names = reader_words(gap), ", ".join(stuck.partitions[:5])
    sentence = (
        f"{who[0].upper()}{who[1:]} got nothing of {names} for {seconds:.3f} s from "
        f"{history.seconds(stuck.begin_ns)[3:]} on, though acknowledged records waited there, no fault was in "
        "force and every partition had a leader and enough in-sync replicas"
    )
    return Finding(
        run=context.run,
        check=CHECK,
        classification="observation",
        kind="reader",
        count=len(stuck.partitions),
        sentence=sentence + ".",
        first_ns=stuck.begin_ns,
        last_ns=stuck.end_ns,
        evidence={
            "group": gap["group"],
            "client": gap["client"],
            "seconds": seconds,
            "partitions": list(stuck.partitions),
        },
    )


def _answered(context: RunContext, row: StuckRow) -> list[Answered]:
    """Meanwhile; or, to a library that tried no more, since its last acknowledged record, of the producer itself."""
    last_offsets = [(last["partition_id"], last["offset"]) for last in row["lasts"]]
    meanwhile = answered(
        context, begin_ns=row["begin_ns"], end_ns=row["end_ns"], process=row["process"], last_offsets=last_offsets
    )
    if meanwhile or row["last_ok"] is None:
        return meanwhile
    before = answered(
        context, begin_ns=row["last_ok"], end_ns=row["begin_ns"], process=row["process"], last_offsets=last_offsets
    )
    return [each for each in before if each.error.code in OF_THE_PRODUCER]


def _finding(context: RunContext, row: StuckRow) -> Finding:
    history, scenario, seconds = context.history, context.history.scenario, (row["end_ns"] - row["begin_ns"]) / 1e9
    library = scenario.workload.client if scenario is not None else "an unknown library"
    refused = row["sends"] - row["unknown"]
    outcomes = [f"{number} {how}" for number, how in ((row["unknown"], "unknown"), (refused, "failed")) if number]
    errors = _answered(context, row)
    healthy = "no fault was in force and every partition had a leader and enough in-sync replicas"
    sentence = (
        f"Process {row['process']}, a producer of {library}, got nothing acknowledged for {seconds:.3f} s from "
        f"{history.seconds(row['begin_ns'])[3:]} on ({plural(row['sends'], 'record')}: {', '.join(outcomes)}), "
        f"{f'while {healthy}; {answered_words(errors)}' if errors else f'although {healthy}'}"
    )
    if row["others"]:
        sentence += f"; other producers had {plural(row['others'], 'record')} acknowledged meanwhile"
    ended = [fault for fault in history.faults if end_of(fault) <= row["begin_ns"]]
    last = max(ended, key=end_of, default=None)
    if last is not None:
        since_s = (row["begin_ns"] - end_of(last)) / 1e9
        sentence += f"; the last fault ({fault_words(last, history.node_noun)}) had ended {since_s:.3f} s before"
    return Finding(
        run=context.run,
        check=CHECK,
        classification="observation",
        kind=library,
        count=row["sends"],
        sentence=sentence + ".",
        first_ns=row["begin_ns"],
        last_ns=row["end_ns"],
        faults=[] if last is None else [last["fault"]],
        evidence={
            "process": row["process"],
            "seconds": seconds,
            "unknown": row["unknown"],
            "refused": refused,
            "acknowledged_to_others": row["others"],
            "answered": [each.as_dict() for each in errors],
        },
    )


FAMILY = Family(name=CHECK, find=find, query=query, follows_detection=True)
