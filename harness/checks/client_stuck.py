"""client-stuck: a producer that got nothing acknowledged for a stated time although the cluster was healthy.

Healthy, by the cluster's own books: no fault is in force, and every partition has a leader and at least
min.insync.replicas in-sync replicas. Only sends that lie wholly inside such a time count, and a stretch never spans two
of them, so that neither a fault nor what it left on its way is held against the client. The broken promise is the
client library's and not the system's: an observation.
"""

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as sf

from harness.checks.availability import TOOK_IT
from harness.checks.detection import small_frame
from harness.checks.findings import Finding, RunContext
from harness.checks.runs import Runs
from harness.checks.story import PartitionStory, RunStory
from harness.checks.tables import Row, Tables
from harness.checks.wording.chain import fault_words
from harness.checks.wording.words import plural
from harness.history.incarnations import client_name
from harness.history.journal_columns import NO_ANSWER
from harness.history.schemas import STATUS_FAIL, STATUS_INFO
from harness.scenario import Scenario

CHECK = "client-stuck"
_MIN_ISR_KEY = "min.insync.replicas"
_BEGIN, _END = -(2**62), 2**62
Span = tuple[int, int]


def unhealthy(story: RunStory, configuration: Sequence[Row]) -> list[Span]:
    """When a fault was in force or a partition of the load could not take writes; joined, in order, ends included."""
    spans = [
        (fault["t_begin"], _END if fault["t_end"] is None else fault["t_end"])
        for fault in story.faults
        if fault["t_begin"] is not None
    ]
    wanted = story.scenario.workload.topics if story.scenario is not None else ()
    for partition in story.partitions.values():
        if partition.topic != client_name(partition.topic) or (wanted and partition.topic not in wanted):
            continue  # one that was created anew took no writes before that
        if partition.deletion is not None:
            spans.append((partition.deletion.earliest_t, _END))
        spans += _unwritable(partition, least_isr(story.scenario, configuration, partition.topic))
    joined: list[Span] = []
    for begin, end in sorted(spans):
        if joined and begin <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((begin, end))
    return joined


def _unwritable(partition: PartitionStory, least: int) -> list[Span]:
    """From when on a state may have been in force until when it may still have been; nothing is known before the first.

    What took writes and what did not overlap where the times have a margin: then it did not.
    """
    begins = [state["t"] - (state["uncertainty_ns"] or 0) for state in partition.states]
    ends = [*(state["t"] + (state["uncertainty_ns"] or 0) for state in partition.states), _END]
    spans = [
        (begin, end)
        for state, begin, end in zip(partition.states, begins, ends[1:], strict=True)
        if state["leader"] < 0 or len(state["isr"] or ()) < least
    ]
    return [(_BEGIN, ends[0]), *spans]


def least_isr(scenario: Scenario | None, configuration: Sequence[Row], topic: str) -> int:
    """The highest min.insync.replicas that ever held for the topic; the brokers' one only where it has none itself."""
    rows = [row for row in configuration if row["key"] == _MIN_ISR_KEY]
    own = [row["value"] for row in rows if row["scope"] == "topic" and row["name"] == topic]
    general = [row["value"] for row in rows if row["scope"] != "topic"]
    if scenario is not None:
        own += [spec.settings.get(_MIN_ISR_KEY) for spec in scenario.topics if spec.name == client_name(topic)]
        general.append(scenario.cluster.settings.get(_MIN_ISR_KEY))
    for values in (own, general):
        numbers = [int(value) for value in values if value is not None and value.isdigit()]
        if numbers:
            return max(numbers)
    return 1


def query(runs: Runs) -> list[Row]:
    """A job of its own, where anything went unanswered at all."""
    unanswered = any(row["status"] in (STATUS_FAIL, STATUS_INFO) for row in runs.detection.accounting)
    return stretches(runs.spark, runs.tables, runs.stories) if unanswered else []


