"""One schedule over releases: where a finding of a stored run appeared, or went.

The run folder is the scenario, with every random draw written out; each release gets the same one. Repeats go round the
releases, so that a machine that slows down does so for all of them, and all runs are judged together at the end. A
release is held to be without the finding only if a run of it came to a conclusion: what could not be done, or never
reached its situation, says nothing either way.
"""

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from harness import compose
from harness.checks.judged import Judged, NotJudged
from harness.cli.comparison_runs import Variant, variants_of
from harness.errors import HarnessError, UsageError
from harness.history.run_folder import RunFolder
from harness.preflight.looking import all_ready
from harness.scenario.model import Scenario
from harness.verdict import Verdict, exit_code_of

Tell = Callable[[str], None]
_CONCLUDED = (Verdict.PASS, Verdict.VIOLATION)
_GAP = "  "


class Seen(Enum):
    """How a run shows the finding that is looked for."""

    SAME = "same fingerprint"
    ALIKE = "same check and class"
    NO = "no"
    UNKNOWN = "unknown"


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """The finding that is looked for."""

    name: str
    check: str
    classification: str
    fingerprint: str


@dataclass(frozen=True, kw_only=True)
class Try:
    """One run of one release. `page`: None where there is none; `note`: why there is no run or no verdict."""

    system: str
    number: int
    verdict: Verdict
    seen: Seen
    page: Path | None
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Change:
    """Between two releases that gave an answer; `unknown`: those between them that gave none."""

    appeared: bool
    before: str
    after: str
    unknown: tuple[str, ...]

    @property
    def sentence(self) -> str:
        between = f" ({', '.join(self.unknown)} gave no answer)" if self.unknown else ""
        return f"It {'appeared' if self.appeared else 'went'} between {self.before} and {self.after}{between}."


def wanted_finding(folder: Path, named: str) -> Wanted:
    """F1, or a fingerprint, of a judged run. Raises UsageError, HarnessError."""
    run = RunFolder(folder)
    if not run.has_table("findings"):
        raise UsageError(f"{folder}: not judged yet; run `kafka-chaos check {folder}` first")
    rows = run.table("findings").to_pylist()
    for row in rows:
        if named in (row["finding"], row["fingerprint"]):
            return Wanted(
                name=row["finding"],
                check=row["check"],
                classification=row["classification"],
                fingerprint=row["fingerprint"],
            )
    known = ", ".join(row["finding"] for row in rows[:20]) or "none"
    raise UsageError(f"{named}: no finding of {folder}; it has: {known} (`kafka-chaos show {folder}` lists them)")


def releases_of(versions: str, systems: Sequence[str], variants: Sequence[str]) -> list[Variant]:
    """--versions A,B, then --system S, then --variant NAME:KEY=VALUE: the range, in its order. Raises UsageError."""
    named = [f"kafka:{each.strip()}" for each in versions.split(",") if each.strip()] + list(systems)
    if len(named) + len(variants) < 2:
        raise UsageError("name two releases at least, oldest first: --versions 2.8.2,3.9.1,4.3.1")
    return variants_of(named, variants)


def bisect(
    folder: Path,
    wanted: Wanted,
    releases: Sequence[Variant],
    *,
    repeat: int,
    runs: Path,
    seed: int | None,
    overrides: Sequence[str],
    master: str,
    tell: Tell,
) -> list[Try]:
    """All runs, release by release. Raises Problems before anything starts where something is known against one."""
    systems = [each.label for each in releases]
    scenarios = all_ready([(str(folder), [*overrides, *each.overrides]) for each in releases])
    places = {each: place for place, each in enumerate(systems)}
    made: list[tuple[str, int, Path | None, str]] = []
    stopped = False
    for number in range(1, repeat + 1):
        for system, scenario in zip(systems, scenarios, strict=True):
            path, note = (None, "interrupted before this run")
            if not stopped:
                path, note, stopped = _run(scenario, system, number, runs=runs, seed=seed, tell=tell)
            made.append((system, number, path, note))
    made.sort(key=lambda each: (places[each[0]], each[1]))
    judged = _judge([path for _, _, path, _ in made if path is not None], master=master)
    return [_try(each, wanted, judged) for each in made]


