"""`kafka-chaos campaign`: many runs, listed in a file or drawn, with one verdict."""

import asyncio
import shlex
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from harness.campaign.accepted import read_accepted
from harness.campaign.file import DEFAULT_SEED, JOBS_MAX, drawn_runs, read_campaign
from harness.campaign.outcome import Outcome, outcome_of
from harness.campaign.place import campaign_folder
from harness.campaign.plan import Plan, PlannedRun, shard_of
from harness.campaign.results import write_results as write_tables
from harness.campaign.rows import RunJudged
from harness.campaign.shards import copy_kept, facts_of, journal_of, merged, read_shard, refuse_links
from harness.ci.campaign_rows import CampaignResults
from harness.cli.commands.results import JunitOption, SummaryOption, write_results
from harness.cli.options import (
    MASTER,
    MEMORY,
    RUNS,
    MasterOption,
    MemoryOption,
    RunsOption,
    SeedOption,
    aside,
    terminal,
)
from harness.cluster.catalogue import WORLDS
from harness.errors import HarnessError, Place, Problem, Problems, UsageError
from harness.history.accepted import by_fingerprint
from harness.history.files_below import FilesBelow
from harness.history.run_origin import versions
from harness.trends.store import Store
from harness.values import COUNT_MAX, is_number, seconds

if TYPE_CHECKING:
    from harness.campaign.conduct import Progress

CAMPAIGN_VERSION = 1
STYLES = {"pass": "green", "violation": "bold red", "error": "bold red"}
PathsArgument = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="FILE.toml|FOLDER...", help="A campaign's file, or the folders of its shards, to merge them."
    ),
]


def campaign(
    paths: PathsArgument = None,
    random: Annotated[
        int | None, typer.Option(metavar="N", min=1, max=COUNT_MAX, help="N drawn schedules instead of a file.")
    ] = None,
    profile: Annotated[str, typer.Option(help="What is drawn: quick, replication, elections, ...")] = "everything",
    system: Annotated[str, typer.Option(help="The system under test of drawn schedules.")] = "reference",
    world: Annotated[str, typer.Option(help=f"Where drawn schedules run: {', '.join(WORLDS)}.")] = "local",
    seed: SeedOption = None,
    jobs: Annotated[int | None, typer.Option(min=1, max=JOBS_MAX, help="How many runs go on side by side.")] = None,
    time: Annotated[str | None, typer.Option(metavar="DURATION", help='No run is begun after, "30 min".')] = None,
    until_found: Annotated[bool, typer.Option("--until-found", help="Stops at the first violation.")] = False,
    keep: Annotated[str | None, typer.Option(metavar="findings|all", help="Which run folders are kept.")] = None,
    accepted: Annotated[Path | None, typer.Option(help="Findings that are accepted: [[accepted]] tables.")] = None,
    shard: Annotated[str | None, typer.Option(metavar="I/N", help="Only the I-th of N parts.")] = None,
    junit: JunitOption = None,
    summary: SummaryOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Shows the runs and starts none.")] = False,
    runs: RunsOption = RUNS,
    master: MasterOption = MASTER,
    memory_mb: MemoryOption = MEMORY,
) -> None:
    """Runs a campaign, judges it and says what it comes to; started again, it goes on where it stopped."""
    given = paths or []
    if given and all(path.is_dir() for path in given):
        outcome, folder = _merge(given, runs, accepted)
        end(outcome, folder, junit, summary, runs)
    plan = _plan(given, random=random, profile=profile, system=system, world=world, seed=seed)
    plan = replace(
        plan,
        jobs=jobs or plan.jobs,
        time_s=plan.time_s if time is None else duration(time),
        until_found=until_found or plan.until_found,
        keep=plan.keep if keep is None else _keep(keep),
    )
    plan = accepting(plan, accepted)
    plan = _only(plan, shard)
    if dry_run:
        for run in plan.runs:
            terminal.say(_run_name(run))
        terminal.say(f"{len(plan.runs)} runs, none started")
        return
    outcome, folder = conducted(plan, runs, master=master)
    end(outcome, folder, junit, summary, runs)


def end(outcome: Outcome, folder: Path, junit: Path | None, summary: Path | None, runs: Path) -> NoReturn:
    _write_to_nights(folder, runs)
    _write_for_ci(folder, junit, summary, runs)
    terminal.say(f"Exit code {outcome.exit_code}. Results: {folder}")
    raise typer.Exit(outcome.exit_code)


