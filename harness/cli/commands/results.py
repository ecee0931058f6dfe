"""The command that reports to a CI what a campaign came to."""

import os
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from harness.ci import campaign_report
from harness.ci.campaign_rows import CampaignResults
from harness.ci.junit import junit_of, write_junit
from harness.cli.options import MEMORY, RUNS, MemoryOption, RunsOption, can_be_written, exit_for, terminal
from harness.errors import HarnessError, UsageError
from harness.trends.store import Night, Store, seen_in
from harness.verdict import Verdict

CAMPAIGNS = "campaigns"
FailOnOption = Annotated[
    str,
    typer.Option(metavar="WORDS", help=f"What fails the job: some of {', '.join(campaign_report.FAIL_ON)}; or none."),
]
JunitOption = Annotated[
    Path | None,
    typer.Option(callback=can_be_written, help="Where to write JUnit XML; junit.xml in the campaign's folder."),
]
SummaryOption = Annotated[
    Path | None,
    typer.Option(
        callback=can_be_written, help="Where to write the Markdown summary; summary.md in the campaign's folder."
    ),
]
LeastRunsOption = Annotated[
    str,
    typer.Option(metavar="N|P%", help="The job fails if fewer runs were made, or a smaller share of those planned."),
]
StoreOption = Annotated[Path | None, typer.Option(help="Where nights are kept; RUNS/trends if not given.")]
FAIL_ON = ",".join(campaign_report.FAIL_ON_UNLESS_SAID)
LEAST_RUNS = "0"


def results(
    campaign: Annotated[str, typer.Argument(metavar="CAMPAIGN", help="A campaign's folder, or its name.")],
    runs: RunsOption = RUNS,
    junit: JunitOption = None,
    summary: SummaryOption = None,
    fail_on: FailOnOption = FAIL_ON,
    least_runs: LeastRunsOption = LEAST_RUNS,
    store: StoreOption = None,
    memory_mb: MemoryOption = MEMORY,
) -> None:
    """Writes a campaign's results as JUnit XML and as Markdown; the exit code is by --fail-on and --least-runs."""
    fails, least = campaign_report.fail_on(fail_on), campaign_report.least_runs(least_runs)
    folder = campaign_folder(campaign, runs)
    unfit = write_results(folder, junit, summary, Store(store or runs / "trends"))
    raise typer.Exit(end_of_job(folder, fails, least, unfit).exit_code)


def end_of_job(
    folder: Path, fails: Collection[str], least: campaign_report.Least, unfit: Sequence[HarnessError]
) -> campaign_report.Job:
    """After the line that says why its exit code is that one. unfit: why nights of the store cannot be read."""
    job = campaign_report.job(CampaignResults(folder), fails, least)
    if unfit and job.exit_code != Verdict.VIOLATION.exit_code:
        job = replace(job, exit_code=exit_for(unfit))
    job = replace(job, reasons=[*job.reasons, *(str(error) for error in unfit[:1])])
    terminal.say(f"{job.sentence}.")
    return job


def campaign_folder(reference: str, runs: Path) -> Path:
    """A path, or the name of a campaign below `runs`. Raises UsageError."""
    for path in (Path(reference), runs / CAMPAIGNS / reference):
        if os.path.lexists(path / "campaign.json"):
            return path
    raise UsageError(f"{reference}: no campaign's folder, and none of that name in {runs / CAMPAIGNS}")


def write_results(folder: Path, junit: Path | None, summary: Path | None, store: Store) -> list[HarnessError]:
    """Returns why nights of the store cannot be read. Raises HarnessError."""
    results = CampaignResults(folder)
    cases = campaign_report.cases(results)
    nights, unfit = _nights(store)
    seen = {fingerprint: each.sentence for fingerprint, each in seen_in(nights).items()}
    text = campaign_report.summary(results, seen=seen)
    if junit is not None:
        write_junit(cases, junit, suite=results.name)
    else:
        junit = results.files.replace("junit.xml", junit_of(cases, suite=results.name))
    if summary is None:
        summary = results.files.replace("summary.md", text.encode())
    else:
        try:
            summary.write_text(text, encoding="utf-8")
        except OSError as error:
            raise HarnessError(f"--summary {summary} cannot be written: {error.strerror}") from error
    terminal.say(f"JUnit: {junit}")
    terminal.say(f"Summary: {summary}")
    return unfit


def _nights(store: Store) -> tuple[list[Night], list[HarnessError]]:
    """(those that can be read, why others cannot)"""
    try:
        return store.readable()
    except HarnessError as error:
        return [], [error]


def add_to(app: typer.Typer) -> None:
    app.command()(results)
