"""From run folders to verdicts: detect, rule, write findings and evidence, and say what the run came to.

The verdict of a run never depends on how it is rendered, and a folder is all that is needed: `judge` can be repeated,
later and elsewhere. Many folders are judged in one Spark job.
"""

import json
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.errors import (
    ArithmeticException,
    ArrayIndexOutOfBoundsException,
    DateTimeException,
    NumberFormatException,
    SparkRuntimeException,
)
from pyspark.sql import SparkSession

from harness.checks import availability, cycle, evidence, insufficient, missing
from harness.checks.asking import Progress, asking
from harness.checks.catalogue import FAMILIES
from harness.checks.coverage import NO_ACTIVITY, NO_ZOMBIES, Facts, acks_during_fault, measure, zombies
from harness.checks.detection import Detection, detect
from harness.checks.findings import Finding, RunContext
from harness.checks.outcome import outcome_of
from harness.checks.runs import Runs, by_run
from harness.checks.story import RunStory, read_story
from harness.checks.tables import Row, Tables, check_tables, open_tables
from harness.checks.wording.words import plural
from harness.errors import MISFITS, HarnessError, misfit
from harness.history.derived import complete
from harness.history.evidence_schemas import EVIDENCE
from harness.history.extent import MANY_ROWS
from harness.history.incarnations import client_name
from harness.history.run_folder import RunFolder
from harness.history.schemas import FINDINGS
from harness.memory import TooLarge
from harness.scenario import Scenario
from harness.verdict import Verdict

_FAR = 2**62
# Of a question to data that no run of ours has left. The others are bugs of ours, or tell of the JVM.
_SPARK_MISFITS = (
    ArithmeticException, ArrayIndexOutOfBoundsException, DateTimeException, NumberFormatException,
    SparkRuntimeException,
)  # fmt: skip
_NEED_ZOMBIES = {"zombie_acks", "acks_unclean_epoch"}


@dataclass(frozen=True, kw_only=True)
class RunInput:
    """What the checks know of a run beside its tables: run.json and the scenario."""

    scenario: Scenario | None
    run: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """What a run came to. `as_expected`: verdict and findings are the ones the scenario states."""

    verdict: Verdict
    sentence: str
    reasons: tuple[str, ...]
    counts: Mapping[str, int]
    coverage: tuple[Mapping[str, Any], ...]
    expectations: tuple[Mapping[str, Any], ...]
    as_expected: bool
    expected: str
    accounting: Mapping[str, Any]
    findings: tuple[tuple[str, Finding], ...]  # by name, worst first

    @property
    def exit_code(self) -> int:
        return self.verdict.exit_code

    def as_json(self) -> dict[str, Any]:
        return {
            "verdict": self.verdict.value, "exit_code": self.exit_code, "sentence": self.sentence,
            "reasons": list(self.reasons), "counts": dict(self.counts), "coverage": list(self.coverage),
            "expectations": list(self.expectations), "as_expected": self.as_expected, "expected": self.expected,
            "accounting": dict(self.accounting),
        }  # fmt: skip


def judge(run_folder_path: str | Path, spark: SparkSession, *, progress: Progress | None = None) -> Judgement:
    return judge_many([run_folder_path], spark, progress=progress)[0]


def judge_many(
    run_folder_paths: Sequence[str | Path], spark: SparkSession, *, progress: Progress | None = None
) -> list[Judgement]:
    """Judges sealed run folders in one job and writes findings.parquet, evidence_*.parquet and verdict.json in each."""
    folders = [RunFolder(path) for path in run_folder_paths]
    inputs = [RunInput(scenario=folder.scenario(), run=folder.run) for folder in folders]
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
    """As `judge_many`, but for folders that cannot be judged: these cost only themselves, and have their error."""
    if not folders:
        return {}
    try:
        return dict(zip(folders, judge_many(folders, spark, progress=progress), strict=True))
    except HarnessError as error:
        unfit = {folder: why for folder in folders if (why := _unfit(folder)) is not None}
        if not unfit and isinstance(error, TooLarge) and len(folders) > 1:  # each for itself is not
            return _in_halves(folders, spark, progress)
        if not unfit:
            raise
    except (*MISFITS, *_SPARK_MISFITS, pa.ArrowException) as error:
        if len(folders) == 1:
            return {folders[0]: misfit(folders[0], error)}
        return _in_halves(folders, spark, progress)  # which of them it is, is found by judging fewer at once
    return judge_each([folder for folder in folders if folder not in unfit], spark, progress=progress) | unfit


