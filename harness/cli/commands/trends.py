"""The command that keeps nights and shows what changed over them."""

import os
from pathlib import Path
from typing import Annotated

import typer

from harness.ci.campaign_rows import CampaignResults
from harness.cli.options import MEMORY, RUNS, MemoryOption, RunsOption, exit_for, run_folders, terminal
from harness.errors import UsageError
from harness.trends.store import Store


def trends(
    paths: Annotated[
        list[str] | None,
        typer.Argument(metavar="[CAMPAIGN|RUN]...", help="A campaign's folder, or runs: appended as one night."),
    ] = None,
    runs: RunsOption = RUNS,
    store: Annotated[Path | None, typer.Option(help="Where nights are kept; RUNS/trends if not given.")] = None,
    night: Annotated[str, typer.Option(metavar="NAME", help="The night's name; names sort by time.")] = "",
    out: Annotated[Path | None, typer.Option(help="Where the page goes; into the store if not given.")] = None,
    memory_mb: MemoryOption = MEMORY,
) -> None:
    """Appends a night to a store, and writes the page of all nights."""
    from harness.compose import render
    from harness.trends.nights import night_of_campaign, night_of_runs
    from harness.trends.on_pages import kept_runs, write_to_runs
    from reports.trends.page import write_trends

    kept = Store(store or runs / "trends")
    if paths:
        campaigns = [path for path in paths if os.path.lexists(Path(path) / "tables" / "runs.parquet")]
        if campaigns and len(paths) > 1:
            raise UsageError(f"{campaigns[0]}: a campaign is a night of its own; name it alone")
        if campaigns:
            campaign = CampaignResults(Path(campaigns[0]))
            made, folders = night_of_campaign(campaign, name=night), kept_runs(campaign)
        else:
            folders = run_folders(paths, runs)
            made = night_of_runs(folders, name=night)
        terminal.say(f"Kept: {kept.place_words(kept.append(made))}")
        terminal.say(f"Nights: {write_to_runs(kept, folders, render=render)}")
    page, nights = write_trends(kept, out=out or kept.path)
    terminal.say(nights.headline)
    terminal.say(f"Page: {page}")
    raise typer.Exit(exit_for(kept.readable()[1]))


def add_to(app: typer.Typer) -> None:
    app.command()(trends)
