"""Counts what a scenario's [coverage] asks for; the names and what they mean are in harness/verdict.py."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from harness.checks.detection import small_frame
from harness.checks.elections import Election
from harness.checks.findings import Finding, RunContext
from harness.checks.story import RunStory
from harness.checks.tables import Row, Tables
from harness.history.schemas import STATUS_OK
from harness.verdict import COVERAGE_CONDITIONS, is_met, unknown_coverage_name

_FAR = 2**62


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What one run is measured by. until: when replicas were read one by one, which makes elections of its own."""

    context: RunContext
    accounting: Sequence[Row]
    activity: Row
    findings: Sequence[Finding]
    controllers: Sequence[Row]
    broker_events: Sequence[Row]
    configuration: Sequence[Row]
    zombies: Row
    acks_during_fault: int
    until: int

    def elections(self) -> list[Election]:
        """Leaders after the first one of each partition."""
        return [
            election
            for story in self.context.story.partitions.values()
            for election in story.elections[1:]
            if election.t <= self.until
        ]

    def isr_changes(self) -> list[tuple[frozenset[int], frozenset[int]]]:
        changes = []
        for story in self.context.story.partitions.values():
            for before, row in pairwise(story.states):
                was, now = frozenset(before["isr"] or ()), frozenset(row["isr"] or ())
                if was != now and row["t"] <= self.until:
                    changes.append((was, now))
        return changes

    def events(self, *names: str) -> list[Row]:
        return [row for row in self.broker_events if row["event"] in names and row["t"] <= self.until]

    def faults(self, *kinds: str) -> int:
        return sum(
            1
            for row in self.context.story.faults
            if row["t_begin"] is not None and row["proof"] and (not kinds or row["kind"] in kinds)
        )

    def told(self, status: int, acks: tuple[int, ...] = (-1, 0, 1)) -> int:
        return sum(row["count"] for row in self.accounting if row["status"] == status and _acks(row) in acks)

    def lost(self, classification: str | None = None) -> int:
        return sum(
            finding.count
            for finding in self.findings
            if finding.check == "lost-write" and classification in (None, finding.classification)
        )

    def found(self, check: str) -> int:
        return sum(finding.count for finding in self.findings if finding.check == check)

    def group_events(self, event: str) -> int:
        rows = self.context.tables.get("group_events", ())
        return sum(1 for row in rows if row["event"] == event and row["status"] == STATUS_OK)

    def transactions(self, outcome: int) -> int:
        return sum(1 for row in self.context.tables.get("transactions", ()) if row["outcome"] == outcome)

    def steps(self, kind: str | None = None) -> int:
        return sum(1 for s in self.context.story.steps if s["outcome"] == "ok" and kind in (None, s["kind"]))


def _acks(row: Row) -> int:
    return -1 if row["acks"] is None else int(row["acks"])


def _preferred(facts: Facts) -> int:
    count = 0
    for story in facts.context.story.partitions.values():
        for election in story.elections[1:]:
            first = story.replicas[0] if story.replicas else None
            led = election.leader_before
            if election.leader == first and led != first and led in election.isr and election.t <= facts.until:
                count += 1
    return count


def _leaderless(facts: Facts) -> int:
    return sum(
        1
        for story in facts.context.story.partitions.values()
        for before, row in pairwise(story.states)
        if row["leader"] < 0 <= before["leader"] and row["t"] <= facts.until
    )


def _controller_changes(facts: Facts) -> int:
    nodes = [row for row in facts.controllers if row["node"] >= 0 and row["t"] <= facts.until]
    epochs = {row["controller_epoch"] for row in nodes if row["controller_epoch"] is not None}
    changes = sum(1 for a, b in pairwise(nodes) if a["node"] != b["node"])
    return max(changes, len(epochs) - 1, 0)