def _in_halves(
    folders: Sequence[Path], spark: SparkSession, progress: Progress | None
) -> dict[Path, Judgement | HarnessError]:
    half = len(folders) // 2
    parts = (folders[:half], folders[half:])
    return {path: told for part in parts for path, told in judge_each(part, spark, progress=progress).items()}


def _unfit(path: Path) -> HarnessError | None:
    """Why this folder cannot be judged, each of its tables looked at for itself."""
    try:
        folder = RunFolder(path)
        folder.scenario()
        complete(folder)
        check_tables(path / "tables")
    except HarnessError as error:
        return error
    return None


Evidences = Mapping[str, Sequence[Mapping[str, Any]]]


def judge_tables(
    spark: SparkSession, tables: Tables, inputs: Sequence[RunInput], *, with_evidence: bool = True,
    progress: Progress | None = None,
) -> list[tuple[Judgement, Evidences]]:  # fmt: skip
    """Judges runs 0..n-1 of `tables`; writes nothing."""
    tell = progress or _nobody
    asked = _ask(spark, tables, inputs, tell)
    contexts, detection = asked.contexts, asked.detection
    tell("findings")
    named = {context.run: name_findings(find_all(context)) for context in contexts}
    every = [pair for context in contexts for pair in named[context.run]]
    of_run = {context.run: context for context in contexts}
    tell("evidence")
    log_rows = by_run(evidence.log_rows(spark, tables, of_run, every)) if with_evidence else {}
    operations = by_run(evidence.operation_rows(spark, tables, every)) if with_evidence else {}
    accounting = by_run(detection.accounting)
    activities = tables.activity
    judged: list[tuple[Judgement, Evidences]] = []
    for context, given in zip(contexts, inputs, strict=True):
        run = context.run
        activity = activities.get(run, NO_ACTIVITY)
        until = activity["replica_reads_began"]
        facts = Facts(
            context=context, accounting=accounting.get(run, ()), activity=activity,
            findings=[finding for _, finding in named[run]],
            controllers=sorted(tables.rows("controllers", run), key=lambda row: row["t"]),
            broker_events=tables.rows("broker_events", run), configuration=tables.rows("configuration", run),
            zombies=asked.zombies.get(run, NO_ZOMBIES), acks_during_fault=asked.acks_during_fault.get(run, 0),
            until=_FAR if until is None else until,
        )  # fmt: skip
        evidences = {
            "accounting": evidence.accounting_rows(context, facts.accounting),
            "lost_records": evidence.lost_record_rows(named[run]),
            "log_rows": log_rows.get(run, ()), "operations": operations.get(run, ()),
            "gaps": evidence.gap_rows(context),
            "fault_measures": availability.fault_measures(context, activity["t_last"]),
        }  # fmt: skip
        judged.append((_judgement(given, facts, named[run]), evidences))
    return judged


def _nobody(stage: str) -> None:
    """Nobody wants to know."""


@dataclass(frozen=True, kw_only=True)
class _Asked:
    """What the questions that need no finding answered, each asked as one job for all runs."""

    detection: Detection
    contexts: list[RunContext]
    zombies: Mapping[int, Row]
    acks_during_fault: Mapping[int, int]


