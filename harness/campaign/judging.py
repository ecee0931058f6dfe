"""Verdicts of a campaign's runs: those that wait are judged together in one Spark session, and what is kept of them.

A run that passed keeps its summary alone (run.json, scenario.toml, verdict.json), unless everything is to be kept.
"""

import dataclasses
import shutil
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from harness.campaign.journal import Ended
from harness.campaign.plan import Keep
from harness.campaign.rows import FaultMeasured, FindingSeen, RunJudged, SituationReached
from harness.campaign.situations import situations_of
from harness.checks.findings import Finding
from harness.checks.judged import Judged
from harness.compose import JudgingSession, render
from harness.errors import HarnessError
from harness.history.run_folder import RunFolder
from harness.scenario.file import scenario_of
from harness.verdict import Verdict
from reports.campaign.measures import MeasuredFault, measures_of

SUMMARY = ("run.json", "scenario.toml", "scenario.source.toml", "verdict.json")


def judge_runs(session: JudgingSession, campaign: Path, ended: Sequence[Ended], *, keep: Keep) -> list[RunJudged]:
    """In the order given. A run that cannot be judged is an error, and costs only itself."""
    answers = session.judge_many([campaign / each.folder for each in ended if each.folder], pages=False)
    by_folder = {answer.folder: answer for answer in answers}
    rows = []
    for each in ended:
        answer = by_folder.get((campaign / each.folder).resolve()) if each.folder else None
        if isinstance(answer, Judged):
            rows.append(_judged(campaign, each, answer, keep=keep))
        else:
            rows.append(_not_done(each, each.error or (str(answer.error) if answer is not None else "")))
    return rows


def _judged(campaign: Path, ended: Ended, judged: Judged, *, keep: Keep) -> RunJudged:
    judgement, folder = judged.judgement, RunFolder(judged.folder)
    verdict, sentence = judgement.verdict, judgement.sentence
    if ended.error and verdict is not Verdict.VIOLATION:
        verdict, sentence = Verdict.ERROR, ended.error
    try:
        measures = [_measured(each) for each in measures_of(judged.folder)]
        situations = _situations(folder)
    except HarnessError as error:
        measures, situations = [], []
        if verdict is Verdict.PASS:
            verdict, sentence = Verdict.ERROR, f"its measures cannot be read: {error}"
    passed = verdict is Verdict.PASS and judgement.as_expected and not judgement.broken_invariant
    kept = keep == "all" or not passed
    if kept:
        render(judged.folder)
    else:
        free(folder)
    scenario = scenario_of(folder)
    return RunJudged(
        number=ended.number,
        client=scenario.workload.client,
        folder=ended.folder if kept else "",
        verdict=verdict.value,
        stated=judgement.expected,
        as_stated=judgement.as_expected and verdict is judgement.verdict,
        sentence_text=sentence,
        began=_began(folder),
        took_s=ended.took_s,
        operations=judgement.accounting["sent"],
        records_acknowledged=judgement.accounting["acknowledged"],
        schedule_faults=len(scenario.faults) + len(scenario.steps),
        broken_invariant=judgement.broken_invariant,
        findings=seen_in(judgement.findings),
        measures=measures,
        situations=situations,
    )


def _not_done(ended: Ended, error: str) -> RunJudged:
    return RunJudged(
        number=ended.number,
        client="",
        folder=ended.folder,
        verdict=Verdict.ERROR.value,
        stated="",
        as_stated=False,
        sentence_text=error,
        began="",
        took_s=ended.took_s,
        operations=0,
        records_acknowledged=0,
        schedule_faults=0,
    )


def seen_in(named: Iterable[tuple[str, Finding]]) -> list[FindingSeen]:
    """The findings of a run by their fingerprints."""
    found: defaultdict[str, list[Finding]] = defaultdict(list)
    for _, finding in named:
        found[finding.fingerprint].append(finding)
    return [
        FindingSeen(
            fingerprint=fingerprint,
            check=findings[0].check,
            classification=findings[0].classification,
            cause=", ".join(filter(None, findings[0].cause.codes)) if findings[0].cause else "",
            faults=sorted({kind for finding in findings for kind in finding.fault_kinds}),
            count=len(findings),
        )
        for fingerprint, findings in found.items()
    ]


def _began(folder: RunFolder) -> str:
    """UTC, as ISO 8601 has it."""
    return datetime.fromtimestamp(folder.anchor().wall_ns / 1e9, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _measured(each: MeasuredFault) -> FaultMeasured:
    return FaultMeasured(
        fault=each.kind,
        recovery_s=each.recovery_s,
        recovery_open=each.recovery_open,
        gap_s=each.gap_s,
        gap_open=each.gap_open,
        throughput_per_s=each.throughput,
    )


def _situations(folder: RunFolder) -> list[SituationReached]:
    reached = situations_of(folder)
    return [SituationReached(**dataclasses.asdict(each), times=times) for each, times in sorted(reached.items())]


def free(folder: RunFolder) -> None:
    """Leaves the summary of a run."""
    for path in folder.path.iterdir():
        if path.name in SUMMARY:
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
