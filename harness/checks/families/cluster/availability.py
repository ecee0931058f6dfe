"""Availability: when a partition accepted no writes under load, or gave a reader nothing, and how long after each fault
it did so again. When readers were given nothing is told in reading_gaps.py.

These are observations: they are judged only against a bound that the scenario states.
"""

from collections.abc import Sequence
from typing import TypedDict

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as sf

from harness.checks.contract.rulings import Class
from harness.checks.explaining.answered_errors import answered, answered_words
from harness.checks.explaining.chain import fault_words
from harness.checks.family import Family
from harness.checks.findings import Finding, RunContext
from harness.checks.judged_runs import JudgedRuns
from harness.checks.model.partition_history import PartitionHistory
from harness.checks.wording.ends import down_words
from harness.history.facts.fault_facts import begin_of, begun
from harness.history.facts.fault_measures import in_sync_times, leader_times
from harness.history.facts.internal_topics import GROUP_OFFSETS_TOPIC
from harness.history.schema.cluster_rows import PARTITION_STATES, FaultRow
from harness.history.schema.evidence_rows import FaultMeasureRow
from harness.history.schema.typed_rows import RowsOf, typed
from harness.history.sealed.derived_tables import SLOW_NS

GAP_MIN_NS = 10**9
# Writes that the partition accepted: in a transaction that was (perhaps) aborted, an answer with an offset shows it.
ACCEPTED = "status = 0 or (transaction is not null and offset is not null)"
_GAPS_MAX = 10_000


class Gap(TypedDict):
    """A time without acknowledgements; open: it did not end, `end_ns` is the last attempt.

    group, client: the reader that was given nothing (reading_gaps.py); both None: no write was taken.
    """

    run: int
    partition_id: int
    begin_ns: int
    end_ns: int
    open: bool
    group: str | None
    client: str | None


ANSWER = RowsOf("availability", Gap)
READING = RowsOf("reading-gaps", Gap)


class _Stretch(TypedDict):
    run: int
    partition_id: int
    begin_ns: int | None  # None for the first acknowledged send
    end_ns: int
    last_any: int
    closed: bool
    open: bool


def gaps(records: DataFrame) -> list[Gap]:
    """Times of more than a second between two acknowledgements of a partition while it had requests.

    open: nothing was acknowledged any more, despite attempts; then `end_ns` is the last attempt.
    """
    sends = records.where("kind = 0 and coalesce(acks, -1) <> 0")
    by_time = Window.partitionBy("run", "partition_id").orderBy("completed_ns", "position")
    so_far = by_time.rowsBetween(Window.unboundedPreceding, -1)
    whole = Window.partitionBy("run", "partition_id")
    ok = sf.expr(ACCEPTED)
    rows = sends.select(
        "run",
        "partition_id",
        "invoked_ns",
        "completed_ns",
        ok.alias("ok"),
        sf.max(sf.when(ok, sf.col("completed_ns"))).over(so_far).alias("begin_ns"),
        sf.count_if(~ok).over(so_far).alias("refusals"),
        sf.max(sf.when(ok, sf.col("completed_ns"))).over(whole).alias("last_ok"),
        sf.max("completed_ns").over(whole).alias("last_any"),
    )
    in_turn = by_time.orderBy("completed_ns")
    refused = sf.col("refusals") - sf.lag("refusals", 1, 0).over(in_turn)
    closed = f"completed_ns - begin_ns > {GAP_MIN_NS} and (refused > 0 or completed_ns - invoked_ns > {SLOW_NS})"
    still_open = f"final and last_any - last_ok > {GAP_MIN_NS}"
    answered = (
        rows.where("ok")
        .withColumns({"refused": refused, "final": sf.lead("completed_ns").over(in_turn).isNull()})
        .selectExpr(
            "run",
            "partition_id",
            "begin_ns",
            "completed_ns as end_ns",
            "last_any",
            f"coalesce({closed}, false) as closed",
            f"{still_open} as open",
        )
        .where("closed or open")
        .limit(_GAPS_MAX)
        .toArrow()
    )
    found = typed(_Stretch, answered)
    found_gaps: list[Gap] = [
        {
            "run": row["run"],
            "partition_id": row["partition_id"],
            "begin_ns": begin,
            "end_ns": row["end_ns"],
            "open": False,
            "group": None,
            "client": None,
        }
        for row in found
        if row["closed"] and (begin := row["begin_ns"]) is not None
    ]
    found_gaps += [
        {
            "run": row["run"],
            "partition_id": row["partition_id"],
            "begin_ns": row["end_ns"],
            "end_ns": row["last_any"],
            "open": True,
            "group": None,
            "client": None,
        }
        for row in found
        if row["open"]
    ]
    return sorted(
        found_gaps, key=lambda row: (row["run"], row["partition_id"], row["begin_ns"])
    )  # Spark returns them in no fixed order