def _write_for_ci(folder: Path, junit: Path | None, summary: Path | None, runs: Path) -> None:
    """Where it was asked for. The exit code stays the campaign's."""
    if junit is not None or summary is not None:
        write_results(folder, junit, summary, Store(runs / "trends"))


def _write_to_nights(folder: Path, runs: Path) -> None:
    """The pages of its runs say in which nights their findings were seen, where nights are kept below `runs`."""
    from harness.compose import render
    from harness.trends.on_pages import kept_runs, write_to_runs

    nights = Store(runs / "trends")
    if not nights.names():
        return
    try:
        terminal.say(f"Nights: {write_to_runs(nights, kept_runs(CampaignResults(folder)), render=render)}")
    except HarnessError as error:  # it changes no verdict
        terminal.say(f"No nights on the pages of runs: {error}")


def _plan(given: list[Path], *, random: int | None, profile: str, system: str, world: str, seed: int | None) -> Plan:
    """Raises UsageError."""
    if random is not None:
        if given:
            raise UsageError("give a campaign's file, or --random N, not both")
        chosen = DEFAULT_SEED if seed is None else seed
        drawn = drawn_runs(runs=random, profile=profile, system=system, seed=chosen, world=world)
        where = system if world == "local" else f"{system}-{world}"
        name = f"random-{profile}-{for_a_folder(where)}-{chosen}"
        numbered = tuple(replace(run, number=number) for number, run in enumerate(drawn, 1))
        return Plan(name=name, seed=chosen, runs=numbered)
    if len(given) != 1:
        raise UsageError("give one campaign's file (docs/campaigns.md), or --random N, or the folders of shards")
    plan = read_campaign(given[0], tell=terminal.say)
    if seed is not None:
        raise UsageError("--seed is for --random; a campaign's file says its own: [campaign] seed")
    return plan


def for_a_folder(text: str) -> str:
    return "".join(each if each.isalnum() or each in ".-" else "-" for each in text)


def accepting(plan: Plan, file: Path | None) -> Plan:
    """With the findings that its file accepts, or that of --accepted instead. Raises UsageError."""
    chosen = file or plan.accepted_file
    return plan if chosen is None else replace(plan, accepted=tuple(read_accepted(chosen).values()))


def _option(option: str, what: str) -> Problems:
    return Problems([Problem(place=Place(option=option), what=what)])


def duration(text: str) -> float:
    try:
        return seconds(text)
    except ValueError as error:
        raise _option("--time", str(error)) from None


def _keep(text: str) -> Any:
    if text not in ("findings", "all"):
        raise _option("--keep", f"findings or all, not {text!r}")
    return text


def _only(plan: Plan, shard: str | None) -> Plan:
    if shard is None:
        return plan
    index, slash, of = shard.partition("/")
    if not (slash and is_number(index) and is_number(of) and 1 <= int(index) <= int(of) <= len(plan.runs)):
        raise _option(
            "--shard", f"write I/N, 1/{min(2, len(plan.runs))} for example, with N up to {len(plan.runs)} runs"
        )
    return replace(plan, runs=shard_of(plan.runs, int(index), int(of)), shard=(int(index), int(of)))


# ---- running --------------------------------------------------------------------------------------------------------


def tell_run(run: RunJudged, planned: PlannedRun) -> None:
    mark = "  (as stated)" if run.as_stated and run.verdict != "pass" else ""
    terminal.say(f"{run.verdict:<13}", style=STYLES.get(run.verdict, "yellow"), then=f"{_run_name(planned)}{mark}")
    if not run.as_stated:
        terminal.say(f"{'':<13}{run.sentence_text}")


def conducted(
    plan: Plan, runs: Path, *, master: str, tell: Callable[[RunJudged, PlannedRun], None] = tell_run
) -> tuple[Outcome, Path]:
    """(what it came to, its folder). `tell` hears of each run that has its verdict. Raises HarnessError."""
    from harness.campaign.conduct import conduct  # with PySpark: other commands begin without it

    facts = {
        "version": CAMPAIGN_VERSION,
        "command": shlex.join(["kafka-chaos", *sys.argv[1:]]),
        "begun": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "harness_version": versions()["kafka-chaos"],
    }
    with (
        campaign_folder(runs, plan, facts=facts) as (files, goes_on),
        conduct(plan, files, by_fingerprint(plan.accepted), master=master, show=_Line().show, tell=tell) as made,
    ):
        judged = len(made.journal.state.judged)
        if goes_on:
            terminal.say(f"Goes on in {files.top}: {judged} of {len(plan.runs)} runs have their verdict")
        else:
            terminal.say(f"{len(plan.runs)} runs, {plan.jobs} at a time, in {files.top}")
        stop = asyncio.run(made.go_on())
        outcome = made.outcome(stop)
        page = _page(files)
    _say_outcome(outcome)
    terminal.say(page)
    if stop == "interrupted":
        terminal.say("Interrupted: the same command goes on where it stopped.")
    return outcome, files.top


