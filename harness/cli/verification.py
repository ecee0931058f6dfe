"""Compares scenarios with their stated outcomes: runs them, judges them in one Spark session, prints the table."""

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from harness import compose
from harness.ci import junit
from harness.cli.presentation import unmet
from harness.clients import catalogue as clients
from harness.errors import HarnessError
from harness.preflight.looking import all_ready, why_left_out
from harness.scenario.model import Scenario
from harness.verdict import Verdict, exit_code_of


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One run of one scenario."""

    scenario: str
    number: int
    seed: int
    folder: str
    stated: str
    seen: str
    as_stated: bool
    duration_s: float
    note: str
    has_page: bool = True
    interrupted: bool = False


@dataclass(frozen=True, kw_only=True)
class Verified:
    """left_out: why, of each scenario that is not for its system or not possible where it would run."""

    cells: Sequence[Cell]
    left_out: Mapping[str, str]


def verify(
    names: Sequence[str],
    *,
    repeat: int,
    runs: Path,
    seed: int | None,
    overrides: Sequence[str],
    master: str,
    tell: Callable[[str], None],
    show: Callable[[str, str], None] = lambda part, doing: None,
) -> Verified:
    """Runs them one after the other, since parallel runs would disturb each other's times.

    A scenario that does not apply to the system under test, or that this machine cannot do, is reported and left out.
    `show` gets the current run and its progress. Whoever interrupts a run wants no other. Raises UsageError before the
    first run if a problem of one of them is known.
    """
    loaded = all_ready([(name, overrides) for name in names], leave_out=True)
    left_out = {name: why for name, scenario in zip(names, loaded, strict=True) if (why := why_left_out(scenario))}
    for name, why in left_out.items():
        tell(f"{name}: {why}")
    here = [(name, scenario) for name, scenario in zip(names, loaded, strict=True) if name not in left_out]
    limits = {clients.limits(scenario.workload) for _, scenario in here if scenario.workload.workers}
    for line in sorted(limits - {""}):
        tell(line)
    session = compose.JudgingSession(master=master)
    cells: list[Cell] = []
    wanted = [(name, scenario, number) for name, scenario in here for number in range(1, repeat + 1)]
    tell(f"{'scenario':<42}{'run':>4}{'seed':>6}  {'stated':<13}{'seen':<13}{'s':>6}")
    try:
        for name, scenario, number in wanted:
            part = f"{len(cells) + 1} of {len(wanted)}  {name}"
            cell = _one(session, name, scenario, number, runs, (seed or 1) + number - 1, partial(show, part))
            cells.append(cell)
            mark = "" if cell.as_stated else f"  NOT AS STATED: {cell.note}"
            tell(
                f"{cell.scenario:<42}{cell.number:>4}{cell.seed:>6}  {cell.stated:<13}{cell.seen:<13}"
                f"{cell.duration_s:>6.1f}{mark}"
            )
            if cell.interrupted:
                tell(f"Interrupted: {len(wanted) - len(cells)} of {len(wanted)} runs were not begun")
                break
    finally:
        session.close()
    wrong = sum(not cell.as_stated for cell in cells)
    total = sum(cell.duration_s for cell in cells)
    tell(f"{len(cells)} runs, {wrong} not as stated, {total:.0f} s")
    return Verified(cells=cells, left_out=left_out)


def exit_code(cells: Sequence[Cell]) -> int:
    """0 if all ended as stated; otherwise by those that did not: 1 an unstated violation, 4 an error, 3 else. 3 where
    nothing was run."""
    if not cells:
        return Verdict.INCONCLUSIVE.exit_code
    wrong = [cell for cell in cells if not cell.as_stated]
    return exit_code_of({_counts_as(cell) for cell in wrong}) if wrong else 0


def _counts_as(cell: Cell) -> Verdict:
    if cell.seen == cell.stated:
        return Verdict.INCONCLUSIVE if cell.has_page else Verdict.ERROR
    seen = Verdict(cell.seen)
    return seen if seen in (Verdict.VIOLATION, Verdict.ERROR) else Verdict.INCONCLUSIVE


def _one(
    session: compose.JudgingSession,
    name: str,
    scenario: Scenario,
    number: int,
    runs: Path,
    seed: int,
    show: Callable[[str], None],
) -> Cell:
    began = time.monotonic()
    show("begins")
    try:
        folder, outcome = compose.run_scenario(
            scenario,
            runs=runs,
            seed=seed,
            command=["kafka-chaos", *sys.argv[1:]],
            progress=lambda seen: show(f"{seen.phase}, {seen.elapsed_s:.0f} s, {seen.acknowledged} acknowledged"),
            on_healed=session.warm_up,
        )
        judged = session.judge(folder.path, progress=lambda phase: show(f"checking, {phase}"))
    except HarnessError as error:
        seconds = time.monotonic() - began
        return Cell(
            scenario=name,
            number=number,
            seed=seed,
            folder="",
            stated="",
            seen="error",
            as_stated=False,
            duration_s=seconds,
            note=str(error),
        )
    judgement = judged.judgement
    note = "; ".join([unmet(judgement.expectations), *judgement.reasons[:2], outcome.error or "", judged.page_error])
    return Cell(
        scenario=name,
        number=number,
        seed=seed,
        folder=str(judged.folder),
        stated=judgement.expected,
        seen=judgement.verdict.value,
        as_stated=judgement.as_expected and judged.page is not None and outcome.status != "interrupted",
        has_page=judged.page is not None,
        interrupted=outcome.status == "interrupted",
        duration_s=time.monotonic() - began,
        note=note,
    )


def write_junit(verified: Verified, path: Path) -> None:
    """A test case per run, so that any CI shows which scenario came out otherwise; one that was left out is skipped
    with its reason. Raises HarnessError."""
    skipped = [
        junit.Case(group="scenarios", name=name, outcome=junit.Outcome.SKIPPED, duration_s=0, message=why)
        for name, why in verified.left_out.items()
    ]
    junit.write_junit([*(_case(cell) for cell in verified.cells), *skipped], path)


def _case(cell: Cell) -> junit.Case:
    return junit.Case(
        group="scenarios",
        name=f"{cell.scenario} #{cell.number}",
        outcome=junit.Outcome.PASSED if cell.as_stated else junit.Outcome.FAILED,
        duration_s=cell.duration_s,
        message="" if cell.as_stated else f"stated {cell.stated}, seen {cell.seen}: {cell.note}",
        text="" if cell.as_stated else f"run folder {cell.folder}",
    )