def query(runs: JudgedRuns) -> list[Gap]:
    """All gaps; without a query if every send was acknowledged soon."""
    return gaps(runs.tables.records) if runs.any_was("halting") else []


def find(context: RunContext) -> list[Finding]:
    scenario = context.history.scenario
    if scenario is not None and not scenario.workload.workers:
        return []  # probes run only when a step says so: their pauses are not gaps
    bounds = scenario.expect.bounds if scenario is not None else {}
    found = []
    for gaps_of, gap_bound, recovery_bound in (
        (context.rows[ANSWER], "availability_gap_s", "recovery_time_s"),
        (context.rows[READING], "reading_gap_s", "reading_recovery_time_s"),
    ):
        found += [_gap(context, row, bounds.get(gap_bound)) for row in gaps_of]
        found += _recoveries(context, gaps_of, bounds.get(recovery_bound))
    return found


def reader_words(gap: Gap) -> str:
    """Who was given nothing; "" where it is about writes."""
    if gap["group"] is not None:
        return f"group {gap['group']}"
    return "" if gap["client"] is None else gap["client"]


def _gap(context: RunContext, row: Gap, bound_s: float | None) -> Finding:
    history, run = context.partition(row["partition_id"]), context.history
    length_s = (row["end_ns"] - row["begin_ns"]) / 1e9
    faults = history.faults_between(row["begin_ns"], row["end_ns"])
    leaderless = _had_no_leader(history, row)
    reader = reader_words(row)
    sentence = f"{history.name} took no write"
    if reader:
        sentence = f"{reader[0].upper()}{reader[1:]} got nothing of {history.name}"
    since = run.seconds(row["begin_ns"])[3:]
    sentence += f" any more from {since} on" if row["open"] else f" for {length_s:.3f} s from {since} on"
    sentence += ", though acknowledged records waited there" if reader else ""
    sentence += "; it had no leader for part of it" if leaderless else ""
    coordinator = _coordinator_of(context, row)
    without = coordinator is not None and _had_no_leader(coordinator, row)
    if coordinator is not None and without:
        sentence += f"; {coordinator.name}, where the group is kept, had no leader for part of it"
    sentence += f"; in force: {', '.join(fault_words(fault, run.node_noun) for fault in faults[:3])}" if faults else ""
    ended = history.ends_between(row["begin_ns"], row["end_ns"])
    sentence += f"; {down_words(run, ended)}" if ended else ""
    errors = [] if reader else answered(context, begin_ns=row["begin_ns"], end_ns=row["end_ns"], partition=history)
    sentence += f"; {answered_words(errors)}" if errors else ""
    classification, sentence = _judged(sentence, length_s, bound_s)
    return Finding(
        run=context.run,
        check="availability",
        classification=classification,
        kind="reading-gap" if reader else "gap",
        topic=history.topic,
        partition=history.partition,
        count=1,
        sentence=sentence,
        first_ns=row["begin_ns"],
        last_ns=row["end_ns"],
        faults=[fault["fault"] for fault in faults],
        evidence={
            "seconds": length_s,
            "open": row["open"],
            "bound_s": bound_s,
            "leaderless": bool(leaderless),
            "ended_nodes": sorted({end["node"] for end in ended}),
            "answered": [each.as_dict() for each in errors],
            "group": row["group"],
            "client": row["client"],
            "coordinator_leaderless": without,
        },
    )


def summary(context: RunContext) -> str:
    """Who read nothing for long, in a sentence; "" for nobody. For long: as long as a producer counts as stuck."""
    scenario = context.history.scenario
    if scenario is None or not scenario.workload.workers:
        return ""
    longest: dict[str, Gap] = {}
    for row in context.rows[READING]:
        reader = reader_words(row)
        if reader not in longest or _length_ns(row) > _length_ns(longest[reader]):
            longest[reader] = row
    waits = [
        f"{reader} for {_length_ns(row) / 1e9:.0f} s from {context.history.seconds(row['begin_ns'])[3:]} on"
        for reader, row in longest.items()
        if _length_ns(row) >= scenario.workload.stuck_after_s * 1e9
    ]
    return f"Got nothing, though acknowledged records waited: {', '.join(waits[:3])}." if waits else ""


def _length_ns(gap: Gap) -> int:
    return gap["end_ns"] - gap["begin_ns"]


def _had_no_leader(history: PartitionHistory, gap: Gap) -> bool:
    """In the gap, or when it began."""
    before = history.state_at(gap["begin_ns"])
    within = [state for state in history.states if gap["begin_ns"] <= state["time_ns"] <= gap["end_ns"]]
    return any(state["leader"] < 0 for state in (*within, *([before] if before else ())))