def stretches(spark: SparkSession, tables: Tables, stories: Sequence[RunStory]) -> list[Row]:
    """run, process, begin_t, end_t, sends, unknown, others: stretches of at least `stuck_after` without an
    acknowledgement, in healthy times. others: what the other producers got acknowledged meanwhile.
    """
    sick = [
        {"run": story.run, "begin_t": begin, "end_t": end}
        for story in stories
        for begin, end in unhealthy(story, tables.rows("configuration", story.run))
    ]
    spans = (
        small_frame(spark, {"run": pa.int32(), "begin_t": pa.int64(), "end_t": pa.int64()}, sick)
        .groupBy("run")
        .agg(sf.collect_list(sf.struct("begin_t", "end_t")).alias("sick"))
    )
    bounds = [{"run": story.run, "bound_ns": _bound_ns(story)} for story in stories]
    limits = small_frame(spark, {"run": pa.int32(), "bound_ns": pa.int64()}, bounds)
    # What the run ended before its answer has no time of its own: it says nothing.
    answered = f"kind = 0 and coalesce(acks, -1) <> 0 and not error <=> '{NO_ANSWER}'"
    took_it = f"if({TOOK_IT}, 0, status) as status"
    sends = tables.records.where(answered).selectExpr("run", "process", took_it, "t0", "t1")
    before = Window.partitionBy("run", "process").orderBy("t1").rangeBetween(Window.unboundedPreceding, 0)
    unanswered = (
        sends.withColumn("last_ok", sf.max(sf.expr("if(status = 0, t1, null)")).over(before))
        .where("status <> 0")
        .join(sf.broadcast(spans), "run", "left")
        .where("not exists(coalesce(sick, array()), s -> s.begin_t <= t1 and t0 <= s.end_t)")
        .withColumn("calm", sf.expr("size(filter(coalesce(sick, array()), s -> s.end_t < t0))"))
    )
    found = (
        unanswered.groupBy("run", "process", "calm", "last_ok")
        .agg(
            sf.greatest(sf.min("t0"), sf.col("last_ok")).alias("begin_t"),
            sf.max("t1").alias("end_t"),
            sf.count("*").alias("sends"),
            sf.count_if(sf.col("status") == 2).alias("unknown"),
        )
        .join(sf.broadcast(limits), "run")
        .where("end_t - begin_t >= bound_ns")
        .select("run", "process", "begin_t", "end_t", "sends", "unknown")
    )
    rows = found.toArrow().to_pylist()
    return _with_others(spark, rows, sends.where("status = 0")) if rows else []


def _bound_ns(story: RunStory) -> int:
    seconds = story.scenario.workload.stuck_after_s if story.scenario is not None else 10.0
    return int(seconds * 1e9)


def _with_others(spark: SparkSession, found: Sequence[Row], acknowledged: DataFrame) -> list[Row]:
    columns = {"run": pa.int32(), "process": pa.int32(), "begin_t": pa.int64(), "end_t": pa.int64()}
    oks = acknowledged.selectExpr("run as ok_run", "process as other", "t1 as ok_t")
    meanwhile = sf.expr("ok_run = run and other <> process and ok_t between begin_t and end_t")
    counted = (
        oks.join(sf.broadcast(small_frame(spark, columns, found)), meanwhile)
        .groupBy("run", "process", "begin_t", "end_t")
        .agg(sf.count("*").alias("others"))
    )
    others = {tuple(row[name] for name in columns): row["others"] for row in counted.toArrow().to_pylist()}
    return [{**row, "others": others.get(tuple(row[name] for name in columns), 0)} for row in found]


def find(context: RunContext) -> list[Finding]:
    scenario = context.story.scenario
    if scenario is not None and scenario.workload.name == "none":
        return []  # a probe asks once, and its time-out is the scenario's
    stuck = sorted(context.rows.get(CHECK, ()), key=lambda row: (row["begin_t"], row["process"]))
    return [_finding(context, row) for row in stuck]


def _finding(context: RunContext, row: Row) -> Finding:
    story, scenario, seconds = context.story, context.story.scenario, (row["end_t"] - row["begin_t"]) / 1e9
    library = scenario.workload.client if scenario is not None else "an unknown library"
    refused = row["sends"] - row["unknown"]
    outcomes = [f"{number} {how}" for number, how in ((row["unknown"], "unknown"), (refused, "failed")) if number]
    sentence = (
        f"Process {row['process']}, a producer of {library}, got nothing acknowledged for {seconds:.3f} s from "
        f"{story.seconds(row['begin_t'])[3:]} on ({plural(row['sends'], 'record')}: {', '.join(outcomes)}), although "
        "no fault was in force and every partition had a leader and enough in-sync replicas"
    )
    if row["others"]:
        sentence += f"; other producers had {plural(row['others'], 'record')} acknowledged meanwhile"
    ended = [fault for fault in story.faults if fault["t_end"] is not None and fault["t_end"] <= row["begin_t"]]
    last = max(ended, key=lambda fault: fault["t_end"], default=None)
    if last is not None:
        since_s = (row["begin_t"] - last["t_end"]) / 1e9
        sentence += f"; the last fault ({fault_words(last)}) had ended {since_s:.3f} s before"
    return Finding(
        run=context.run, check=CHECK, classification="observation", kind=library, count=row["sends"],
        sentence=sentence + ".", t_first=row["begin_t"], t_last=row["end_t"],
        faults=[] if last is None else [last["fault"]],
        evidence={"process": row["process"], "seconds": seconds, "unknown": row["unknown"], "refused": refused,
                  "acknowledged_to_others": row["others"]},
    )  # fmt: skip