class _Line:
    """One line that is rewritten on a terminal; elsewhere a line aside whenever a run has ended."""

    def __init__(self) -> None:
        self._done = 0

    def show(self, progress: "Progress") -> None:
        done = progress.judged + progress.waiting
        if terminal.is_terminal:
            terminal.rewrite(_progress_words(progress))
        elif done > self._done:
            aside.say(_progress_words(progress))
        self._done = done


def _progress_words(progress: "Progress") -> str:
    counts = ", ".join(f"{count} {name}" for name, count in sorted(progress.counts.items())) or "no verdict yet"
    waiting = f", {progress.waiting} to be judged" if progress.waiting else ""
    running = f"number {', '.join(map(str, progress.running))}" if progress.running else "none"
    eta = "" if progress.eta_s is None else f"  {progress.eta_s / 60:.0f} min left"
    newest = f"  newest: {progress.newest}" if progress.newest else ""
    return f"{progress.judged} of {progress.planned}: {counts}{waiting}  running: {running}{eta}{newest}"


def _run_name(run: PlannedRun) -> str:
    drawn = "" if run.drawn is None else f", schedule {run.drawn}"
    return f"{run.number:>4}  {run.scenario}  {run.system}, {run.world}, {run.client}, seed {run.seed}{drawn}"


def _page(files: FilesBelow) -> str:
    """The line that names the page, or says why there is none: that changes no verdict."""
    from reports.campaign.page import write_campaign_page  # with pandas

    try:
        return f"Page: {write_campaign_page(files.top)}"
    except HarnessError as error:
        return f"No page: {error}"


def _say_outcome(outcome: Outcome) -> None:
    for group in outcome.groups:
        if group.classification == "violation":
            known = f", accepted until {group.accepted.until}: {group.accepted.reason}" if group.accepted else ""
            flaky = ", flaky" if group.flaky else ""
            under = ", ".join(group.faults) or "no fault"
            terminal.say(
                f"  {group.fingerprint}  {group.check}: {group.count} in {len(group.runs)} runs (first "
                f"{group.runs[0]}, last {group.runs[-1]}), under {under}; look at run {group.look_at}{flaky}{known}"
            )
    for each in outcome.expired:
        terminal.say(f"  {each.over_words}")
    for each in outcome.unseen:
        terminal.say(f"  {each.not_shown_by('no run')}")
    verdict = outcome.verdict.value
    terminal.say(verdict.upper(), style=STYLES.get(verdict, "yellow"), then=f"  {outcome.sentence}")


# ---- merging --------------------------------------------------------------------------------------------------------


def _merge(folders: list[Path], runs: Path, accepted: Path | None) -> tuple[Outcome, Path]:
    """(what the whole came to, its folder). Raises UsageError, HarnessError."""
    shards = [read_shard(folder, names_accepted=accepted is not None) for folder in folders]
    plan, judged = merged(shards)
    plan = accepting(plan, accepted)
    refuse_links(shards)
    now = datetime.now(UTC)
    outcome = outcome_of(plan, judged, by_fingerprint(plan.accepted), today=now.date(), stop="shards")
    with campaign_folder(runs, plan, facts=facts_of(shards), anew=True) as (files, _):
        copy_kept(shards, files)
        files.replace("journal.jsonl", journal_of(judged, at=now.strftime("%Y-%m-%dT%H:%M:%SZ")))
        write_tables(files, plan, judged, outcome)
        page = _page(files)
    aside.say(f"{len(shards)} shards, {len(judged)} of {len(plan.runs)} runs with a verdict")
    _say_outcome(outcome)
    terminal.say(page)
    return outcome, files.top


def add_to(app: typer.Typer) -> None:
    app.command()(campaign)