def _coordinator_of(context: RunContext, gap: Gap) -> PartitionHistory | None:
    """The partition whose leader coordinates the group, if it is the only one that was recorded of its topic."""
    if gap["group"] is None:
        return None
    known = [each for (topic, _), each in context.history.internal.items() if topic == GROUP_OFFSETS_TOPIC]
    return known[0] if len(known) == 1 else None


def _judged(sentence: str, seconds: float, bound_s: float | None) -> tuple[Class, str]:
    if bound_s is None:
        return "observation", sentence + "."
    held = seconds <= bound_s
    verb = "within" if held else "above"
    return ("observation" if held else "violation"), f"{sentence}; {verb} the scenario's bound of {bound_s:g} s."


def _recoveries(context: RunContext, gaps_of: Sequence[Gap], bound_s: float | None) -> list[Finding]:
    found = []
    for fault in context.history.faults:
        begin = fault["begin_ns"]
        touched = [row for row in gaps_of if begin is not None and _touched(row, fault)]
        if not touched:
            continue
        found.append(_recovery(context, fault, touched, bound_s))
    return found


def _touched(gap: Gap, fault: FaultRow) -> bool:
    ends = fault["end_ns"] is None or gap["begin_ns"] <= fault["end_ns"]
    return bool(ends and gap["end_ns"] >= begin_of(fault))


def _recovery(context: RunContext, fault: FaultRow, touched: Sequence[Gap], bound_s: float | None) -> Finding:
    worst = max(touched, key=lambda row: (row["open"], row["end_ns"]))
    seconds = (worst["end_ns"] - begin_of(fault)) / 1e9
    history = context.partition(worst["partition_id"])
    what = f"Fault {fault['fault']} ({fault_words(fault, context.history.node_noun)})"
    count, reader = len({row["partition_id"] for row in touched}), reader_words(worst)
    if worst["open"]:
        never = "never took a write again" if not reader else f"was never read by {reader} again"
        sentence = f"After {what} began, {history.name} {never}"
    else:
        again = f"was read by {reader} again" if reader else "took them again"
        lacked = "records for a reader" if reader else "writes"
        sentence = (
            f"After {what} began, the last of {count} partitions without {lacked} ({history.name}) {again} "
            f"{seconds:.3f} s later"
        )
    classification, sentence = _judged(sentence, float("inf") if worst["open"] else seconds, bound_s)
    return Finding(
        run=context.run,
        check="recovery",
        classification=classification,
        kind=fault["kind"] or "fault",
        count=1,
        sentence=sentence,
        first_ns=fault["begin_ns"],
        last_ns=worst["end_ns"],
        faults=[fault["fault"]],
        apart="reading" if reader else "",
        evidence={"seconds": seconds, "open": worst["open"], "bound_s": bound_s},
    )


def fault_measures(context: RunContext, end_ns: int | None) -> list[FaultMeasureRow]:
    """One row per fault whose effect was seen; `end_ns`: when the run's last operation ended."""
    faults = begun(context.history.faults)
    ends = [end_ns, *(row["end_ns"] for row in faults), *(row["begin_ns"] for row in faults)]
    last = max((t for t in ends if t is not None), default=0)
    states = [row for row in context.tables[PARTITION_STATES] if row["time_ns"] <= last]
    leaders, whole = leader_times(states, faults, last), in_sync_times(states, faults, last)
    rows: list[FaultMeasureRow] = []
    for fault in faults:
        led, in_sync = leaders.get(fault["fault"]), whole.get(fault["fault"])
        gap = _longest_gap(context.rows[ANSWER], fault)
        rows.append(
            {
                "run": context.run,
                "fault": fault["fault"],
                "kind": fault["kind"],
                "label_text": fault["label_text"],
                "begin_ns": begin_of(fault),
                "end_ns": fault["end_ns"],
                "leader_s": led.seconds if led else None,
                "leader_never": led.never if led else None,
                "in_sync_s": in_sync.seconds if in_sync else None,
                "in_sync_never": in_sync.never if in_sync else None,
                "gap_s": gap[1] if gap else None,
                "gap_never": gap[0] if gap else None,
            }
        )
    return rows


def _longest_gap(gaps: Sequence[Gap], fault: FaultRow) -> tuple[bool, float] | None:
    """(whether it never ended, seconds) of the part after the fault's begin."""
    return max(
        (
            (row["open"], (row["end_ns"] - max(row["begin_ns"], begin_of(fault))) / 1e9)
            for row in gaps
            if _touched(row, fault)
        ),
        default=None,
    )


FAMILY = Family(name="availability", find=find, query=query)
