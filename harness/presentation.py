"""What the command line prints: the live line of a run, verdicts, findings, lists. Decides nothing."""

import json
import shutil
import sys
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from harness import compose
from harness.controller.run import Progress
from harness.errors import HarnessError
from harness.history.run_folder import RunFolder

if TYPE_CHECKING:
    from reports.comparison import Comparison

_STYLES = {"pass": "green", "violation": "bold red", "inconclusive": "yellow", "vacuous": "yellow", "error": "bold red"}


class Live:
    """One line that is rewritten on a terminal, a line per phase elsewhere. Starts Spark once the faults are over."""

    def __init__(self, console: Console, *, master: str) -> None:
        self._console = console
        self._master = master
        self._phase = ""
        self._last = (0.0, 0)
        self._rate = 0.0
        self.bench: compose.Bench | None = None

    def __enter__(self) -> "Live":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._console.is_terminal:
            self._console.print()
        if kind is not None and self.bench is not None:
            self.bench.close()

    def healed(self, folder: Path) -> None:
        """The last fault is over: the JVM may warm up now without disturbing what is measured."""
        if self.bench is None:
            self.bench = compose.Bench(master=self._master, folders=[folder])
            self.bench.warm_up()

    def show(self, progress: Progress) -> None:
        now, count = progress.elapsed_s, progress.acknowledged
        if now - self._last[0] >= 1:
            self._rate = (count - self._last[1]) / (now - self._last[0])
            self._last = (now, count)
        if not self._console.is_terminal:
            if progress.phase != self._phase:
                self._console.print(f"{now:7.1f} s  {progress.phase}", markup=False)
            self._phase = progress.phase
            return
        faults = ", ".join(progress.faults) or "none"
        line = (
            f"{now:6.1f} s  {progress.phase:<12} {count:>7} acknowledged  {self._rate:6.0f}/s  "
            f"{progress.unknown} unknown  faults: {faults}"
        )
        width = shutil.get_terminal_size().columns - 1
        sys.stdout.write(f"\r{line[:width]:<{width}}")
        sys.stdout.flush()


def print_outcome(console: Console, judged: compose.Judged) -> None:
    judgement = judged.judgement
    verdict = judgement.verdict.value
    console.print(f"[{_STYLES[verdict]}]{verdict.upper()}[/]  ", end="")
    console.print(judgement.sentence, markup=False)
    for name, finding in judgement.findings:
        if finding.classification != "observation":
            console.print(f"  {name} {finding.classification}: {finding.sentence}", markup=False)
    if verdict not in ("pass", "violation"):
        for reason in judgement.reasons:
            console.print(f"  {reason}", markup=False)
    stated = "as the scenario states" if judgement.as_expected else f"the scenario states {judgement.expected}"
    console.print(f"Exit code {judgement.exit_code}; {stated}.", markup=False)
    if judged.page is not None:
        console.print(f"Page: {judged.page}", markup=False)
    else:
        console.print(f"No page: {judged.page_error}", markup=False)


def print_comparison(console: Console, page: Path, comparison: "Comparison") -> int:
    """0 when every column has a run whose numbers count; 3 when there is nothing to hold against another."""
    for warning in comparison.warnings:
        console.print(f"Not like for like: {warning}", markup=False)
    console.print(comparison.headline, markup=False)
    for each in comparison.differences:
        if each.kind == "differs" and each.context + each.sentence != comparison.headline:
            console.print(f"  {each.topic}: {each.sentence} {each.note}".rstrip(), markup=False)
    console.print(f"Page: {page}", markup=False)
    return 0 if all(column.counted for column in comparison.columns) else 3


def print_findings(console: Console, folder: Path, wanted: str | None, *, everything: bool = False) -> None:
    from reports.proof import listing_of, proof_of

    if wanted is None:
        lines = listing_of(folder, everything=everything)
    else:
        lines = proof_of(folder, wanted, everything=everything)
    for line in lines:
        console.print(line, markup=False)


def print_runs(console: Console, runs: Path, *, as_json: bool) -> None:
    table = Table("run", "scenario", "seed", "status", "verdict", "violations", "permitted")
    for path in sorted(runs.glob("*/run.json"), reverse=True):
        if path.parent.is_symlink():
            continue
        told = _summary(path.parent)
        if as_json:
            console.print(json.dumps(told), markup=False)
            continue
        table.add_row(
            *(str(told[key]) for key in ("id", "scenario", "seed", "status", "verdict", "violations", "permitted"))
        )
    if not as_json:
        console.print(table)


def _summary(folder: Path) -> dict[str, Any]:
    verdict: dict[str, Any] = {}
    try:
        found = RunFolder(folder)
        run = found.run
        if (folder / "verdict.json").is_file():
            verdict = json.loads(found.files.read("verdict.json"))
    except HarnessError as error:
        run = {"id": folder.name, "scenario": str(error)}
    except ValueError as error:
        run = {"id": folder.name, "scenario": f"{folder}: run.json or verdict.json is no JSON: {error}"}
    counts = verdict.get("counts", {})
    return {
        "id": run.get("id", folder.name),
        "scenario": run.get("scenario", ""),
        "seed": run.get("seed", ""),
        "status": run.get("status", ""),
        "verdict": verdict.get("verdict", "not judged"),
        "violations": counts.get("violation", ""),
        "permitted": counts.get("permitted", ""),
    }


def print_health(console: Console, health: list[tuple[str, bool, str]]) -> int:
    """0 when everything a run needs is there."""
    for name, ok, told in health:
        console.print(f"{'ok     ' if ok else 'MISSING'}  {name:<12} {told}", markup=False)
    return 0 if all(ok for _, ok, _ in health) else 4
