"""`kafka-chaos shrink`: the smallest scenario that still shows what a stored run showed."""

import asyncio
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from harness import compose
from harness.campaign.file import JOBS_MAX
from harness.campaign.shrinking.search import smallest
from harness.campaign.shrinking.tries import Sought, broken_invariant_of, trying
from harness.cli.commands.campaign import for_a_folder
from harness.cli.options import (
    MASTER,
    MEMORY,
    RUNS,
    ClientOption,
    MasterOption,
    MemoryOption,
    RunArgument,
    RunsOption,
    WorldOption,
    can_be_written,
    run_folder,
    target,
    terminal,
)
from harness.errors import UsageError
from harness.history.run_folder import RunFolder
from harness.preflight.looking import ready
from harness.scenario.model import SIMULATED, ExpectSpec, FindingPattern, Scenario
from harness.scenario.places import Places
from harness.scenario.written import written_out
from harness.verdict import Verdict

_REPEATS = 3


def shrink(
    run: RunArgument,
    finding: Annotated[
        str, typer.Argument(metavar="[FINDING]", help="F1, or a fingerprint; if not given, the first violation.")
    ] = "",
    alike: Annotated[
        bool, typer.Option("--alike", help="The same check and class are enough, with another cause or other faults.")
    ] = False,
    repeats: Annotated[
        int, typer.Option(min=1, help="Runs of each try: simulated one is enough that shows it, elsewhere half.")
    ] = _REPEATS,
    jobs: Annotated[int, typer.Option(min=1, max=JOBS_MAX, help="How many simulated runs go on side by side.")] = 1,
    output: Annotated[
        Path | None, typer.Option(callback=can_be_written, help="The file; shrunk-NAME.toml among the runs.")
    ] = None,
    runs: RunsOption = RUNS,
    world: WorldOption = None,
    client: ClientOption = None,
    master: MasterOption = MASTER,
    memory_mb: MemoryOption = MEMORY,
) -> None:
    """Takes from a stored run's scenario what its finding does not need, and runs what is left; the exit code is that
    run's."""
    folder = run_folder(run, runs)
    sought = replace(_sought(folder, finding), alike=alike)
    scenario = ready(str(folder), overrides=target(None, world, None, client))
    start = _bare(scenario, sought, folder)
    at_once = jobs if start.cluster.world == SIMULATED else 1
    session = compose.JudgingSession(master=master)
    try:
        found, tried = asyncio.run(_shrunk(start, sought, session, repeats=repeats, jobs=at_once, tell=terminal.say))
        if found is None:
            terminal.say(f"{sought.words} did not come again in {tried} runs: nothing was taken away.")
            raise typer.Exit(Verdict.INCONCLUSIVE.exit_code)
        file = output or runs / f"shrunk-{for_a_folder(scenario.name)}.toml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(written_out(found), encoding="utf-8")
        terminal.say(f"{tried} runs. {_sizes(start, found)}")
        terminal.say(f"Scenario: {file}")
        raise typer.Exit(_run_whole(file, sought, session, runs))
    finally:
        session.close()


def _sought(folder: Path, named: str) -> Sought:
    """Raises UsageError where there is no such finding, or nothing to look for."""
    from harness.cli import bisection  # with pandas: a third of what a command takes to begin

    stored = RunFolder(folder)
    if not named:
        rows = stored.table("findings").to_pylist() if stored.has_table("findings") else []
        violations = [row["finding"] for row in rows if row["classification"] == "violation"]
        if not violations and (invariant := broken_invariant_of(stored)):
            return Sought(invariant=invariant)
        if not violations and stored.has_table("findings"):
            raise UsageError(f"{folder}: no violation and no broken invariant; name a finding to shrink it")
        named = violations[0] if violations else "F1"  # of a run that was not judged, that is said
    wanted = bisection.wanted_finding(folder, named)
    return Sought(check=wanted.check, classification=wanted.classification, fingerprint=wanted.fingerprint)


def _bare(scenario: Scenario, sought: Sought, folder: Path) -> Scenario:
    """What is stated of it is that it shows what is sought: what else it had to reach is no matter."""
    patterns = (FindingPattern(check=sought.check, classification=sought.classification),)
    is_violation = sought.classification == "violation"
    expect = ExpectSpec(verdict="violation", required=patterns) if is_violation else ExpectSpec()
    return replace(
        scenario,
        name=f"shrunk-{scenario.name}",
        story=f"Shrunk from {folder.name}: {sought.words}.",
        expect=expect,
        coverage={},
        seed=RunFolder(folder).run["seed"],
        places=Places(),
        given=None,
    )


async def _shrunk(
    start: Scenario,
    sought: Sought,
    session: compose.JudgingSession,
    *,
    repeats: int,
    jobs: int,
    tell: Callable[[str], None],
) -> tuple[Scenario | None, int]:
    """(the smallest one, None where it did not come again; how many runs were made)."""
    async with trying(session, repeats=repeats, jobs=jobs, tell=tell) as tries:
        tried = partial(tries.of, sought)
        (seed,) = await tried([("the run again", start)])
        if seed is None:
            return None, tries.runs
        found = await smallest(replace(start, seed=seed), tried, goes_on=lambda: tries.goes_on)
        return found, tries.runs


def _sizes(before: Scenario, after: Scenario) -> str:
    """What was removed, in words."""
    rows = (
        ("steps" if before.steps else "faults", len(before.steps or before.faults), len(after.steps or after.faults)),
        ("partitions", len(before.partitions()), len(after.partitions())),
        ("clients", before.workload.workers, after.workload.workers),
        ("settings", _settings(before), _settings(after)),
        ("seconds of load", f"{before.workload.duration_s:g}", f"{after.workload.duration_s:g}"),
    )
    return ", ".join(f"{what} {was} -> {now}" for what, was, now in rows if was != now) or "Nothing can be taken away."


def _settings(scenario: Scenario) -> int:
    return len(scenario.cluster.settings) + sum(len(topic.settings) for topic in scenario.topics)


def _run_whole(file: Path, sought: Sought, session: compose.JudgingSession, runs: Path) -> int:
    """Makes and judges the run of the file. Returns the exit code."""
    scenario = ready(str(file))
    folder, outcome = compose.run_scenario(
        scenario,
        runs=runs,
        seed=None,
        command=["kafka-chaos", *sys.argv[1:]],
        progress=lambda _: None,
        on_healed=session.warm_up,
    )
    judged = session.judge(folder.path)
    if outcome.error:
        terminal.say(f"The run could not be done: {outcome.error}")
    verdict = judged.verdict.value
    terminal.say(verdict.upper(), then=f"  {judged.judgement.sentence}")
    findings = [finding for _, finding in judged.judgement.findings]
    if not sought.is_shown(findings, broken_invariant_of(folder)):
        terminal.say(not_shown(sought, scenario))
    terminal.say(f"Run: {folder.path}")
    terminal.say(f"Page: {judged.page}" if judged.page is not None else f"No page: {judged.page_error}")
    return judged.judgement.exit_code


def not_shown(sought: Sought, scenario: Scenario) -> str:
    """What is said where the last run does not show what is sought. Among processes chance has a part in each run."""
    remedy = "run it again, or shrink with more --repeats: what is kept is seen in half of them"
    why = "" if scenario.cluster.world == SIMULATED else f": by chance; {remedy}"
    return f"{sought.words} did not come again in this run{why}."


def add_to(app: typer.Typer) -> None:
    app.command()(shrink)
