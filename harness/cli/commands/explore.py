"""`kafka-chaos explore`: seed after seed in the simulated world, each a history of its own that comes again.

A profile is drawn anew for each seed; a scenario is the same schedule under another chance. What it comes to is a
campaign: its page, its tables, its exit code; started again, it goes on.
"""

import re
import shlex
from dataclasses import replace
from typing import Annotated

import typer

from harness.campaign.drawing.profiles import profiles
from harness.campaign.file import JOBS_MAX, drawn_runs, planned
from harness.campaign.plan import Plan, PlannedRun
from harness.campaign.rows import RunJudged
from harness.cli.commands.campaign import STYLES, conducted, duration, end, for_a_folder
from harness.cli.commands.results import JunitOption, SummaryOption
from harness.cli.options import (
    MASTER,
    MEMORY,
    RUNS,
    MasterOption,
    MemoryOption,
    RunsOption,
    SetOption,
    target,
    terminal,
)
from harness.errors import Place, Problem, Problems
from harness.host.printable import for_a_shell
from harness.preflight.looking import all_ready
from harness.scenario.model import SIMULATED
from harness.values import COUNT_MAX

_SEEDS = re.compile(r"(\d{1,9})(?:\.\.(\d{1,9}))?", re.ASCII)


def explore(
    what: Annotated[str, typer.Argument(metavar="PROFILE|SCENARIO|FILE.toml", help="What each seed is given to.")],
    seeds: Annotated[str, typer.Option(metavar="A..B", help="Which seeds.")] = "1..100",
    overrides: SetOption = None,
    jobs: Annotated[int, typer.Option(min=1, max=JOBS_MAX, help="How many runs go on side by side.")] = 1,
    until_found: Annotated[
        bool, typer.Option("--until-found", help="Stops at the first violation or broken invariant.")
    ] = False,
    time: Annotated[str | None, typer.Option(metavar="DURATION", help='No run is begun after, "30 min".')] = None,
    junit: JunitOption = None,
    summary: SummaryOption = None,
    runs: RunsOption = RUNS,
    master: MasterOption = MASTER,
    memory_mb: MemoryOption = MEMORY,
) -> None:
    """Runs seed after seed in the simulated world; a line for each that neither passes nor ends as stated, with what
    repeats it."""
    first, last = seed_range(seeds)
    plan = Plan(
        name=f"explore-{for_a_folder(what)}-{first}-{last}",
        seed=first,
        runs=_runs(what, range(first, last + 1), overrides or []),
        jobs=jobs,
        until_found=until_found,
        time_s=None if time is None else duration(time),
    )

    set_again = "".join(f" --set {shlex.quote(each)}" for each in overrides or [])

    def tell(run: RunJudged, of: PlannedRun) -> None:
        if run.broken_invariant or (run.verdict != "pass" and not run.as_stated):
            again = f"again: kafka-chaos explore {for_a_shell(what)} --seeds {of.seed}{set_again}"
            terminal.say(f"{run.verdict:<13}", style=STYLES.get(run.verdict, "yellow"), then=f"seed {of.seed}, {again}")
            terminal.say(f"{'':<13}{run.sentence_text}")

    outcome, folder = conducted(plan, runs, master=master, tell=tell)
    end(outcome, folder, junit, summary, runs)


def _runs(what: str, seeds: range, overrides: list[str]) -> tuple[PlannedRun, ...]:
    """Raises Problems for what cannot be simulated."""
    if what in profiles():
        if overrides:
            raise _option("--set", "a profile draws its settings; give a scenario to set something")
        found = [run for seed in seeds for run in drawn_runs(runs=1, profile=what, seed=seed, **_SIMULATED_REFERENCE)]
    else:
        (scenario,) = all_ready([(what, [*target(None, SIMULATED, None, None), *overrides])])
        found = [planned(scenario, seed=seed) for seed in seeds]
    return tuple(replace(run, number=number) for number, run in enumerate(found, 1))


_SIMULATED_REFERENCE = {"system": "reference", "world": SIMULATED}


def seed_range(text: str) -> tuple[int, int]:
    """Raises Problems."""
    match = _SEEDS.fullmatch(text)
    first, last = (int(match[1]), int(match[2] or match[1])) if match is not None else (1, 0)
    if last < first or last - first >= COUNT_MAX:
        raise _option("--seeds", f"write A..B, 1..100 for example, or one seed, not {text!r}")
    return first, last


def _option(option: str, what: str) -> Problems:
    return Problems([Problem(place=Place(option=option), what=what)])


def add_to(app: typer.Typer) -> None:
    app.command()(explore)
