"""What a night was, taken from a campaign's results or from run folders."""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from harness.ci.campaign_rows import NOT_RUN, CampaignResults, MeasureRow, RunRow
from harness.errors import UsageError
from harness.history.run_folder import RunFolder
from harness.history.schema.evidence_rows import FAULT_MEASURES
from harness.history.summaries import summary
from harness.trends.store import FindingOfNight, Night, NotRun, RunOfNight

_SECOND_NS = 1e9


def night_of_campaign(results: CampaignResults, *, name: str = "") -> Night:
    """Its runs that were made, and why others were not. Raises HarnessError."""
    made = [run for run in results.runs if run.verdict != NOT_RUN]
    if not made:
        raise UsageError(f"{results.path}: no run of this campaign was made, so there is no night to keep")
    measures: dict[int, list[MeasureRow]] = {}
    for measure in results.measures:
        measures.setdefault(measure.run, []).append(measure)
    by_number = {run.number: run for run in made}
    groups = {group.fingerprint: group for group in results.findings}
    seen = [(groups.get(each.fingerprint), by_number.get(each.run)) for each in results.occurrences]
    return Night(
        name=name or f"{_stamp(min(run.began for run in made))}-{results.name}",
        runs=[
            RunOfNight(
                began=run.began,
                scenario=run.scenario,
                system=_system(run.system, run.world),
                seed=run.seed,
                verdict=run.verdict,
                recovery_s=_most(each.recovery_s for each in measures.get(run.number, ())),
                gap_s=_most(each.gap_s for each in measures.get(run.number, ())),
                throughput_per_s=_most(each.throughput_per_s for each in measures.get(run.number, ())),
                run=run.folder,
            )
            for run in made
        ],
        findings=[
            FindingOfNight(
                fingerprint=group.fingerprint,
                check=group.check,
                classification=group.classification,
                cause=group.cause,
                scenario=run.scenario,
                system=_system(run.system, run.world),
                run=run.folder,
            )
            for group, run in seen
            if group is not None and run is not None
        ],
        not_run=_not_run(results.runs),
    )


def _not_run(runs: Sequence[RunRow]) -> tuple[NotRun, ...]:
    counts = Counter(
        (run.scenario, _system(run.system, run.world), run.sentence_text) for run in runs if run.verdict == NOT_RUN
    )
    return tuple(
        NotRun(scenario=scenario, system=system, count=count, reason=reason)
        for (scenario, system, reason), count in sorted(counts.items())
    )


def night_of_runs(paths: Sequence[Path], *, name: str = "") -> Night:
    """Judged run folders. Raises UsageError where there is none, HarnessError for one that cannot be read."""
    if not paths:
        raise UsageError("no run folders were named, so there is no night to keep")
    runs, findings = [], []
    for path in paths:
        run, found = _run(path)
        runs.append(run)
        findings += found
    return Night(name=name or f"{_stamp(min(run.began for run in runs))}-runs", runs=runs, findings=findings)


def _run(path: Path) -> tuple[RunOfNight, list[FindingOfNight]]:
    folder = RunFolder(path)
    summarized = summary(folder.path)
    if summarized.error or not folder.has_table("findings"):
        raise UsageError(f"{path}: {summarized.error or 'not judged yet'}; run `kafka-chaos check {path}` first")
    system = _system(summarized.system, summarized.world)
    has_measures = folder.has_table(FAULT_MEASURES.name)
    measures = folder.table(FAULT_MEASURES.name).to_pylist() if has_measures else []
    run = folder.run
    load_s = ((run.get("load_ended_ns") or 0) - (run.get("load_began_ns") or 0)) / _SECOND_NS
    acknowledged = folder.verdict().get("accounting", {}).get("acknowledged")
    made = RunOfNight(
        began=summarized.time,
        scenario=summarized.scenario,
        system=system,
        seed=run.get("seed"),
        verdict=summarized.verdict,
        recovery_s=_most(each["leader_s"] for each in measures),
        gap_s=_most(each["gap_s"] for each in measures),
        throughput_per_s=acknowledged / load_s if acknowledged is not None and load_s > 0 else None,
        run=folder.path.name,
    )
    rows = folder.table("findings").to_pylist()
    return made, [
        FindingOfNight(
            fingerprint=row["fingerprint"],
            check=row["check"],
            classification=row["classification"],
            cause=row["cause_text"] or "",
            scenario=summarized.scenario,
            system=system,
            run=folder.path.name,
        )
        for row in rows
    ]


def _system(system: str, world: str) -> str:
    """A cluster of somebody else's is in no other world than its own."""
    return system if world in ("", "local", system) else f"{system} ({world})"


def _most(values: Iterable[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def _stamp(time: str) -> str:
    """2026-11-23T02:00:00Z as 20261123-020000."""
    return time.replace("-", "").replace(":", "").replace("T", "-").partition("Z")[0].partition(".")[0][:15]
