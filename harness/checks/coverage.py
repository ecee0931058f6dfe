"""Counts what a scenario's [coverage] requires; harness/verdict.py has the names and their meaning."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypedDict

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from harness.checks.families.cluster import availability
from harness.checks.findings import Finding, RunContext
from harness.checks.model.elections import Election
from harness.checks.model.partition_history import RunHistory
from harness.checks.spark.detection import AccountLine
from harness.checks.spark.passing_by import records_of
from harness.checks.spark.tables import Tables, small_frame
from harness.history.facts.fault_facts import begin_of, begun, end_of, overlapping
from harness.history.schema.client_rows import GROUP_EVENTS, TRANSACTIONS, ActivityRow
from harness.history.schema.cluster_rows import FAULTS, BrokerEventRow, ConfigurationRow, ControllerRow
from harness.history.schema.internal_rows import CONSUMER_OFFSETS
from harness.history.schema.schemas import KIND_SEND, NEVER_BEGUN, STATUS_OK
from harness.history.schema.typed_rows import typed
from harness.verdict import is_met, kinds_counted_by, meaning_of, unknown_coverage_name


class ZombieRow(TypedDict):
    """Acknowledgements by deposed leaders, and in epochs that began with an unclean election."""

    run: int
    zombie_acks: int
    acks_unclean_epoch: int


@dataclass(frozen=True, kw_only=True)
class Facts:
    """The facts of one run that coverage counts. until: begin of the replica reads, which cause elections."""

    context: RunContext
    accounting: Sequence[AccountLine]
    sent_again: int  # sends of values that had been sent before
    activity: ActivityRow
    findings: Sequence[Finding]
    controllers: Sequence[ControllerRow]
    broker_events: Sequence[BrokerEventRow]
    configuration: Sequence[ConfigurationRow]
    zombies: ZombieRow
    acks_during_fault: int
    until: int

    def elections(self) -> list[Election]:
        """The elections after the first one of each partition."""
        return [
            election
            for history in self.context.history.partitions.values()
            for election in history.elections[1:]
            if election.time_ns <= self.until
        ]

    def isr_changes(self) -> list[tuple[frozenset[int], frozenset[int]]]:
        changes = []
        for history in self.context.history.partitions.values():
            for before, row in pairwise(history.states):
                was, now = frozenset(before["isr"] or ()), frozenset(row["isr"] or ())
                if was != now and row["time_ns"] <= self.until:
                    changes.append((was, now))
        return changes

    def events(self, *names: str) -> list[BrokerEventRow]:
        return [row for row in self.broker_events if row["event"] in names and row["time_ns"] <= self.until]

    def faults(self, *kinds: str) -> int:
        return sum(
            1
            for row in self.context.history.faults
            if row["begin_ns"] is not None and row["proved"] and (not kinds or row["kind"] in kinds)
        )

    def answered(self, status: int, acks: tuple[int, ...] = (-1, 0, 1)) -> int:
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
        rows = self.context.tables[GROUP_EVENTS]
        return sum(1 for row in rows if row["event"] == event and row["status"] == STATUS_OK)

    def transactions(self, outcome: int) -> int:
        return sum(1 for row in self.context.tables[TRANSACTIONS] if row["outcome"] == outcome)

    def steps(self, kind: str | None = None) -> int:
        return sum(1 for s in self.context.history.steps if s["outcome"] == "ok" and kind in (None, s["kind"]))


def _acks(row: AccountLine) -> int:
    return -1 if row["acks"] is None else int(row["acks"])


def _preferred(facts: Facts) -> int:
    count = 0
    for history in facts.context.history.partitions.values():
        for election in history.elections[1:]:
            first = history.replicas[0] if history.replicas else None
            led = election.leader_before
            if election.leader == first and led != first and led in election.isr and election.time_ns <= facts.until:
                count += 1
    return count


def _leaderless(facts: Facts) -> int:
    return sum(
        1
        for history in facts.context.history.partitions.values()
        for before, row in pairwise(history.states)
        if row["leader"] < 0 <= before["leader"] and row["time_ns"] <= facts.until
    )


def _controller_changes(facts: Facts) -> int:
    nodes = [row for row in facts.controllers if row["node"] >= 0 and row["time_ns"] <= facts.until]
    epochs = {row["controller_epoch"] for row in nodes if row["controller_epoch"] is not None}
    changes = sum(1 for a, b in pairwise(nodes) if a["node"] != b["node"])
    return max(changes, len(epochs) - 1, 0)


def _deaths_and_births(facts: Facts) -> int:
    """Counts leaders that went down and returned before the controller had moved any of their partitions."""
    count = 0
    gone: dict[int, int] = {}
    for event in sorted(facts.events("broker_gone", "broker_registered"), key=lambda row: row["time_ns"]):
        node, t = event["node"], event["time_ns"]
        if event["event"] == "broker_gone":
            gone[node] = t
        elif node in gone:
            died = gone.pop(node)
            led = [
                history
                for history in facts.context.history.partitions.values()
                if (state := history.state_at(died)) is not None and state["leader"] == node
            ]
            moved = any(died < row["time_ns"] <= t for history in led for row in history.states)
            count += bool(led) and not moved
    return count


def _truncated(facts: Facts) -> list[tuple[int, int]]:
    return [
        (cut.to_offset, cut.from_offset)
        for history in facts.context.history.partitions.values()
        for cut in history.truncations
        if cut.time_ns <= facts.until
    ]


def _rebalances(facts: Facts) -> int:
    """Of a group whose members tell no generations its coordinator's log has them."""
    generations: dict[str, set[int]] = {}
    for row in facts.context.tables[GROUP_EVENTS]:
        if row["event"] == "assigned":
            told = generations.setdefault(row["group"], set())
            told.update(() if row["generation"] is None else (row["generation"],))
    silent = {group for group, told in generations.items() if not told}
    for kept in facts.context.tables[CONSUMER_OFFSETS] if silent else ():
        is_theirs = kept["members"] if kept["kind"] == "group" else kept["kind"] == "group_epoch"
        if is_theirs and kept["group"] in silent and kept["generation"] is not None:
            generations[kept["group"]].add(kept["generation"])
    return sum(max(len(numbers) - 1, 0) for numbers in generations.values())


