"""Holds scenarios against their stated outcomes: runs them all, judges them in one Spark session, prints the table."""

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from harness import compose
from harness.errors import HarnessError
from harness.printable import printable
from harness.scenario_file import load
from harness.systems import traits_of


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


def verify(
    names: Sequence[str],
    *,
    repeat: int,
    runs: Path,
    seed: int | None,
    overrides: Sequence[str],
    master: str,
    tell: Callable[[str], None],
) -> list[Cell]:
    """Runs one after the other, since runs side by side would disturb each other's times.

    A scenario that says nothing about the system under test is told and left out.
    """
    loaded = {name: load(name, overrides=overrides, traits_of=traits_of) for name in names}
    for name, scenario in loaded.items():
        if scenario.not_here:
            tell(f"{name}: not for {scenario.cluster.system}: {scenario.not_here}")
        else:
            compose.check_names(scenario)
    names = [name for name, scenario in loaded.items() if not scenario.not_here]
    for line in sorted({compose.limits_of_client(loaded[name]) for name in names} - {""}):
        tell(line)
    bench = compose.Bench(master=master)
    cells: list[Cell] = []
    tell(f"{'scenario':<42}{'run':>4}{'seed':>6}  {'stated':<13}{'seen':<13}{'s':>6}")
    try:
        for name in names:
            for number in range(1, repeat + 1):
                cell = _one(bench, name, number, runs, (seed or 1) + number - 1, overrides)
                cells.append(cell)
                mark = "" if cell.as_stated else f"  NOT AS STATED: {cell.note}"
                tell(
                    f"{cell.scenario:<42}{cell.number:>4}{cell.seed:>6}  {cell.stated:<13}{cell.seen:<13}"
                    f"{cell.duration_s:>6.1f}{mark}"
                )
    finally:
        bench.close()
    wrong = sum(not cell.as_stated for cell in cells)
    total = sum(cell.duration_s for cell in cells)
    tell(f"{len(cells)} runs, {wrong} not as stated, {total:.0f} s")
    return cells


def _one(bench: compose.Bench, name: str, number: int, runs: Path, seed: int, overrides: Sequence[str]) -> Cell:
    began = time.monotonic()
    try:
        folder, outcome = compose.run_scenario(
            name,
            runs=runs,
            seed=seed,
            overrides=overrides,
            command=["kafka-chaos", *sys.argv[1:]],
            progress=lambda _: None,
            on_healed=bench.warm_up,
        )
        judged = bench.judge(folder.path)
    except HarnessError as error:
        seconds = time.monotonic() - began
        return Cell(
            scenario=name, number=number, seed=seed, folder="", stated="", seen="error", as_stated=False,
            duration_s=seconds, note=str(error),
        )  # fmt: skip
    judgement = judged.judgement
    unmet = [f"{row['expectation']}: required {row['required']}, seen {row['seen']}"
             for row in judgement.expectations if not row["met"]]  # fmt: skip
    note = "; ".join([*unmet, *judgement.reasons[:2], outcome.error or "", judged.page_error])
    return Cell(
        scenario=name, number=number, seed=seed, folder=str(judged.folder), stated=judgement.expected,
        seen=judgement.verdict.value, as_stated=judgement.as_expected and judged.page is not None,
        duration_s=time.monotonic() - began, note=note,
    )  # fmt: skip


def write_junit(cells: Sequence[Cell], path: Path) -> None:
    """A test case per run, so that any CI shows which scenario came out otherwise. Raises HarnessError."""
    suite = ElementTree.Element(
        "testsuite", name="kafka-chaos", tests=str(len(cells)), failures=str(sum(not cell.as_stated for cell in cells))
    )
    for cell in cells:
        case = ElementTree.SubElement(
            suite,
            "testcase",
            classname="scenarios",
            name=printable(f"{cell.scenario} #{cell.number}"),
            time=f"{cell.duration_s:.3f}",
        )
        if not cell.as_stated:
            message = printable(f"stated {cell.stated}, seen {cell.seen}: {cell.note}")
            ElementTree.SubElement(case, "failure", message=message).text = printable(f"run folder {cell.folder}")
    try:
        ElementTree.ElementTree(suite).write(path, encoding="utf-8", xml_declaration=True)
    except OSError as error:
        raise HarnessError(f"--junit {path} cannot be written: {error.strerror}") from error
