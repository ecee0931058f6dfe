"""`kafka-chaos nightly`: the shipped campaign with its budget, then its comparison, its night in the store, and what a
CI is told. Each part works from the campaign's folder alone, so that any of them can be done again by its own command.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from harness.campaign.file import read_campaign
from harness.campaign.plan import Plan
from harness.ci import campaign_report
from harness.ci.campaign_rows import CampaignResults, RunRow
from harness.cli.commands.campaign import accepting, conducted, duration
from harness.cli.commands.results import (
    FAIL_ON,
    LEAST_RUNS,
    FailOnOption,
    JunitOption,
    LeastRunsOption,
    StoreOption,
    SummaryOption,
    end_of_job,
    write_results,
)
from harness.cli.options import MASTER, MEMORY, RUNS, MasterOption, MemoryOption, RunsOption, terminal
from harness.errors import HarnessError
from harness.trends.store import Store
from harness.verdict import Verdict

SHIPPED = Path(__file__).parents[2] / "campaign" / "shipped"
NIGHTLY = SHIPPED / "nightly.toml"
CONTAINERS = SHIPPED / "nightly-containers.toml"
_CONCLUDED = (Verdict.PASS.value, Verdict.VIOLATION.value)


def nightly(
    file: Annotated[
        Path, typer.Argument(metavar="[FILE.toml]", help="Another campaign than the shipped one.")
    ] = SHIPPED / "nightly.toml",
    time: Annotated[str | None, typer.Option(metavar="DURATION", help='No run is begun after, "20 min".')] = None,
    containers: Annotated[
        bool,
        typer.Option(
            "--containers/--no-containers", help="Plans runs in containers, too: without an engine they are not run."
        ),
    ] = True,
    accepted: Annotated[Path | None, typer.Option(help="Findings that are accepted: [[accepted]] tables.")] = None,
    runs: RunsOption = RUNS,
    junit: JunitOption = None,
    summary: SummaryOption = None,
    fail_on: FailOnOption = FAIL_ON,
    least_runs: LeastRunsOption = LEAST_RUNS,
    store: StoreOption = None,
    master: MasterOption = MASTER,
    memory_mb: MemoryOption = MEMORY,
) -> None:
    """Runs the nightly campaign, keeps its night, and writes JUnit, a summary and the pages; exits by --fail-on.

    A verdict that its scenario states is as it should be, in what is printed as in the exit code.
    """
    fails, least = campaign_report.fail_on(fail_on), campaign_report.least_runs(least_runs)
    plan = read_campaign(file, tell=terminal.say)
    if containers and file == NIGHTLY:
        plan = with_containers(plan, tell=terminal.say)
    plan = replace(plan, time_s=plan.time_s if time is None else duration(time), stated_is_pass=True)
    plan = accepting(plan, accepted)
    nights = Store(store or runs / "trends")
    nights.made()  # before hours of runs that could not be kept
    _, folder = conducted(plan, runs, master=master)
    for line in after(folder, nights, master=master):
        terminal.say(line)
    unfit = write_results(folder, junit, summary, nights)
    terminal.say(f"Results: {folder}")
    job = end_of_job(folder, fails, least, unfit)
    show_job(folder, job)
    raise typer.Exit(job.exit_code)


def show_job(folder: Path, job: campaign_report.Job) -> None:
    """On the campaign's page, whose own verdict may be another: the job fails by --fail-on and --least-runs."""
    from reports.campaign.page import write_campaign_page

    try:
        campaign_report.keep_job(folder, job)
        write_campaign_page(folder)
    except HarnessError as error:
        terminal.say(f"The page does not show the job: {error}")


def with_containers(plan: Plan, *, tell: Callable[[str], None]) -> Plan:
    """The plan with the runs in containers first, for the time may not be enough for all. Raises Problems."""
    both = (*read_campaign(CONTAINERS, tell=tell).runs, *plan.runs)
    return replace(plan, runs=tuple(replace(run, number=number) for number, run in enumerate(both, 1)))


def after(folder: Path, store: Store, *, master: str) -> list[str]:
    """Keeps the night and writes the pages of it. What cannot be made of them is reported, and costs no verdict."""
    from harness.compose import render
    from harness.trends.nights import night_of_campaign
    from harness.trends.on_pages import kept_runs, write_to_runs
    from reports.trends.page import write_trends

    results = CampaignResults(folder)
    parts: dict[str, Callable[[], str]] = {
        "comparison": lambda: _comparison(results, master=master),
        "night": lambda: f"Night: {store.place_words(store.keep(night_of_campaign(results)))}",
        "nights on the pages of runs": lambda: f"Nights: {write_to_runs(store, kept_runs(results), render=render)}",
        "trends": lambda: f"Trends: {write_trends(store, out=store.path)[0]}",
    }
    lines = []
    for what, make in parts.items():
        try:
            lines.append(make())
        except HarnessError as error:
            lines.append(f"No {what}: {error}")
    return lines


def _comparison(results: CampaignResults, *, master: str) -> str:
    from harness.cli import comparison_runs
    from reports.comparison.grouping import StoredRun

    pair = compared(results.runs, has_folder=results.was_judged)
    if not pair:
        return "No comparison: no scenario has runs that were kept on two systems"
    stored = [StoredRun(path=results.path / run.folder, label=run.system) for run in pair]
    page, comparison = comparison_runs.compare_stored(
        stored, runs=results.path, out=results.path / "comparison", master=master, tell=terminal.say
    )
    return f"Comparison: {page}: {comparison.headline}"


def compared(runs: Sequence[RunRow], *, has_folder: Callable[[RunRow], bool]) -> list[RunRow]:
    """The runs of the first scenario that was run on processes of two systems at least, of those that came to a verdict
    there if there are such; none where no scenario was."""
    by_scenario: dict[str, list[RunRow]] = {}
    for run in runs:
        if run.folder and run.world in ("", "local") and has_folder(run) and not run.scenario.startswith("drawn-"):
            by_scenario.setdefault(run.scenario, []).append(run)
    on_two = [found for found in by_scenario.values() if len({run.system for run in found}) > 1]
    concluded = [found for found in on_two if len({run.system for run in found if run.verdict in _CONCLUDED}) > 1]
    return next(iter((*concluded, *on_two)), [])


def add_to(app: typer.Typer) -> None:
    app.command()(nightly)