def _ask(spark: SparkSession, tables: Tables, inputs: Sequence[RunInput], tell: Progress) -> _Asked:
    queries = [(family, family.query) for family in FAMILIES if family.query is not None]
    answers: dict[str, Future[Sequence[Row]]] = {}
    # Of a long history first, so that a table that is broken is told before a long pass.
    read = _stories(tables, inputs) if tables.record_count > MANY_ROWS else None
    with asking(tables.record_count, tell) as all_at_once:
        detecting = all_at_once.ask("records", lambda: detect(spark, tables))
        stories = read if read is not None else _stories(tables, inputs)  # while that is being planned
        runs = Runs(spark=spark, tables=tables, stories=stories, detecting=detecting.result)
        for family, query in queries:
            if not family.follows_detection:
                answers[family.name] = all_at_once.ask(family.name, partial(query, runs))
        wanted = {name for given in inputs if given.scenario for name in given.scenario.coverage}
        undead = all_at_once.ask("zombies", lambda: zombies(spark, tables, stories)) if wanted & _NEED_ZOMBIES else None
        in_force = (
            all_at_once.ask("acks during faults", lambda: acks_during_fault(spark, tables))
            if "acks_during_fault" in wanted
            else None
        )
        detection = detecting.result()
        for family, query in queries:
            if family.follows_detection:
                answers[family.name] = all_at_once.ask(family.name, partial(query, runs))
        contexts = _contexts(runs, {name: by_run(answer.result()) for name, answer in answers.items()}, inputs)
        return _Asked(
            detection=detection, contexts=contexts, zombies=undead.result() if undead else {},
            acks_during_fault=in_force.result() if in_force else {},
        )  # fmt: skip


def _stories(tables: Tables, inputs: Sequence[RunInput]) -> list[RunStory]:
    return [
        read_story(tables, run, given.scenario, given.run.get("load_began_ns"), anchors=given.run.get("anchors") or ())
        for run, given in enumerate(inputs)
    ]


def _contexts(
    runs: Runs, answers: Mapping[str, Mapping[int, list[Row]]], inputs: Sequence[RunInput]
) -> list[RunContext]:  # fmt: skip
    counts: dict[int, dict[tuple[int, str], int]] = {}
    for (run, tp, flag), number in runs.detection.counts.items():
        counts.setdefault(run, {})[tp, flag] = number
    return [
        RunContext(
            story=story, flagged=runs.detection.flagged[story.run], counts=counts.get(story.run, {}),
            rows={name: answer.get(story.run, ()) for name, answer in answers.items()},
            tables={name: rows.get(story.run, ()) for name, rows in runs.tables.small.items()},
            reads={tp: reads for (run, tp), reads in runs.detection.reads.items() if run == story.run},
            journals_may_lack_their_end=bool(inputs[story.run].run.get("journals_may_lack_their_end")),
        )
        for story in runs.stories
    ]  # fmt: skip


def find_all(context: RunContext) -> list[Finding]:
    for family in FAMILIES:
        context.found[family.name] = [_with_fault_kinds(context, finding) for finding in family.find(context)]
    return [finding for family in FAMILIES for finding in context.found[family.name]]


def _with_fault_kinds(context: RunContext, finding: Finding) -> Finding:
    kinds = {fault["kind"] for fault in context.story.faults.numbered(finding.faults)}
    return replace(finding, fault_kinds=sorted(kind for kind in kinds if kind)) if kinds else finding


_ORDER = {"violation": 0, "permitted": 1, "observation": 2}


def name_findings(findings: Sequence[Finding]) -> list[tuple[str, Finding]]:
    """F1, F2, ...: violations first, then permitted, then observations; stable within a class."""
    ordered = sorted(findings, key=lambda finding: _ORDER[finding.classification])
    return [(f"F{number}", finding) for number, finding in enumerate(ordered, start=1)]


def _judgement(given: RunInput, facts: Facts, named: list[tuple[str, Finding]]) -> Judgement:
    scenario = given.scenario
    coverage = measure(scenario.coverage if scenario else {}, facts)
    accounting = evidence.accounting_summary(facts.context, facts.accounting, facts)
    verdict, reasons = _verdict(given, facts, named, coverage, accounting)
    outcome = outcome_of(scenario.expect if scenario else None, verdict, [finding for _, finding in named])
    counts = {name: sum(finding.classification == name for _, finding in named) for name in _ORDER}
    return Judgement(
        verdict=verdict, sentence=_sentence(verdict, reasons, [f for _, f in named], accounting),
        reasons=tuple(reasons), counts=counts, coverage=tuple(coverage), expectations=tuple(outcome.expectations),
        as_expected=outcome.holds, expected=outcome.expected, accounting=accounting, findings=tuple(named),
    )  # fmt: skip


