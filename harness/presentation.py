"""What the command line prints: the live line of a run, verdicts, findings, lists. Decides nothing."""

import json
import shutil
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from harness import compose
from harness.controller.run import Progress
from harness.errors import MISFITS, HarnessError, misfit
from harness.history.run_folder import RunFolder
from harness.judged import Judged
from harness.terminal import Terminal

if TYPE_CHECKING:
    from reports.comparison import Comparison

_HEADS = ("run", "scenario", "seed", "status", "verdict", "violations", "permitted")
_STYLES = {"pass": "green", "violation": "bold red", "inconclusive": "yellow", "vacuous": "yellow", "error": "bold red"}


class Live:
    """One line that is rewritten on a terminal, a line per phase elsewhere. Starts Spark once the faults are over."""

    def __init__(self, terminal: Terminal, *, master: str) -> None:
        self._terminal = terminal
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
        if self._terminal.is_terminal:
            self._terminal.say()
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
        if not self._terminal.is_terminal:
            if progress.phase != self._phase:
                self._terminal.say(f"{now:7.1f} s  {progress.phase}")
            self._phase = progress.phase
            return
        faults = ", ".join(progress.faults) or "none"
        line = (
            f"{now:6.1f} s  {progress.phase:<12} {count:>7} acknowledged  {self._rate:6.0f}/s  "
            f"{progress.unknown} unknown  faults: {faults}"
        )
        self._terminal.rewrite(line, shutil.get_terminal_size().columns - 1)


def print_outcome(terminal: Terminal, judged: Judged) -> None:
    judgement = judged.judgement
    verdict = judgement.verdict.value
    terminal.say(verdict.upper(), style=_STYLES[verdict], then=f"  {judgement.sentence}")
    for name, finding in judgement.findings:
        if finding.classification != "observation":
            terminal.say(f"  {name} {finding.classification}: {finding.sentence}")
    if verdict not in ("pass", "violation"):
        for reason in judgement.reasons:
            terminal.say(f"  {reason}")
    stated = "as the scenario states" if judgement.as_expected else f"the scenario states {judgement.expected}"
    terminal.say(f"Exit code {judgement.exit_code}; {stated}.")
    if judged.page is not None:
        terminal.say(f"Page: {judged.page}")
    else:
        terminal.say(f"No page: {judged.page_error}")


def print_comparison(terminal: Terminal, page: Path, comparison: "Comparison") -> int:
    """0 when every column has a run whose numbers count; 3 when there is nothing to hold against another."""
    for warning in comparison.warnings:
        terminal.say(f"Not like for like: {warning}")
    terminal.say(comparison.headline)
    for each in comparison.differences:
        if each.kind == "differs" and each.context + each.sentence != comparison.headline:
            terminal.say(f"  {each.topic}: {each.sentence} {each.note}".rstrip())
    terminal.say(f"Page: {page}")
    return 0 if all(column.counted for column in comparison.columns) else 3


def print_findings(terminal: Terminal, folder: Path, wanted: str | None, *, everything: bool = False) -> None:
    from reports.proof import listing_of, proof_of

    try:
        if wanted is None:
            lines = listing_of(folder, everything=everything)
        else:
            lines = proof_of(folder, wanted, everything=everything)
    except MISFITS as error:
        raise misfit(folder, error) from error
    for line in lines:
        terminal.say(line)


def print_runs(terminal: Terminal, runs: Path, *, as_json: bool) -> None:
    rows = []
    for path in sorted(runs.glob("*/run.json"), reverse=True):
        if path.parent.is_symlink():
            continue
        told = _summary(path.parent)
        if as_json:
            terminal.say(json.dumps(told))
            continue
        rows.append([told[key] for key in ("id", *_HEADS[1:])])
    if not as_json:
        terminal.rows(_HEADS, rows)


def _summary(folder: Path) -> dict[str, Any]:
    """What a run says of itself; where it cannot be read, what is wrong with it."""
    run: dict[str, Any] = {"id": folder.name}
    verdict: dict[str, Any] = {}
    try:
        told = RunFolder(folder)
        run = told.run
        if (folder / "verdict.json").is_file():
            verdict = told.verdict()
    except HarnessError as error:
        run = {**run, "scenario": str(error)}
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


def print_health(terminal: Terminal, health: list[tuple[str, bool, str]]) -> int:
    """0 when everything a run needs is there."""
    for name, ok, told in health:
        terminal.say(f"{'ok     ' if ok else 'MISSING'}  {name:<12} {told}")
    return 0 if all(ok for _, ok, _ in health) else 4