def _deaths_and_births(facts: Facts) -> int:
    """A leader went and came back before the controller had moved any of its partitions."""
    count = 0
    gone: dict[int, int] = {}
    for event in sorted(facts.events("broker_gone", "broker_registered"), key=lambda row: row["t"]):
        node, t = event["node"], event["t"]
        if event["event"] == "broker_gone":
            gone[node] = t
        elif node in gone:
            died = gone.pop(node)
            led = [
                story
                for story in facts.context.story.partitions.values()
                if (state := story.state_at(died)) is not None and state["leader"] == node
            ]
            moved = any(died < row["t"] <= t for story in led for row in story.states)
            count += bool(led) and not moved
    return count


def _truncated(facts: Facts) -> list[tuple[int, int]]:
    return [
        (cut.to_offset, cut.from_offset)
        for story in facts.context.story.partitions.values()
        for cut in story.truncations
        if cut.t <= facts.until
    ]


def _rebalances(facts: Facts) -> int:
    generations: dict[str, set[int]] = {}
    for row in facts.context.tables.get("group_events", ()):
        if row["event"] == "assigned" and row["generation"] is not None:
            generations.setdefault(row["group"], set()).add(row["generation"])
    return sum(len(numbers) - 1 for numbers in generations.values())


COUNTERS: Mapping[str, Callable[[Facts], int]] = {
    "acks": lambda f: f.told(0, (-1, 1)),
    "acks_during_fault": lambda f: f.acks_during_fault,
    "acks_all": lambda f: f.told(0, (-1,)),
    "acks_1": lambda f: f.told(0, (1,)),
    "acks_unclean_epoch": lambda f: int(f.zombies["acks_unclean_epoch"] or 0),
    "zombie_acks": lambda f: int(f.zombies["zombie_acks"] or 0),
    "refused": lambda f: f.told(1),
    "unknown": lambda f: f.told(2),
    "reads": lambda f: int(f.activity["reads"] or 0),
    "final_reads": lambda f: int(f.activity["final_reads"] or 0),
    "elections": lambda f: len(f.elections()),
    "unclean_elections": lambda f: sum(election.unclean for election in f.elections()),
    "preferred_elections": _preferred,
    "leaderless": _leaderless,
    "isr_shrinks": lambda f: sum(bool(was - now) for was, now in f.isr_changes()),
    "isr_expands": lambda f: sum(bool(now - was) for was, now in f.isr_changes()),
    "isr_changes": lambda f: len(f.isr_changes()),
    "truncations": lambda f: len(_truncated(f)),
    "truncated_records": lambda f: sum(upper - lower for lower, upper in _truncated(f)),
    "controller_changes": _controller_changes,
    "faults": lambda f: len(f.context.story.faults),
    "faults_with_proof": lambda f: f.faults(),
    "kills": lambda f: f.faults("kill"),
    "stops": lambda f: f.faults("stop"),
    "pauses": lambda f: f.faults("pause"),
    "cuts": lambda f: f.faults("cut", "hold"),
    "slow_links": lambda f: f.faults("slow"),
    "impairments": lambda f: f.faults("impair"),
    "wipes": lambda f: f.faults("wipe"),
    "damages": lambda f: f.faults("damage"),
    "disks_full": lambda f: f.faults("full"),
    "steps": lambda f: f.steps(),
    "waits_seen": lambda f: f.steps("wait"),
    "expectations": lambda f: f.steps("expect"),
    "broker_starts": lambda f: len(f.events("broker_start")),
    "deaths_and_births_in_one_event": _deaths_and_births,
    "configuration_changes": lambda f: len(f.configuration),
    "lost": lambda f: f.lost(),
    "lost_permitted": lambda f: f.lost("permitted"),
    "unreadable": lambda f: f.found("unreadable"),
    "log_starts_advanced": lambda f: sum((s.log_start or 0) > 0 for s in f.context.story.partitions.values()),
    "commits": lambda f: f.group_events("committed"),
    "rebalances": _rebalances,
    "redelivered": lambda f: f.found("group-redelivery"),
    "transactions_committed": lambda f: f.transactions(0),
    "transactions_aborted": lambda f: f.transactions(1),
    "transactions_unknown": lambda f: f.transactions(2),
    "removed": lambda f: f.found("removed-by-configuration"),
    "gaps": lambda f: len(f.context.gaps),
}