COUNTERS: Mapping[str, Callable[[Facts], int]] = {
    "acks": lambda f: f.answered(0, (-1, 1)),
    "acks_during_fault": lambda f: f.acks_during_fault,
    "acks_all": lambda f: f.answered(0, (-1,)),
    "acks_1": lambda f: f.answered(0, (1,)),
    "acks_unclean_epoch": lambda f: f.zombies["acks_unclean_epoch"],
    "zombie_acks": lambda f: f.zombies["zombie_acks"],
    "refused": lambda f: f.answered(1),
    "unknown": lambda f: f.answered(2),
    "reads": lambda f: f.activity["reads"],
    "final_reads": lambda f: f.activity["final_reads"],
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
    "faults": lambda f: len(f.context.history.faults),
    "faults_with_proof": lambda f: f.faults(),
    "overlaps": lambda f: len(overlapping(f.context.history.faults)),
    "overlaps_apart": lambda f: sum(one.isdisjoint(other) for one, other in overlapping(f.context.history.faults)),
    "steps": lambda f: f.steps(),
    "waits_seen": lambda f: f.steps("wait"),
    "expectations": lambda f: f.steps("expect"),
    "node_ends": lambda f: len(f.context.history.ends),
    "broker_starts": lambda f: len(f.events("broker_start")),
    "deaths_and_births_in_one_event": _deaths_and_births,
    "configuration_changes": lambda f: sum(row["source"] is None for row in f.configuration),
    "lost": lambda f: f.lost(),
    "lost_permitted": lambda f: f.lost("permitted"),
    "unreadable": lambda f: f.found("unreadable"),
    "log_starts_advanced": lambda f: sum((s.log_start or 0) > 0 for s in f.context.history.partitions.values()),
    "commits": lambda f: f.group_events("committed"),
    "rebalances": _rebalances,
    "redelivered": lambda f: f.found("group-redelivery"),
    "transactions_committed": lambda f: f.transactions(0),
    "transactions_aborted": lambda f: f.transactions(1),
    "transactions_unknown": lambda f: f.transactions(2),
    "transactions_never_begun": lambda f: f.transactions(NEVER_BEGUN),
    "removed": lambda f: f.found("removed-by-configuration"),
    "gaps": lambda f: len(f.context.rows[availability.ANSWER]),
}


class CoverageRow(TypedDict):
    """A row of verdict.json."""

    condition: str
    meaning: str
    required: str
    seen: int
    met: bool


