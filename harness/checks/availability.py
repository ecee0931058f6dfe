"""Availability: when a partition took no writes under load, and how long after each fault it took them again.

Observations: judged only against a bound that the scenario states.
"""

from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as sf

from harness.checks.findings import Finding, RunContext
from harness.checks.rulings import Class
from harness.checks.runs import Runs
from harness.checks.tables import Row
from harness.checks.wording.chain import fault_words
from harness.history.activity import SLOW_NS
from harness.history.fault_measures import in_sync_times, leader_times

GAP_MIN_NS = 10**9
# What its partition took: in a transaction that was aborted, or may have been, an answer with an offset says so.
TOOK_IT = "status = 0 or (txn is not null and off is not null)"
_GAPS_MAX = 10_000


def gaps(records: DataFrame) -> list[Row]:
    """Stretches of more than a second between two acknowledgements of a partition while something was asked of it.

    open: nothing was acknowledged any more, though it was tried; `end_t` is then the last try.
    """
    sends = records.where("kind = 0 and coalesce(acks, -1) <> 0")
    by_time = Window.partitionBy("run", "tp").orderBy("t1", "i")
    so_far = by_time.rowsBetween(Window.unboundedPreceding, -1)
    whole = Window.partitionBy("run", "tp")
    ok = sf.expr(TOOK_IT)
    rows = sends.select(
        "run", "tp", "t0", "t1", ok.alias("ok"),
        sf.max(sf.when(ok, sf.col("t1"))).over(so_far).alias("begin_t"),
        sf.count_if(~ok).over(so_far).alias("refusals"),
        sf.max(sf.when(ok, sf.col("t1"))).over(whole).alias("last_ok"),
        sf.max("t1").over(whole).alias("last_any"),
    )  # fmt: skip
    in_turn = by_time.orderBy("t1")
    refused = sf.col("refusals") - sf.lag("refusals", 1, 0).over(in_turn)
    closed = f"t1 - begin_t > {GAP_MIN_NS} and (refused > 0 or t1 - t0 > {SLOW_NS})"
    still_open = f"final and last_any - last_ok > {GAP_MIN_NS}"
    found = (
        rows.where("ok")
        .withColumns({"refused": refused, "final": sf.lead("t1").over(in_turn).isNull()})
        .selectExpr("run", "tp", "begin_t", "t1 as end_t", "last_any", f"coalesce({closed}, false) as closed",
                    f"{still_open} as open")
        .where("closed or open")
        .limit(_GAPS_MAX)
        .toArrow()
        .to_pylist()
    )  # fmt: skip
    told = [{name: row[name] for name in ("run", "tp", "begin_t", "end_t")} for row in found if row["closed"]]
    ends = {(row["run"], row["tp"]): (row["end_t"], row["last_any"]) for row in found if row["open"]}
    found_gaps = [row | {"open": False} for row in told] + [
        {"run": run, "tp": tp, "begin_t": begin, "end_t": end, "open": True} for (run, tp), (begin, end) in ends.items()
    ]
    return sorted(found_gaps, key=lambda row: (row["run"], row["tp"], row["begin_t"]))  # not as Spark came by them


def query(runs: Runs) -> list[Row]:
    """Where every send was answered well and soon there is no gap."""
    return gaps(runs.tables.records) if runs.any_was("halting") else []


def find(context: RunContext) -> list[Finding]:
    scenario = context.story.scenario
    if scenario is not None and scenario.workload.name == "none":
        return []  # probes come and go as the steps say: their pauses are no gaps
    bounds = scenario.expect.bounds if scenario is not None else {}
    return [_gap(context, row, bounds.get("availability_gap_s")) for row in context.gaps] + _recoveries(
        context, bounds.get("recovery_time_s")
    )