def measure(required: Mapping[str, str], facts: Facts) -> list[dict[str, Any]]:
    rows = []
    for name, wanted in required.items():
        if name not in COUNTERS:
            raise unknown_coverage_name(name)
        seen = COUNTERS[name](facts)
        rows.append(
            {"condition": name, "meaning": COVERAGE_CONDITIONS[name], "required": str(wanted), "seen": seen,
             "met": is_met(str(wanted), seen)}
        )  # fmt: skip
    return rows


NO_ACTIVITY: Row = {"sends": 0, "reads": 0, "final_reads": 0, "replica_reads_began": None, "t_last": None}
NO_ZOMBIES: Row = {"zombie_acks": 0, "acks_unclean_epoch": 0}


def acks_during_fault(spark: SparkSession, tables: Tables) -> dict[int, int]:
    """Per run: how many records were acknowledged while a fault was in force."""
    spans = [
        {"run": run, "begin_t": row["t_begin"], "end_t": row["t_end"] if row["t_end"] is not None else _FAR}
        for run, rows in tables.small["faults"].items()
        for row in rows
        if row["t_begin"] is not None
    ]
    if not spans:
        return {}
    frame = small_frame(spark, {"run": pa.int32(), "begin_t": pa.int64(), "end_t": pa.int64()}, spans)
    in_force = frame.groupBy("run").agg(sf.collect_list(sf.struct("begin_t", "end_t")).alias("spans"))
    counted = (
        tables.records.where("kind = 0 and status = 0 and coalesce(acks, -1) <> 0")
        .join(sf.broadcast(in_force), "run")
        .where("exists(spans, s -> s.begin_t <= t1 and t1 <= s.end_t)")
        .groupBy("run")
        .count()
    )
    return {row["run"]: row["count"] for row in counted.toArrow().to_pylist()}


def zombies(spark: SparkSession, tables: Tables, stories: Sequence[RunStory]) -> dict[int, Row]:
    """Acknowledgements by a leader whose successor had been elected before the record was sent; by epoch."""
    elected = [
        {"run": of_run.run, "tp": story.tp, "t": election.t + election.uncertainty_ns, "epoch": election.epoch,
         "unclean": election.unclean}
        for of_run in stories
        for story in of_run.partitions.values()
        for election in story.elections
    ]  # fmt: skip
    if not elected:
        return {}
    columns = {"run": pa.int32(), "tp": pa.int32(), "t": pa.int64(), "epoch": pa.int32(), "unclean": pa.bool_()}
    per_partition = (
        small_frame(spark, columns, elected)
        .groupBy("run", "tp")
        .agg(sf.collect_list(sf.struct("t", "epoch", "unclean")).alias("elected"))
    )
    epochs = tables.replica_log.groupBy("run", "tp", "value").agg(sf.min("epoch").alias("log_epoch"))
    acked = tables.records.where("kind = 0 and status = 0 and coalesce(acks, -1) <> 0").select(
        "run", "tp", "value", "t0"
    )
    rows = (
        acked.join(sf.broadcast(per_partition), ["run", "tp"])
        .join(epochs, ["run", "tp", "value"])
        .groupBy("run")
        .agg(
            sf.count_if(sf.expr("exists(elected, e -> e.epoch > log_epoch and e.t < t0)")).alias("zombie_acks"),
            sf.count_if(sf.expr("exists(elected, e -> e.epoch = log_epoch and e.unclean)")).alias("acks_unclean_epoch"),
        )
    )
    return {row["run"]: row for row in rows.toArrow().to_pylist()}