def measure(required: Mapping[str, str], facts: Facts) -> list[CoverageRow]:
    rows: list[CoverageRow] = []
    for name, wanted in required.items():
        kinds = kinds_counted_by(name)
        if not kinds and name not in COUNTERS:
            raise unknown_coverage_name(name)
        seen = facts.faults(*kinds) if kinds else COUNTERS[name](facts)
        rows.append(
            {
                "condition": name,
                "meaning": meaning_of(name),
                "required": str(wanted),
                "seen": seen,
                "met": is_met(str(wanted), seen),
            }
        )
    return rows


NO_ACTIVITY: ActivityRow = {
    "run": -1,
    "sends": 0,
    "reads": 0,
    "final_reads": 0,
    "replica_reads_began_ns": None,
    "last_ns": None,
    "transactional": False,
    "halting": False,
    "log_append": False,
}
NO_ZOMBIES: ZombieRow = {"run": -1, "zombie_acks": 0, "acks_unclean_epoch": 0}


def acks_during_fault(tables: Tables) -> dict[int, int]:
    """Run -> number of records acknowledged while a fault was in force."""
    spans: dict[int, list[tuple[int, int]]] = {}
    for row in begun(tables.every(FAULTS)):
        if begin_of(row) <= end_of(row):
            spans.setdefault(row["run"], []).append((begin_of(row), end_of(row)))
    if not spans:
        return {}
    edges = {run: _edges(of_run) for run, of_run in spans.items()}
    count = dict.fromkeys(edges, 0)
    acknowledged = (
        (pc.field("kind") == KIND_SEND)
        & (pc.field("status") == STATUS_OK)
        & pc.field("run").isin(pa.array([*edges], pa.int32()))
    )
    promised = pc.is_null(pc.field("acks")) | (pc.field("acks") != 0)
    for batch in records_of(tables, ["run", "completed_ns"], acknowledged & promised):
        run_of, completed_ns = batch["run"].to_numpy(), batch["completed_ns"].to_numpy()
        for run in np.unique(run_of).tolist():
            begins, ends = edges[run]
            at = completed_ns[run_of == run]
            in_force = np.searchsorted(begins, at, side="right") - np.searchsorted(ends, at, side="left")
            count[run] += int(np.count_nonzero(in_force))
    return {run: found for run, found in count.items() if found}


def _edges(spans: Sequence[tuple[int, int]]) -> tuple[Any, Any]:
    """The begins, and the ends, in order: in force is what has begun and not ended."""
    begins, ends = zip(*spans, strict=True)
    return np.sort(np.array(begins, np.int64)), np.sort(np.array(ends, np.int64))


def zombies(spark: SparkSession, tables: Tables, histories: Sequence[RunHistory]) -> dict[int, ZombieRow]:
    """Acknowledgements by a leader whose successor had been elected before the record was sent; by epoch."""
    elected = [
        {
            "run": of_run.run,
            "partition_id": history.partition_id,
            "time_ns": election.time_ns + election.uncertainty_ns,
            "leader_epoch": election.epoch,
            "unclean": election.unclean,
        }
        for of_run in histories
        for history in of_run.partitions.values()
        for election in history.elections
    ]
    if not elected:
        return {}
    columns = ("run", "partition_id", "time_ns", "leader_epoch", "unclean")
    per_partition = (
        small_frame(spark, columns, elected)
        .groupBy("run", "partition_id")
        .agg(sf.collect_list(sf.struct("time_ns", "leader_epoch", "unclean")).alias("elected"))
    )
    epochs = tables.replica_log.groupBy("run", "partition_id", "value").agg(sf.min("leader_epoch").alias("log_epoch"))
    acked = tables.records.where("kind = 0 and status = 0 and coalesce(acks, -1) <> 0").select(
        "run", "partition_id", "value", "invoked_ns"
    )
    rows = (
        acked.join(sf.broadcast(per_partition), ["run", "partition_id"])
        .join(epochs, ["run", "partition_id", "value"])
        .groupBy("run")
        .agg(
            sf.count_if(sf.expr("exists(elected, e -> e.leader_epoch > log_epoch and e.time_ns < invoked_ns)")).alias(
                "zombie_acks"
            ),
            sf.count_if(sf.expr("exists(elected, e -> e.leader_epoch = log_epoch and e.unclean)")).alias(
                "acks_unclean_epoch"
            ),
        )
    )
    return {row["run"]: row for row in typed(ZombieRow, rows.toArrow())}