def _run(
    scenario: Scenario, system: str, number: int, *, runs: Path, seed: int | None, tell: Tell
) -> tuple[Path | None, str, bool]:
    """(the run folder, why there is none or what went wrong, whether the user stopped it)."""
    began = time.monotonic()
    try:
        folder, outcome = compose.run_scenario(
            scenario, runs=runs, seed=seed, command=["kafka-chaos", *sys.argv[1:]], progress=lambda _: None
        )
    except HarnessError as error:
        tell(f"{system}, run {number}: no run: {error}")
        return None, str(error), False
    ended = f"error: {outcome.error}" if outcome.error else outcome.status
    tell(f"{system}, run {number}: {ended} after {time.monotonic() - began:.1f} s, {folder.path.name}")
    return folder.path, outcome.error or "", outcome.status == "interrupted"


def _judge(folders: Sequence[Path], *, master: str) -> dict[Path, Judged | NotJudged]:
    if not folders:
        return {}
    session = compose.JudgingSession(master=master, folders=folders)
    try:
        return dict(zip(folders, session.judge_many(folders), strict=True))
    finally:
        session.close()


def _try(made: tuple[str, int, Path | None, str], wanted: Wanted, judged: dict[Path, Judged | NotJudged]) -> Try:
    system, number, path, note = made
    answer = judged.get(path) if path is not None else None
    if not isinstance(answer, Judged):
        why = str(answer.error) if answer is not None else note
        return Try(system=system, number=number, verdict=Verdict.ERROR, seen=Seen.UNKNOWN, page=None, note=why)
    found = [finding for _, finding in answer.judgement.findings]
    if any(each.fingerprint == wanted.fingerprint for each in found):
        seen = Seen.SAME
    elif any((each.check, each.classification) == (wanted.check, wanted.classification) for each in found):
        seen = Seen.ALIKE
    else:
        seen = Seen.NO if answer.verdict in _CONCLUDED else Seen.UNKNOWN
    return Try(
        system=system,
        number=number,
        verdict=answer.verdict,
        seen=seen,
        page=answer.page,
        note=note or "; ".join(answer.judgement.reasons[:1]),
    )


def answer_of(tries: Sequence[Try], system: str) -> bool | None:
    """Whether the release shows the finding in any of its runs; None: no run of it came to an answer."""
    seen = {each.seen for each in tries if each.system == system}
    if seen & {Seen.SAME, Seen.ALIKE}:
        return True
    return False if Seen.NO in seen else None


def changes(tries: Sequence[Try]) -> list[Change]:
    """Where the answer changed, in the order of the releases."""
    found: list[Change] = []
    last: tuple[str, bool] | None = None
    unknown: list[str] = []
    for system in dict.fromkeys(each.system for each in tries):
        answer = answer_of(tries, system)
        if answer is None:
            unknown.append(system)
            continue
        if last is not None and last[1] != answer:
            found.append(Change(appeared=answer, before=last[0], after=system, unknown=tuple(unknown)))
        last, unknown = (system, answer), []
    return found


def conclusion(tries: Sequence[Try], wanted: Wanted) -> list[str]:
    """Where it appeared or went, in sentences."""
    finding = f"{wanted.name} ({wanted.classification} {wanted.check}, {wanted.fingerprint})"
    answers = {system: answer_of(tries, system) for system in dict.fromkeys(each.system for each in tries)}
    silent = [system for system, answer in answers.items() if answer is None]
    if found := changes(tries):
        return [f"{finding}:", *(change.sentence for change in found)]
    known = {answer for answer in answers.values() if answer is not None}
    gave_none = f" No answer: {', '.join(silent)}." if silent else ""
    if not known:
        return [f"{finding}: no release gave an answer."]
    where = "every release that gave an answer" if silent else "every release"
    return [f"{finding}: seen in {where}.{gave_none}" if True in known else f"{finding}: in no release.{gave_none}"]


def table(tries: Sequence[Try]) -> list[str]:
    """A line for each run, aligned, with its heads."""
    repeats = max((each.number for each in tries), default=1) > 1
    heads = ("system", *(("run",) if repeats else ()), "verdict", "seen", "page")
    rows = [
        (
            each.system,
            *((str(each.number),) if repeats else ()),
            each.verdict.value,
            each.seen.value,
            str(each.page) if each.page is not None else f"none: {each.note}",
        )
        for each in tries
    ]
    widths = [max(len(row[place]) for row in (heads, *rows)) for place in range(len(heads))]
    return [
        _GAP.join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in (heads, *rows)
    ]


def exit_code(tries: Sequence[Try]) -> int:
    """Of all runs, as README says: a violation somewhere is 1, else an error 4, else what is open 3, else 0."""
    return exit_code_of({each.verdict for each in tries})
