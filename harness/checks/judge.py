"""From run folders to verdicts: detects, rules, writes findings and evidence, and computes the verdict.

The verdict of a run never depends on its page, and needs only the folder: `judge` can be repeated, later and on
another machine. Many folders are judged in one Spark job.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark import errors as spark_errors
from pyspark.sql import SparkSession

from harness.checks import evidence_tables as evidence
from harness.checks import log_comparison
from harness.checks.answers import added_anomalies, find_all, rows_of
from harness.checks.catalogue import FLAGS, families
from harness.checks.coverage import (
    NO_ACTIVITY,
    NO_ZOMBIES,
    CoverageRow,
    Facts,
    ZombieRow,
    acks_during_fault,
    measure,
    zombies,
)
from harness.checks.evidence_tables import Sums
from harness.checks.families.application import flow
from harness.checks.families.cluster import availability, no_progress, node_ended
from harness.checks.families.evidence import insufficient, missing
from harness.checks.families.transactions import cycle, hanging_transaction
from harness.checks.findings import Finding, RunContext
from harness.checks.judged_runs import JudgedRuns, by_run
from harness.checks.log_starts import with_bounds
from harness.checks.model.decided_transactions import with_decisions
from harness.checks.model.kept_records import with_each_record_once
from harness.checks.model.partition_history import PartitionHistory, RunHistory, read_run_history
from harness.checks.outcome import ExpectationRow, outcome_of
from harness.checks.spark.concurrent_queries import Progress, concurrent_queries
from harness.checks.spark.detection import Detection, detect
from harness.checks.spark.session import sized_for
from harness.checks.spark.tables import Tables, check_tables, open_tables
from harness.checks.verdict_sentence import broken_invariant_sentence, verdict_sentence
from harness.checks.wording.words import plural
from harness.errors import MISFITS, HarnessError, misfit
from harness.history.accepted import Accepted, accepted_of, is_accepted, today
from harness.history.facts.extent import MANY_ROWS
from harness.history.facts.incarnations import client_name
from harness.history.run_folder import RunFolder
from harness.history.schema.cluster_rows import BROKER_EVENTS, CONFIGURATION, CONTROLLERS
from harness.history.schema.column_types import END_OF_TIME_NS
from harness.history.schema.schemas import EVIDENCE, FINDINGS
from harness.history.schema.typed_rows import AnyRow, OfRun, TypedRows
from harness.history.sealed.derived_tables import complete
from harness.host.memory import TooLarge
from harness.scenario.file import scenario_of
from harness.scenario.model import Scenario
from harness.verdict import Verdict, exit_code_with

# Errors of a query of data that none of our runs can contain. Others are our own bugs, or problems of the JVM.
_SPARK_MISFITS = (
    spark_errors.ArithmeticException,
    spark_errors.ArrayIndexOutOfBoundsException,
    spark_errors.DateTimeException,
    spark_errors.NumberFormatException,
    spark_errors.SparkRuntimeException,
)
_NEED_ZOMBIES = {"zombie_acks", "acks_unclean_epoch"}


@dataclass(frozen=True, kw_only=True)
class RunInput:
    """What the checks know of a run in addition to its tables: run.json and the scenario."""

    scenario: Scenario | None
    run: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """The result of a run. `as_expected`: verdict and findings are as the scenario states."""

    verdict: Verdict
    sentence: str
    reasons: tuple[str, ...]
    counts: Mapping[str, int]
    coverage: tuple[CoverageRow, ...]
    expectations: tuple[ExpectationRow, ...]
    as_expected: bool
    expected: str
    accounting: Sums
    findings: tuple[tuple[str, Finding], ...]  # by name, worst first
    set_aside: Mapping[str, Accepted] = field(default_factory=dict)  # violations that are known, by the finding's name
    broken_invariant: str = ""  # of a simulated run, in a sentence: no finding, and nothing that a user saw
    excuse_nothing: tuple[str, ...] = ()  # a line for each accepted one whose last day is over, or that is not shown

    @property
    def exit_code(self) -> int:
        return exit_code_with(self.verdict.exit_code, is_invariant_broken=bool(self.broken_invariant))

    def as_json(self) -> dict[str, Any]:
        return {
            "verdict": self.verdict.value,
            "exit_code": self.exit_code,
            "sentence": self.sentence,
            "reasons": list(self.reasons),
            "counts": dict(self.counts),
            "coverage": list(self.coverage),
            "expectations": list(self.expectations),
            "as_expected": self.as_expected,
            "expected": self.expected,
            "accounting": dict(self.accounting),
            "anomalies": added_anomalies(),
            "broken_invariant": self.broken_invariant,
            "set_aside": [{"finding": name, **known.as_table()} for name, known in self.set_aside.items()],
        }


def judge(run_folder_path: str | Path, spark: SparkSession, *, progress: Progress | None = None) -> Judgement:
    return judge_many([run_folder_path], spark, progress=progress)[0]


def judge_many(
    run_folder_paths: Sequence[str | Path], spark: SparkSession, *, progress: Progress | None = None
) -> list[Judgement]:
    """Judges sealed run folders in one job and writes findings.parquet, evidence_*.parquet and verdict.json in each."""
    folders = [RunFolder(path) for path in run_folder_paths]
    inputs = [RunInput(scenario=scenario_of(folder), run=folder.run) for folder in folders]
    for folder in folders:
        complete(folder)
    with open_tables(spark, [folder.path / "tables" for folder in folders]) as tables:
        judged = judge_tables(spark, tables, inputs, progress=progress)
    for folder, (judgement, evidences) in zip(folders, judged, strict=True):
        write(folder, judgement, evidences)
    return [judgement for judgement, _ in judged]


def judge_each(
    folders: Sequence[Path], spark: SparkSession, *, progress: Progress | None = None
) -> dict[Path, Judgement | HarnessError]:
    """Like `judge_many`; a folder that cannot be judged gets its error, and the others are still judged."""
    if not folders:
        return {}
    try:
        return dict(zip(folders, judge_many(folders, spark, progress=progress), strict=True))
    except HarnessError as error:
        unfit = {folder: why for folder in folders if (why := _unfit(folder)) is not None}
        if not unfit and isinstance(error, TooLarge) and len(folders) > 1:  # each one alone is not too large
            return _in_halves(folders, spark, progress)
        if not unfit:
            raise
    except (*MISFITS, *_SPARK_MISFITS, pa.ArrowException) as error:
        if len(folders) == 1:
            return {folders[0]: misfit(folders[0], error)}
        return _in_halves(folders, spark, progress)  # finds the one that fails by judging fewer at once
    return judge_each([folder for folder in folders if folder not in unfit], spark, progress=progress) | unfit


def _in_halves(
    folders: Sequence[Path], spark: SparkSession, progress: Progress | None
) -> dict[Path, Judgement | HarnessError]:
    half = len(folders) // 2
    parts = (folders[:half], folders[half:])
    return {path: judgement for part in parts for path, judgement in judge_each(part, spark, progress=progress).items()}


def _unfit(path: Path) -> HarnessError | None:
    """Why this folder cannot be judged; looks at each of its tables separately."""
    try:
        folder = RunFolder(path)
        scenario_of(folder)
        complete(folder)
        check_tables(path / "tables")
    except HarnessError as error:
        return error
    return None


Evidences = Mapping[str, Sequence[AnyRow]]


def judge_tables(
    spark: SparkSession,
    tables: Tables,
    inputs: Sequence[RunInput],
    *,
    with_evidence: bool = True,
    progress: Progress | None = None,
) -> list[tuple[Judgement, Evidences]]:
    """Judges runs 0..n-1 of `tables`; writes nothing."""
    tell = progress or _nobody
    spark = sized_for(spark, tables.row_count)
    tables = with_decisions(spark, with_each_record_once(tables), [given.scenario for given in inputs])
    asked = _ask(spark, tables, inputs, tell)
    contexts, detection = asked.contexts, asked.detection
    tell("findings")
    named = {context.run: name_findings(find_all(context)) for context in contexts}
    every = [pair for context in contexts for pair in named[context.run]]
    of_run = {context.run: context for context in contexts}
    log_rows, operations = _evidence_asked(spark, tables, of_run, every, tell) if with_evidence else ({}, {})
    accounting = by_run(detection.accounting)
    activities = tables.activity
    judged: list[tuple[Judgement, Evidences]] = []
    for context, given in zip(contexts, inputs, strict=True):
        run = context.run
        activity = activities.get(run, NO_ACTIVITY)
        until = activity["replica_reads_began_ns"]
        facts = Facts(
            context=context,
            accounting=accounting.get(run, ()),
            activity=activity,
            sent_again=detection.sent_again.get(run, 0),
            findings=[finding for _, finding in named[run]],
            controllers=sorted(tables.rows(CONTROLLERS, run), key=lambda row: row["time_ns"]),
            broker_events=tables.rows(BROKER_EVENTS, run),
            configuration=tables.rows(CONFIGURATION, run),
            zombies=asked.zombies.get(run, NO_ZOMBIES),
            acks_during_fault=asked.acks_during_fault.get(run, 0),
            until=END_OF_TIME_NS if until is None else until,
        )
        evidences: Evidences = {
            "accounting": evidence.accounting_rows(context, facts.accounting),
            "lost_records": evidence.lost_record_rows(named[run]),
            "log_rows": log_rows.get(run, ()),
            "operations": operations.get(run, ()),
            "gaps": evidence.gap_rows(context),
            "fault_measures": availability.fault_measures(context, activity["last_ns"]),
        }
        judged.append((_judgement(given, facts, named[run]), evidences))
    return judged


def _evidence_asked(
    spark: SparkSession,
    tables: Tables,
    contexts: Mapping[int, RunContext],
    every: Sequence[tuple[str, Finding]],
    tell: Progress,
) -> tuple[Mapping[int, Sequence[AnyRow]], Mapping[int, Sequence[AnyRow]]]:
    """By run what the logs hold near the findings, and the operations that show them."""
    with concurrent_queries(tables.record_count, tell) as all_at_once:
        logs = all_at_once.ask("evidence", lambda: log_comparison.log_rows(tables, contexts, every))
        operations = all_at_once.ask("evidence", lambda: evidence.operation_rows(tables, every))
        return by_run(logs.result()), by_run(operations.result())


def _nobody(phase: str) -> None:
    """Ignores progress."""


@dataclass(frozen=True, kw_only=True)
class _Answers:
    """The results of the queries that need no finding, each one job for all runs."""

    detection: Detection
    contexts: list[RunContext]
    zombies: Mapping[int, ZombieRow]
    acks_during_fault: Mapping[int, int]


def _ask(spark: SparkSession, tables: Tables, inputs: Sequence[RunInput], tell: Progress) -> _Answers:
    queries = [(family, family.query) for family in families() if family.query is not None]
    answers: dict[str, Future[Sequence[OfRun]]] = {}
    # The history first if it is long, so that a broken table is reported before a long pass.
    read = _histories(tables, inputs) if tables.record_count > MANY_ROWS else None
    with concurrent_queries(tables.record_count, tell) as all_at_once:
        detecting = all_at_once.ask("records", lambda: detect(spark, tables, FLAGS))
        histories = read if read is not None else _histories(tables, inputs)  # while Spark plans the query
        histories = with_bounds(spark, tables, histories)
        runs = JudgedRuns(spark=spark, tables=tables, histories=histories, detecting=detecting.result)
        for family, query in queries:
            if not family.follows_detection:
                answers[family.name] = all_at_once.ask(family.name, partial(rows_of, family, query, runs))
        wanted = {name for given in inputs if given.scenario for name in given.scenario.coverage}
        undead = (
            all_at_once.ask("zombies", lambda: zombies(spark, tables, histories)) if wanted & _NEED_ZOMBIES else None
        )
        in_force = (
            all_at_once.ask("acks during faults", lambda: acks_during_fault(tables))
            if "acks_during_fault" in wanted
            else None
        )
        detection = detecting.result()
        for family, query in queries:
            if family.follows_detection:
                answers[family.name] = all_at_once.ask(family.name, partial(rows_of, family, query, runs))
        contexts = _contexts(runs, {name: by_run(answer.result()) for name, answer in answers.items()}, inputs)
        return _Answers(
            detection=detection,
            contexts=contexts,
            zombies=undead.result() if undead else {},
            acks_during_fault=in_force.result() if in_force else {},
        )


def _histories(tables: Tables, inputs: Sequence[RunInput]) -> list[RunHistory]:
    return [
        read_run_history(
            tables, run, given.scenario, given.run.get("load_began_ns"), anchors=given.run.get("anchors") or ()
        )
        for run, given in enumerate(inputs)
    ]


def _contexts(
    runs: JudgedRuns, answers: Mapping[str, Mapping[int, list[OfRun]]], inputs: Sequence[RunInput]
) -> list[RunContext]:
    counts: dict[int, dict[tuple[int, str], int]] = {}
    for (run, partition_id, flag), number in runs.detection.counts.items():
        counts.setdefault(run, {})[partition_id, flag] = number
    return [
        RunContext(
            history=history,
            flagged=runs.detection.flagged[history.run],
            counts=counts.get(history.run, {}),
            rows=TypedRows({name: answer.get(history.run, ()) for name, answer in answers.items()}),
            tables=TypedRows({name: rows.get(history.run, ()) for name, rows in runs.tables.small.items()}),
            reads={place: reads for (run, place), reads in runs.detection.reads.items() if run == history.run},
            journals_may_lack_their_end=bool(inputs[history.run].run.get("journals_may_lack_their_end")),
        )
        for history in runs.histories
    ]


_ORDER = {"violation": 0, "permitted": 1, "observation": 2}


def name_findings(findings: Sequence[Finding]) -> list[tuple[str, Finding]]:
    """F1, F2, ...: violations first, then permitted, then observations; stable within a class."""
    ordered = sorted(findings, key=lambda finding: _ORDER[finding.classification])
    return [(f"F{number}", finding) for number, finding in enumerate(ordered, start=1)]


def _judgement(given: RunInput, facts: Facts, named: list[tuple[str, Finding]]) -> Judgement:
    scenario = given.scenario
    coverage = measure(scenario.coverage if scenario else {}, facts)
    accounting = evidence.accounting_summary(facts.accounting, facts)
    set_aside = _set_aside(given, named)
    counted = [(name, finding) for name, finding in named if name not in set_aside]
    verdict, reasons = _verdict(given, facts, counted, coverage, accounting)
    outcome = outcome_of(scenario.expect if scenario else None, verdict, [finding for _, finding in counted])
    counts = {name: sum(finding.classification == name for _, finding in named) for name in _ORDER}
    ended = node_ended.summary(facts.context.history, [f for _, f in named], are_told=verdict is Verdict.INCONCLUSIVE)
    came_out = flow.summary(facts.context, [f for _, f in named])
    besides = [ended, availability.summary(facts.context), no_progress.summary([f for _, f in named]), came_out]
    broken = broken_invariant_sentence(given.run.get("broken_invariant"))
    besides.insert(0, broken)
    known = [f"{name} ({each.reason}, until {each.until})" for name, each in set_aside.items()]
    of_others = [f for _, f in counted]
    sentence = verdict_sentence(verdict, reasons, of_others, accounting, besides=besides, set_aside=known)
    return Judgement(
        verdict=verdict,
        sentence=sentence,
        reasons=tuple(reasons),
        counts=counts,
        coverage=tuple(coverage),
        expectations=tuple(outcome.expectations),
        as_expected=outcome.holds and (not broken or bool(scenario and scenario.cluster.flaws)),
        expected=outcome.expected,
        accounting=accounting,
        findings=tuple(named),
        set_aside=set_aside,
        broken_invariant=broken,
        excuse_nothing=tuple(_excuse_nothing(given, named)),
    )


def _set_aside(given: RunInput, named: Sequence[tuple[str, Finding]]) -> Mapping[str, Accepted]:
    """The violations that are known and accepted to this day: they stay what they are, and decide nothing."""
    accepted, now = accepted_of(given.run), today()
    return {
        name: accepted[finding.fingerprint]
        for name, finding in named
        if finding.classification == "violation" and is_accepted(finding.fingerprint, accepted, now)
    }


def _excuse_nothing(given: RunInput, named: Sequence[tuple[str, Finding]]) -> Iterator[str]:
    shown, now = {finding.fingerprint for _, finding in named}, today()
    for each in accepted_of(given.run).values():
        if not each.holds(now):
            yield each.over_words
        elif each.fingerprint not in shown:
            yield each.not_shown_by("no finding of this run")


def _verdict(
    given: RunInput,
    facts: Facts,
    named: Sequence[tuple[str, Finding]],
    coverage: Sequence[CoverageRow],
    accounting: Sums,
) -> tuple[Verdict, list[str]]:
    """error > violation > inconclusive > vacuous > pass; returns all reasons, not only the deciding ones."""
    errors = [_closed(f"The run could not be done: {given.run['error']}")] if given.run.get("error") else []
    errors += [_closed(error) for error in node_ended.errors(facts.context.history)]
    violations = [f"{name}: {f.sentence}" for name, f in named if f.classification == "violation"]
    open_ends = (
        _open(named, of_ends=True)  # the cause of what follows
        + ([] if _may_be_unread(given) else hanging_transaction.holding_back(facts.context.history, named))
        + _inconclusive(given, facts)
        + missing.reasons(facts.context, given.run, accounting)
        + cycle.not_searched(facts.context)
        + _open(named, of_ends=False)
    )
    unmet = [
        f"Coverage: {row['condition']} ({row['meaning']}): required {row['required']}, seen {row['seen']}."
        for row in coverage
        if not row["met"]
    ]
    unmet += insufficient.uncommitted(facts)
    # A scenario's own conditions say more precisely what was not seen.
    unmet = unmet or insufficient.nothing_promised(facts)
    nothing = [] if unmet else insufficient.nothing_compared(facts)
    for verdict, reasons in (
        (Verdict.ERROR, errors),
        (Verdict.VIOLATION, violations),
        (Verdict.INCONCLUSIVE, open_ends),
        (Verdict.VACUOUS, unmet),
        (Verdict.INCONCLUSIVE, nothing),
    ):
        if reasons:
            return verdict, [*errors, *violations[:20], *open_ends, *unmet, *nothing]
    return Verdict.PASS, []


def _open(named: Sequence[tuple[str, Finding]], *, of_ends: bool) -> list[str]:
    return [f"{name}: {f.sentence}" for name, f in named if f.is_open and (f.check == node_ended.CHECK) is of_ends]


def _inconclusive(given: RunInput, facts: Facts) -> list[str]:
    reasons = [_closed(str(reason)) for reason in given.run.get("inconclusive") or ()]
    for step in facts.context.history.steps:
        is_known = step["step"] == given.run.get("plan_ended_at_step")  # the controller has already given this reason
        if step["kind"] == "wait" and step["outcome"] in ("timeout", "failed") and not is_known:
            seen = f" Seen: {step['seen_text']}." if step["seen_text"] else ""
            reasons.append(f"Step {step['step'] + 1} timed out: {step['step_text']}.{seen}")
    reasons += [
        f"Records of {client_name(history.topic)}-{history.partition} were acknowledged while its topic was deleted "
        "and created again, and are not in the final log: it is unknown which of the two topics had them."
        for history in facts.context.history.partitions.values()
        if history.is_set_apart and any(row.partition_id == history.partition_id for row in facts.context.flagged)
    ]
    return reasons if _may_be_unread(given) else reasons + _unread(given, facts)


def _unread(given: RunInput, facts: Facts) -> list[str]:
    topics = given.scenario.topics if given.scenario is not None else ()
    created = {topic.name: topic.partition_count for topic in topics}
    own: list[PartitionHistory] = []
    added: list[PartitionHistory] = []
    for history in facts.context.history.partitions.values():
        if not (history.read_to_end or history.deletion or history.is_set_apart):
            is_added = history.partition >= created.get(history.topic, history.partition + 1)
            (added if is_added else own).append(history)
    reasons = [f"{plural(len(own), 'partition')} could not be read to the end: {_named(own)}."] if own else []
    if added:
        reasons.append(f"Nobody read {_named(added)}: what is added to a topic while a run goes on is not read.")
    return reasons


def _named(partitions: Sequence[PartitionHistory]) -> str:
    return ", ".join(history.name for history in partitions[:5]) + (", ..." if len(partitions) > 5 else "")


def _may_be_unread(given: RunInput) -> bool:
    """Whether the scenario is about a partition that cannot be read."""
    return given.scenario is not None and given.scenario.expect.unreadable


def _closed(text: str) -> str:
    return (text[:1].upper() + text[1:]).rstrip(".") + "."


# ---- writing --------------------------------------------------------------------------------------------------------


def write(folder: RunFolder, judgement: Judgement, evidences: Evidences) -> None:
    rows = [finding.as_row(name) for name, finding in judgement.findings]
    folder.write_table("findings", pa.Table.from_pylist(rows, schema=FINDINGS))
    for name, schema in EVIDENCE.items():
        with folder.files.replacing(f"tables/evidence_{name}.parquet") as file:
            if evidences[name]:
                pq.write_table(pa.Table.from_pylist(list(evidences[name]), schema=schema), file, compression="zstd")
            else:
                file.write(_empty_evidence(name))
    folder.write_text("verdict.json", json.dumps(judgement.as_json(), indent=2) + "\n")


@cache
def _empty_evidence(name: str) -> bytes:
    """An empty table, cached: most are empty, and encoding them for 1000 runs takes longer than the checks."""
    sink = pa.BufferOutputStream()
    pq.write_table(EVIDENCE[name].empty_table(), sink, compression="zstd")
    content: bytes = sink.getvalue().to_pybytes()
    return content