def _verdict(
    given: RunInput, facts: Facts, named: Sequence[tuple[str, Finding]], coverage: Sequence[Mapping[str, Any]],
    accounting: Mapping[str, Any],
) -> tuple[Verdict, list[str]]:  # fmt: skip
    """error > violation > inconclusive > vacuous > pass; every reason is given, whichever decides."""
    errors = [f"The run could not be done: {given.run['error']}"] if given.run.get("error") else []
    violations = [f"{name}: {f.sentence}" for name, f in named if f.classification == "violation"]
    open_ends = (
        _inconclusive(given, facts)
        + missing.reasons(facts.context, given.run, accounting)
        + cycle.not_searched(facts.context)
        + [f"{name}: {f.sentence}" for name, f in named if f.is_open]
    )
    unmet = [
        f"Coverage: {row['condition']} ({row['meaning']}): required {row['required']}, seen {row['seen']}."
        for row in coverage
        if not row["met"]
    ]
    # A scenario's own conditions say better what was not seen.
    nothing = [] if unmet else insufficient.reasons(facts)
    for verdict, reasons in (
        (Verdict.ERROR, errors), (Verdict.VIOLATION, violations), (Verdict.INCONCLUSIVE, open_ends),
        (Verdict.VACUOUS, unmet), (Verdict.INCONCLUSIVE, nothing),
    ):  # fmt: skip
        if reasons:
            return verdict, [*errors, *violations[:20], *open_ends, *unmet, *nothing]
    return Verdict.PASS, []


def _inconclusive(given: RunInput, facts: Facts) -> list[str]:
    reasons = [_closed(str(reason)) for reason in given.run.get("inconclusive") or ()]
    for step in facts.context.story.steps:
        told = step["step"] == given.run.get("plan_ended_at_step")  # the controller said so itself
        if step["kind"] == "wait" and step["outcome"] in ("timeout", "failed") and not told:
            seen = f" Seen: {step['seen']}." if step["seen"] else ""
            reasons.append(f"Step {step['step'] + 1} waited in vain: {step['text']}.{seen}")
    reasons += [
        f"Records of {client_name(story.topic)}-{story.part} were acknowledged while its topic was deleted and created "
        "anew, and are not in the final log: nobody can tell which of the two had them."
        for story in facts.context.story.partitions.values()
        if story.is_set_apart and any(row.tp == story.tp for row in facts.context.flagged)
    ]
    expected = given.scenario is not None and given.scenario.expect.unreadable
    unread = [
        story
        for story in facts.context.story.partitions.values()
        if not (story.read_to_end or story.deletion or story.is_set_apart)
    ]
    if unread and not expected:
        names = ", ".join(story.name for story in unread[:5]) + (", ..." if len(unread) > 5 else "")
        reasons.append(f"{plural(len(unread), 'partition')} could not be read to the end: {names}.")
    return reasons


def _closed(text: str) -> str:
    return (text[:1].upper() + text[1:]).rstrip(".") + "."


def _sentence(verdict: Verdict, reasons: Sequence[str], findings: Sequence[Finding], sums: Mapping[str, Any]) -> str:
    acknowledged = plural(sums["acknowledged"], "acknowledged record")
    lost = sum(f.count for f in findings if f.check == "lost-write" and f.classification == "permitted")
    if verdict is Verdict.PASS:
        permitted = sum(finding.classification == "permitted" for finding in findings)
        if lost:
            return (
                f"Pass: of {acknowledged}, {lost} {'was' if lost == 1 else 'were'} lost, and the contract permits it "
                f"({plural(permitted, 'permitted finding')})."
            )
        if permitted:
            return f"Pass: none of {acknowledged} was lost; {plural(permitted, 'permitted finding')}."
        return f"Pass: none of {acknowledged} was lost, and no promise was broken."
    worst = [finding for finding in findings if finding.classification == "violation"]
    if verdict is Verdict.VIOLATION:
        more = f" And {plural(len(worst) - 1, 'more violation')}." if len(worst) > 1 else ""
        return f"Violation: {worst[0].sentence}{more}"
    return f"{verdict.value.capitalize()}: {' '.join(reasons[:3])}"


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
    """Most are; of a thousand runs their making would take longer than the checks."""
    sink = pa.BufferOutputStream()
    pq.write_table(EVIDENCE[name].empty_table(), sink, compression="zstd")
    content: bytes = sink.getvalue().to_pybytes()
    return content
