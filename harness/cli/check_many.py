"""Checks stored data: many runs as one Spark job, or histories that Jepsen recorded.

The worst verdict is the command's. Long work reports its progress on stderr; stdout is only for answers.
"""

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from harness import compose
from harness.checks.judged import Judged, NotJudged
from harness.errors import MISFITS, HarnessError, UsageError, misfit
from harness.history.accepted import Accepted
from harness.history.jepsen import edn
from harness.host import memory
from harness.verdict import Verdict, exit_code_of

SUB_VIA = ("assign", "subscribe")
_QUIET_S = 3.0
PAGES_UNASKED = 20  # a page takes longer than the verdict of a small run


class PhaseReports:
    """Reports the stages of a check, but only after it has taken some seconds: first the current one, then each new."""

    def __init__(
        self, tell: Callable[[str], None], *, first: str = "start of Spark", quiet_s: float = _QUIET_S
    ) -> None:
        self._tell = tell
        self._began = time.monotonic()
        self._lock = threading.Lock()
        self._phase = first
        self._loud = False
        self._timer = threading.Timer(quiet_s, self._speak)
        self._timer.daemon = True

    def __enter__(self) -> "PhaseReports":
        self._timer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._timer.cancel()
        with self._lock:
            self._loud = False

    def begins(self, phase: str) -> None:
        with self._lock:
            new, self._phase = phase != self._phase, phase
            if new and self._loud:
                self._say()

    def _speak(self) -> None:
        with self._lock:
            self._loud = True
            self._say()

    def _say(self) -> None:
        self._tell(f"checking: {time.monotonic() - self._began:5.1f} s  {self._phase}")


@contextlib.contextmanager
def check_runs(
    folders: Sequence[Path],
    *,
    master: str,
    pages: bool | None,
    tell: Callable[[str], None],
    accepted: Mapping[str, Accepted] | None = None,
) -> Iterator[list[Judged | NotJudged]]:
    """Judges all of them as one job. pages: whether their pages are written again; None: up to PAGES_UNASKED runs.
    accepted: as in `judge_many`.

    The JVM ends last, after the verdicts were used: on a machine's first run its end takes long (class_archive.py).
    """
    session = compose.JudgingSession(master=master, folders=folders)
    wanted = len(folders) <= PAGES_UNASKED if pages is None else pages
    try:
        with PhaseReports(tell) as reports:
            judged = session.judge_many(folders, progress=reports.begins, pages=wanted, accepted=accepted)
        if not wanted and pages is None:
            verdicts = sum(isinstance(each, Judged) for each in judged)
            tell(f"{verdicts} verdicts and no pages; --pages writes them, `kafka-chaos report RUN` writes one")
        yield judged
    finally:
        session.close()


def verdict_line(each: Judged | NotJudged) -> str:
    if isinstance(each, NotJudged):
        return f"{Verdict.ERROR.value:<13}{each.folder.name}  It cannot be judged: {each.error}"
    judgement = each.judgement
    stated = "" if judgement.as_expected else f" [the scenario states {judgement.expected}]"
    return f"{judgement.verdict.value:<13}{each.folder.name}  {judgement.sentence}{stated}"


def check_jepsen(
    paths: Sequence[Path], *, ww_deps: bool, sub_via: str, compatible: bool, tell: Callable[[str], None]
) -> list[Any]:
    """The answers for Jepsen's histories (files, or folders of .edn files), in order, from one job.

    A history that cannot be judged gets a NotJudged in its place; the others are still judged.
    """
    if sub_via not in SUB_VIA:
        raise UsageError(f"--sub-via {sub_via}: consumers got their partitions by one of: {', '.join(SUB_VIA)}")
    from harness.history.jepsen.edn_reader import memory_of
    from harness.history.jepsen.jepsen_import import history_files, read_history

    for path in paths:
        if not path.exists():
            raise UsageError(f"{path}: no such file or folder; give .edn files of Jepsen, or folders of them")
    memory.keep_freed()
    with PhaseReports(tell, first="reading of the histories") as reports:
        from harness.checks.jepsen import check_histories

        def judged(some: Sequence[Any]) -> list[Any]:
            try:
                found: list[Any] = check_histories(
                    some, ww_deps=ww_deps, sub_via=frozenset({sub_via}), compatible=compatible
                )
            except MISFITS as error:
                if len(some) == 1:
                    return [NotJudged(folder=Path(some[0].name), error=misfit(some[0].name, error))]
                half = len(some) // 2  # finds the one that fails by judging fewer at once
                return [*judged(some[:half]), *judged(some[half:])]
            return found

        files = history_files(paths)
        answers: dict[int, Any] = {}
        waiting: dict[int, Any] = {}

        def settle() -> None:
            reports.begins(f"{len(waiting)} histories")
            answers.update(zip(waiting, judged(list(waiting.values())), strict=True))
            waiting.clear()

        held = memory.Together()
        for place, file in enumerate(files):
            path, links = file.path, file.through_links
            try:
                size = memory_of(path.stat().st_size) if links or not path.is_symlink() else 0
                if waiting and not held.has_room_for(size):  # holds no more at a time than there is memory for
                    settle()
                    held = memory.Together()
                waiting[place] = read_history(path, through_links=links, name=file.name)
                held.take(str(path), size)
            except (HarnessError, OSError) as error:
                waiting.pop(place, None)
                problem = error if isinstance(error, HarnessError) else UsageError(f"{path}: {error.strerror}")
                answers[place] = NotJudged(folder=Path(file.name), error=problem)
            except MISFITS as error:
                waiting.pop(place, None)
                problem = misfit(path, error, what="what its lines hold")
                answers[place] = NotJudged(folder=Path(file.name), error=problem)
        settle()
    return [answers[place] for place in range(len(files))]


def worst_of_histories(answers: Sequence[Any]) -> int:
    return exit_code_of({Verdict.ERROR if isinstance(each, NotJudged) else answer_verdict(each) for each in answers})


def answer_verdict(answer: Any) -> Verdict:
    if answer.bad:
        return Verdict.VIOLATION
    return Verdict.INCONCLUSIVE if answer.unknown is not None or answer.inconclusive else Verdict.PASS


def answer_json(answer: Any) -> str:
    if isinstance(answer, NotJudged):
        return json.dumps({"name": str(answer.folder), "error": str(answer.error)})
    return str(answer.as_json())


def answer_summary(answer: Any) -> list[str]:
    """An answer for people: its verdict, and a line for each kind of anomaly, with a mark if it decides the verdict."""
    if isinstance(answer, NotJudged):
        return [f"{Verdict.ERROR.value:<13}{answer.folder}  It cannot be judged: {answer.error}"]
    head = f"{answer_verdict(answer).value:<13}{answer.name}"
    if answer.unknown is not None:
        return [head, f"  Jepsen's checker gives no answer: {answer.unknown}"]
    marks = dict.fromkeys(answer.inconclusive, "open") | dict.fromkeys(answer.bad, "bad")
    return [head, *(f"  {marks.get(name, ''):<5}{name}{_amount(answer.errors[name])}" for name in answer.errors)]


def _amount(found: Any) -> str:
    count = found.get("count") if isinstance(found, dict) else len(found) if isinstance(found, list) else None
    return "" if count is None else f": {count}"


def export_jepsen(folder: Path, output: Path | None) -> tuple[Path, int]:
    """Writes a run's history as Jepsen would have; returns the file and its number of lines."""
    path = output or folder / "jepsen.edn"
    return path, edn.export(compose.sealed(folder), path)
