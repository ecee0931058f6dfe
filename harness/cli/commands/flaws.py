"""`kafka-chaos flaws`: which planted flaws of the reference are found in the simulated world, by what, and how soon."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Annotated

import typer

from harness import compose
from harness.campaign.file import JOBS_MAX
from harness.campaign.flaw_search import KEPT, FlawFound, keep, kept_in, search
from harness.campaign.shrinking.tries import trying
from harness.cli.options import MASTER, MEMORY, RUNS, MasterOption, MemoryOption, RunsOption, terminal
from harness.cluster.simulated.planted import PlantedFlaw, planted_flaws
from harness.errors import INTERRUPTED, UsageError, nearest
from harness.history.files_below import FilesBelow
from harness.values import COUNT_MAX

_SEEDS = 150


def flaws(
    only: Annotated[
        list[str] | None, typer.Option("--only", metavar="NAME", help="This flaw; may be repeated.")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, max=COUNT_MAX, help="How many seeds each is searched with.")] = _SEEDS,
    jobs: Annotated[int, typer.Option(min=1, max=JOBS_MAX, help="How many runs go on side by side.")] = 1,
    kept: Annotated[bool, typer.Option("--kept", help="Prints what is kept, and searches nothing.")] = False,
    anew: Annotated[bool, typer.Option("--anew", help="Forgets what is kept of these flaws.")] = False,
    runs: RunsOption = RUNS,
    master: MasterOption = MASTER,
    memory_mb: MemoryOption = MEMORY,
) -> None:
    """Searches for each planted flaw in the simulated world; what was found is kept, and a later start goes on."""
    chosen = _chosen(only or [])
    runs.mkdir(parents=True, exist_ok=True)
    files = FilesBelow(runs)
    found = kept_in(files)
    if anew:
        found = {name: each for name, each in found.items() if name not in {flaw.name for flaw in chosen}}
    whole = True
    if not kept:
        session = compose.JudgingSession(master=master)
        try:
            whole = asyncio.run(_searched(chosen, found, files, session, seeds=seeds, jobs=jobs))
        finally:
            session.close()
    for line in table([flaw for flaw in chosen if flaw.name in found], found):
        terminal.say(line)
    terminal.say(f"Kept: {runs / KEPT}")
    if not whole:
        raise typer.Exit(INTERRUPTED)


def _chosen(only: Sequence[str]) -> list[PlantedFlaw]:
    """Raises UsageError."""
    known = {flaw.name: flaw for flaw in planted_flaws()}
    for name in only:
        if name not in known:
            raise UsageError(f"--only {name}: the reference has no such flaw; {nearest(name, tuple(known))}")
    return [known[name] for name in only] or list(known.values())


async def _searched(
    chosen: Sequence[PlantedFlaw],
    found: dict[str, FlawFound],
    files: FilesBelow,
    session: compose.JudgingSession,
    *,
    seeds: int,
    jobs: int,
) -> bool:
    """Whether all of it was done. `found` gets each flaw with the seeds that it was searched with."""
    async with trying(session, repeats=1, jobs=jobs, tell=terminal.say) as tries:
        await search(chosen, found, tries, seeds=seeds, keep=lambda: keep(files, found))
        return tries.goes_on


def table(chosen: Sequence[PlantedFlaw], found: Mapping[str, FlawFound]) -> list[str]:
    """A line for each flaw, in columns."""
    rows = [("flaw", "origin", "found by", "seeds", "faults")]
    for flaw in chosen:
        each = found[flaw.name]
        is_hidden = bool(flaw.hidden_by) and not each.check and not each.invariant
        found_by = f"{each.found_by}: {flaw.hidden_by} hides it" if is_hidden else each.found_by
        seeds = each.seed or each.invariant_seed or each.seeds
        most = "at most " if each.ended_early else ""
        faults = f"{each.faults_drawn} -> {most}{each.faults_shrunk}" if each.check else ""
        rows.append((each.name, each.origin, found_by, str(seeds), faults))
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    return ["  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def add_to(app: typer.Typer) -> None:
    app.command()(flaws)
