"""Prints for the command line: the live line of a run, verdicts, findings, lists. Decides nothing."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from harness import compose
from harness.checks.judged import Judged
from harness.cli.terminal import Terminal
from harness.controller.run import Progress, RunOutcome
from harness.errors import MISFITS, HarnessError, misfit
from harness.history.run_folder import RunFolder
from harness.host.printable import for_a_shell
from harness.verdict import Verdict

if TYPE_CHECKING:
    from reports.comparison.page import Comparison

_STYLES = {"pass": "green", "violation": "bold red", "inconclusive": "yellow", "vacuous": "yellow", "error": "bold red"}


class Live:
    """One line that is rewritten on a terminal, otherwise a line per phase. Starts Spark when the faults are over.

    `checks`: whether the run is judged here, so that Spark is needed.
    """

    def __init__(self, terminal: Terminal, *, master: str, checks: bool = True) -> None:
        self._terminal = terminal
        self._master = master
        self._checks = checks
        self._phase = ""
        self._last = (0.0, 0)
        self._rate = 0.0
        self.session: compose.JudgingSession | None = None

    def __enter__(self) -> "Live":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._terminal.keep()
        if kind is not None and self.session is not None:
            self.session.close()

    def healed(self, folder: Path) -> None:
        """Called when the last fault is over: the JVM may now warm up without disturbing the measurements."""
        if self.session is None and self._checks:
            self.session = compose.JudgingSession(master=self._master, folders=[folder])
            self.session.warm_up()

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
        self._terminal.rewrite(line)


class Steps:
    """Progress of work in many parts: one line that is rewritten on a terminal, otherwise a line per part on stderr."""

    def __init__(self, terminal: Terminal, aside: Terminal) -> None:
        self._terminal = terminal
        self._aside = aside
        self._part = ""

    def show(self, part: str, doing: str) -> None:
        if self._terminal.is_terminal:
            self._terminal.rewrite(f"{part}: {doing}")
        elif part != self._part:
            self._aside.say(part)
        self._part = part


def print_outcome(terminal: Terminal, judged: Judged) -> None:
    judgement = judged.judgement
    verdict = judgement.verdict.value
    terminal.say(verdict.upper(), style=_STYLES[verdict], then=f"  {judgement.sentence}")
    for name, finding in judgement.findings:
        if finding.classification != "observation":
            known = ", known" if name in judgement.set_aside else ""
            terminal.say(f"  {name} {finding.classification}{known}: {finding.sentence}")
    for line in judgement.excuse_nothing:
        terminal.say(f"  {line}")
    if verdict not in ("pass", "violation"):
        for reason in judgement.reasons:
            terminal.say(f"  {reason}")
    if not judgement.as_expected:
        stated = f"not as the scenario states: {unmet(judgement.expectations)}"
    elif verdict == "pass":
        stated = "as the scenario states"
    else:
        stated = f"the scenario states {judgement.expected}, and so it came"
    terminal.say(f"Exit code {judgement.exit_code}; {stated}.")
    if judged.page is not None:
        terminal.say(f"Page: {judged.page}")
    else:
        terminal.say(f"No page: {judged.page_error}")


def print_origin(terminal: Terminal, folder: RunFolder) -> None:
    """What a run came from, and the command that does it again: its folder is a scenario, with its seed."""
    run = folder.run
    ours = run["commits"].get("kafka-chaos")
    commit = "" if ours is None else f" ({ours['commit'][:12]}, {ours['state']})"
    version = f"kafka-chaos {run['versions']['kafka-chaos']}{commit}"
    terminal.say(f"Seed {run['seed']}, {version}; again: kafka-chaos run {for_a_shell(str(folder.path))}")


def recorded(terminal: Terminal, folder: RunFolder, outcome: RunOutcome) -> int:
    """Of a run that nobody judges here: 0 where there is something to judge."""
    if outcome.error:
        raise HarnessError(f"the run could not be done: {outcome.error}; what there is of it: {folder.path}")
    terminal.say(f"Recorded, and not judged: {folder.path}; `kafka-chaos check` judges it, here or elsewhere")
    print_origin(terminal, folder)
    return Verdict.PASS.exit_code if outcome.status == "complete" else Verdict.INCONCLUSIVE.exit_code


def unmet(expectations: Iterable[Mapping[str, Any]]) -> str:
    """The stated outcomes of a scenario that were not met."""
    return "; ".join(
        f"{row['expectation']}: required {row['required']}, seen {row['seen']}"
        for row in expectations
        if not row["met"]
    )


def print_comparison(terminal: Terminal, page: Path, comparison: "Comparison") -> int:
    """0 if every column has a run whose numbers count; 3 if there is nothing to compare."""
    for warning in comparison.warnings:
        terminal.say(f"Not like for like: {warning}")
    terminal.say(comparison.headline)
    for each in comparison.differences:
        if each.kind == "differs" and each.context + each.sentence != comparison.headline:
            terminal.say(f"  {each.topic}: {each.sentence} {each.note}".rstrip())
    terminal.say(f"Page: {page}")
    return 0 if all(column.counted for column in comparison.columns) else 3


def print_findings(terminal: Terminal, folder: Path, wanted: str | None, *, everything: bool = False) -> None:
    from reports.run.proof import listing_of, proof_of

    try:
        if wanted is None:
            lines = listing_of(folder, everything=everything)
        else:
            lines = proof_of(folder, wanted, everything=everything)
    except MISFITS as error:
        raise misfit(folder, error) from error
    for line in lines:
        terminal.say(line)


def print_health(terminal: Terminal, health: list[tuple[str, bool | None, str]]) -> int:
    """0 if everything that every run needs is there."""
    words = {True: "ok", False: "MISSING", None: "not here"}
    for name, ok, detail in health:
        terminal.say(f"{words[ok]:<8} {name:<12} {detail}")
    return 4 if any(ok is False for _, ok, _ in health) else 0