def _gap(context: RunContext, row: Row, bound_s: float | None) -> Finding:
    story = context.partition(row["tp"])
    length_s = (row["end_t"] - row["begin_t"]) / 1e9
    faults = story.faults_between(row["begin_t"], row["end_t"])
    leaderless = [
        state for state in story.states if row["begin_t"] <= state["t"] <= row["end_t"] and state["leader"] < 0
    ]
    sentence = f"{story.name} took no write for {length_s:.3f} s from {context.story.seconds(row['begin_t'])[3:]} on"
    if row["open"]:
        sentence = f"{story.name} took no write any more from {context.story.seconds(row['begin_t'])[3:]} on"
    sentence += "; it had no leader for part of it" if leaderless else ""
    sentence += f"; in force: {', '.join(fault_words(fault) for fault in faults[:3])}" if faults else ""
    classification, sentence = _judged(sentence, length_s, bound_s)
    return Finding(
        run=context.run, check="availability", classification=classification, kind="gap", topic=story.topic,
        part=story.part, count=1, sentence=sentence, t_first=row["begin_t"], t_last=row["end_t"],
        faults=[fault["fault"] for fault in faults],
        evidence={"seconds": length_s, "open": row["open"], "bound_s": bound_s, "leaderless": bool(leaderless)},
    )  # fmt: skip


def _judged(sentence: str, seconds: float, bound_s: float | None) -> tuple[Class, str]:
    if bound_s is None:
        return "observation", sentence + "."
    held = seconds <= bound_s
    verb = "within" if held else "above"
    return ("observation" if held else "violation"), f"{sentence}; {verb} the scenario's bound of {bound_s:g} s."


def _recoveries(context: RunContext, bound_s: float | None) -> list[Finding]:
    found = []
    for fault in context.story.faults:
        begin = fault["t_begin"]
        touched = [row for row in context.gaps if begin is not None and _touched(row, fault)]
        if not touched:
            continue
        found.append(_recovery(context, fault, touched, bound_s))
    return found


def _touched(gap: Row, fault: Row) -> bool:
    ends = fault["t_end"] is None or gap["begin_t"] <= fault["t_end"]
    return bool(ends and gap["end_t"] >= fault["t_begin"])


def _recovery(context: RunContext, fault: Row, touched: Sequence[Row], bound_s: float | None) -> Finding:
    worst = max(touched, key=lambda row: (row["open"], row["end_t"]))
    seconds = (worst["end_t"] - fault["t_begin"]) / 1e9
    story = context.partition(worst["tp"])
    what = f"Fault {fault['fault']} ({fault_words(fault)})"
    sentence = (
        f"After {what} began, {story.name} never took a write again"
        if worst["open"]
        else f"After {what} began, the last of {len({row['tp'] for row in touched})} partitions without writes "
        f"({story.name}) took them again {seconds:.3f} s later"
    )
    classification, sentence = _judged(sentence, float("inf") if worst["open"] else seconds, bound_s)
    return Finding(
        run=context.run, check="recovery", classification=classification, kind=fault["kind"] or "fault", count=1,
        sentence=sentence, t_first=fault["t_begin"], t_last=worst["end_t"], faults=[fault["fault"]],
        evidence={"seconds": seconds, "open": worst["open"], "bound_s": bound_s},
    )  # fmt: skip


def fault_measures(context: RunContext, end_t: int | None) -> list[dict[str, Any]]:
    """One row per fault whose effect was seen; `end_t`: when the run's last operation ended."""
    faults = [row for row in context.story.faults if row["t_begin"] is not None]
    ends = [end_t, *(row["t_end"] for row in faults), *(row["t_begin"] for row in faults)]
    last = max((t for t in ends if t is not None), default=0)
    states = [row for row in context.tables.get("partition_states", ()) if row["t"] <= last]
    leaders, whole = leader_times(states, faults, last), in_sync_times(states, faults, last)
    rows = []
    for fault in faults:
        led, in_sync = leaders.get(fault["fault"]), whole.get(fault["fault"])
        gap = _longest_gap(context.gaps, fault)
        rows.append(
            {
                "run": context.run, "fault": fault["fault"], "kind": fault["kind"], "label": fault["label"],
                "begin_t": fault["t_begin"], "end_t": fault["t_end"],
                "leader_s": led.seconds if led else None, "leader_never": led.never if led else None,
                "in_sync_s": in_sync.seconds if in_sync else None, "in_sync_never": in_sync.never if in_sync else None,
                "gap_s": gap[1] if gap else None, "gap_never": gap[0] if gap else None,
            }
        )  # fmt: skip
    return rows


def _longest_gap(gaps: Sequence[Row], fault: Row) -> tuple[bool, float] | None:
    """(never again, seconds) of the part after the fault began."""
    return max(
        ((row["open"], (row["end_t"] - max(row["begin_t"], fault["t_begin"])) / 1e9)
         for row in gaps if _touched(row, fault)), default=None,
    )  # fmt: skip
