"""A campaign's results as JUnit cases and as a Markdown summary; and what of them fails a CI's job.

A case is a scenario on a system: all runs of it together. Drawn schedules have names of their own, so that each system
has one case for all of a profile.
"""

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.ci.campaign_rows import CAMPAIGN_PAGE, NOT_RUN, CampaignResults, FindingRow, RunRow
from harness.ci.junit import Case, Outcome
from harness.errors import UsageError
from harness.history.files_below import FilesBelow
from harness.host.printable import printable
from harness.values import is_number
from harness.verdict import Verdict, exit_code_of

FAIL_ON = ("violation", "not-as-stated", "error", "inconclusive")
FAIL_ON_UNLESS_SAID = ("violation", "error")
_WORST_FIRST = ("violation", "error", "inconclusive", "vacuous", "pass", NOT_RUN)
_OPEN = ("inconclusive", "vacuous")
_FAILS_AS = {
    "violation": Verdict.VIOLATION,
    "error": Verdict.ERROR,
    "inconclusive": Verdict.INCONCLUSIVE,
    "not-as-stated": Verdict.INCONCLUSIVE,
}
_NUMBERS_MAX = 5
_ROWS_MAX = 30
_TEXT_MAX = 2000  # characters of a name or sentence; all of it is in the campaign's tables
_MARKUP = str.maketrans({each: f"\\{each}" for each in "\\`*_{}[]()<>#+-!|~&@"})


@dataclass(frozen=True, kw_only=True)
class Cell:
    """The runs of a scenario on a system; `worst`: the one to look at first."""

    scenario: str
    system: str
    runs: Sequence[RunRow]

    @property
    def worst(self) -> RunRow:
        return min(self.runs, key=lambda run: (_WORST_FIRST.index(counts_as(run)), run.number))

    @property
    def took_s(self) -> float:
        return sum(run.took_s or 0.0 for run in self.runs)


def counts_as(run: RunRow) -> str:
    """A verdict that its scenario states is as it should be: many show what a configuration or a planted flaw does."""
    return "pass" if run.as_stated and run.verdict not in ("error", NOT_RUN) else run.verdict


def fail_on(words: str) -> frozenset[str]:
    """--fail-on violation,error. "none" alone: nothing does. Raises UsageError."""
    given = frozenset(each.strip() for each in words.split(",") if each.strip())
    if given == {"none"}:
        return frozenset()
    if not given or given - set(FAIL_ON):
        raise UsageError(f"--fail-on {words}: write some of {', '.join(FAIL_ON)}, with commas; or none")
    return given


def cells(results: CampaignResults) -> list[Cell]:
    """In the order of the plan."""
    found: dict[tuple[str, str], list[RunRow]] = {}
    for run in results.runs:
        if run.verdict not in _WORST_FIRST:
            raise UsageError(f"{results.path}: run {run.number} has the verdict {run.verdict!r}, which is none of ours")
        system = run.system if run.world in ("", "local") else f"{run.system} ({run.world})"
        found.setdefault((run.scenario, system), []).append(run)
    return [Cell(scenario=scenario, system=system, runs=runs) for (scenario, system), runs in found.items()]


@dataclass(frozen=True, kw_only=True)
class Least:
    """How many of the planned runs have to be made, or how many of a hundred of them."""

    runs: int = 0
    percent: int = 0

    def missed_by(self, results: CampaignResults) -> str:
        """How too few were made; "": enough were."""
        made, planned = sum(run.verdict != NOT_RUN for run in results.runs), len(results.runs)
        if made >= self.runs and made * 100 >= self.percent * planned:
            return ""
        wanted = f"{self.runs}" if made < self.runs else f"{self.percent}%"
        return f"only {made} of {planned} planned runs were made, and --least-runs is {wanted}"


def least_runs(words: str) -> Least:
    """--least-runs 20, or 80%. Raises UsageError."""
    digits, percent, rest = words.strip().partition("%")
    if is_number(digits) and not rest and (not percent or int(digits) <= 100):
        return Least(percent=int(digits)) if percent else Least(runs=int(digits))
    raise UsageError(f"--least-runs {words}: write how many runs, 20, or which share of those planned, 80%")


@dataclass(frozen=True, kw_only=True)
class Job:
    """What a CI's job comes to. reasons: what failed it."""

    exit_code: int
    reasons: Sequence[str]

    @property
    def sentence(self) -> str:
        if self.reasons:
            return f"The job fails with exit code {self.exit_code}: {'; '.join(self.reasons)}"
        return "The job passes, exit code 0"


JOB = "job.json"  # beside the results of a night


def keep_job(folder: Path, job: Job) -> None:
    """For the campaign's page, which is made of its folder alone."""
    came_to = {"exit_code": job.exit_code, "sentence": job.sentence}
    FilesBelow(folder).replace(JOB, json.dumps(came_to, indent=2).encode() + b"\n")


def job(results: CampaignResults, fails: Collection[str], least: Least) -> Job:
    """Exit code 0 where nothing came that fails it; else 1 a violation, 4 an error, 3 anything else."""
    accepted = _accepted_runs(results)
    of_word: dict[str, list[int]] = {word: [] for word in FAIL_ON}
    for run in results.runs:
        seen = counts_as(run)
        word = "inconclusive" if seen in _OPEN else seen
        if word == "pass" and run.as_stated is False:
            word = "not-as-stated"
        if word in fails and not (word == "violation" and run.number in accepted):
            of_word[word].append(run.number)
    verdicts = {_FAILS_AS[word] for word, numbers in of_word.items() if numbers}
    reasons = [f"{word} in {_numbered(numbers)}" for word, numbers in of_word.items() if numbers]
    if all(run.verdict == NOT_RUN for run in results.runs):
        verdicts.add(Verdict.INCONCLUSIVE)
        reasons.append("no run was made")
    if results.summary.stop == "interrupted":
        verdicts.add(Verdict.INCONCLUSIVE)
        reasons.append("it was interrupted before its end")
    if too_few := least.missed_by(results):
        verdicts.add(Verdict.INCONCLUSIVE)
        reasons.append(too_few)
    return Job(exit_code=exit_code_of(verdicts), reasons=reasons)


def _numbered(numbers: Sequence[int]) -> str:
    shown = ", ".join(map(str, numbers[:_NUMBERS_MAX]))
    return f"run {shown}" if len(numbers) == 1 else f"runs {shown}{' ...' if len(numbers) > _NUMBERS_MAX else ''}"


def _accepted_runs(results: CampaignResults) -> set[int]:
    """Runs whose violations are all accepted."""
    groups = {group.fingerprint: group for group in results.findings if group.classification == "violation"}
    by_run: dict[int, list[FindingRow]] = {}
    for seen in results.occurrences:
        if seen.fingerprint in groups:
            by_run.setdefault(seen.run, []).append(groups[seen.fingerprint])
    return {run for run, found in by_run.items() if all(group.accepted_reason for group in found)}


# ---- JUnit ----------------------------------------------------------------------------------------------------------


def cases(results: CampaignResults) -> list[Case]:
    """Vacuous and inconclusive ones, and those that did not run, are skipped with their reasons."""
    accepted = _accepted_runs(results)
    return [_case(results, cell, accepted) for cell in cells(results)]


def _case(results: CampaignResults, cell: Cell, accepted: Collection[int]) -> Case:
    worst = min(cell.runs, key=lambda run: (run.number in accepted, _WORST_FIRST.index(counts_as(run)), run.number))
    counts = Counter(run.verdict for run in cell.runs)
    words = ", ".join(f"{counts[verdict]} {_word(verdict)}" for verdict in _WORST_FIRST if counts[verdict])
    seen = counts_as(worst)
    outcome = {
        "violation": Outcome.SKIPPED if worst.number in accepted else Outcome.FAILED,
        "error": Outcome.ERROR,
        "pass": Outcome.PASSED,
    }.get(seen, Outcome.SKIPPED)
    message = "" if outcome is Outcome.PASSED else f"{_word(seen)}: {_cut(worst.sentence_text)}"
    if worst.number in accepted and seen == "violation":
        message = f"accepted {message}"
    return Case(
        group=f"{_cut(results.name)}.{_cut(cell.system)}",
        name=_cut(cell.scenario),
        outcome=outcome,
        duration_s=cell.took_s,
        message=message,
        text="" if outcome is Outcome.PASSED else f"{len(cell.runs)} runs: {words}",
        properties={
            "seed": "" if worst.seed is None else str(worst.seed),
            "system": _cut(cell.system),
            "client": _cut(worst.client),
            "page": _cut(results.page_of(worst)) or CAMPAIGN_PAGE,
            "runs": words,
        },
    )


def _word(verdict: str) -> str:
    return "not run" if verdict == NOT_RUN else verdict


# ---- Markdown -------------------------------------------------------------------------------------------------------


def summary(results: CampaignResults, *, seen: Mapping[str, str] | None = None) -> str:
    """For the page of a CI's job. seen: fingerprint -> in how many nights it was seen lately, where that is known."""
    counts = Counter(run.verdict for run in results.runs)
    words = ", ".join(f"{counts[verdict]} {_word(verdict)}" for verdict in _WORST_FIRST if counts[verdict])
    lines = [
        f"## kafka-chaos: {_safe(results.name)}: {_safe(results.summary.verdict)}",
        "",
        _safe(results.summary.sentence),
        "",
        f"{len(results.runs)} runs: {words}. Page: `{CAMPAIGN_PAGE}` in the artifact.",
        "",
        *_findings(results.findings, seen or {}),
        *_known(results),
        *_not_run(results.runs),
        *_cells(cells(results)),
    ]
    return "\n".join(lines).rstrip() + "\n"


def _findings(groups: Sequence[FindingRow], seen: Mapping[str, str]) -> list[str]:
    kept = [group for group in groups if group.classification != "observation"]
    kept.sort(key=lambda group: (group.classification != "violation", bool(group.accepted_reason), -group.runs))
    if not kept:
        return ["No violations and no permitted losses.", ""]
    heads = ["class", "check", "cause", "fingerprint", "runs", "look at run", "note", *(["nights"] if seen else [])]
    lines = [_row(heads), _row(["---"] * len(heads))]
    for group in kept[:_ROWS_MAX]:
        until = f" until {group.accepted_until}" if group.accepted_until else ""
        notes = [f"accepted{until}: {group.accepted_reason}"] if group.accepted_reason else []
        notes += ["flaky"] if group.flaky else []
        row = [group.classification, group.check, group.cause, group.fingerprint, str(group.runs)]
        row += ["" if group.look_at is None else str(group.look_at), "; ".join(notes)]
        lines.append(_row([_safe(each) for each in row] + ([_safe(seen.get(group.fingerprint, ""))] if seen else [])))
    return [*lines, *_left_out(len(kept), "groups of findings"), ""]


def _known(results: CampaignResults) -> list[str]:
    """A line for each accepted finding that excuses nothing: its last day is over, or no run showed it."""
    lines = [
        f"- {_safe(each.fingerprint)} was accepted until {each.until}: {_safe(each.reason)}"
        for each in results.summary.expired
    ]
    lines += [
        f"- {_safe(each.fingerprint)} is accepted, and no run showed it: {_safe(each.reason)}"
        for each in results.summary.unseen
    ]
    return [*lines, ""] if lines else []


def _not_run(runs: Sequence[RunRow]) -> list[str]:
    """A line for each reason why planned runs were not made."""
    counts = Counter(run.sentence_text for run in runs if run.verdict == NOT_RUN)
    lines = [f"- {count} not run: {_safe(reason or 'no reason is known')}" for reason, count in counts.most_common()]
    return [*lines, ""] if lines else []


def _cells(found: Sequence[Cell]) -> list[str]:
    odd = [cell for cell in found if counts_as(cell.worst) != "pass" or cell.worst.as_stated is False]
    if not odd:
        return ["Every scenario came as stated on every system.", ""]
    odd.sort(key=lambda cell: _WORST_FIRST.index(counts_as(cell.worst)))
    lines = [_row(["scenario", "system", "verdict", "runs", "why"]), _row(["---"] * 5)]
    for cell in odd[:_ROWS_MAX]:
        worst = cell.worst
        row = [cell.scenario, cell.system, _word(worst.verdict), str(len(cell.runs)), worst.sentence_text]
        lines.append(_row([_safe(each) for each in row]))
    return [*lines, *_left_out(len(odd), "scenarios"), ""]


def _left_out(count: int, what: str) -> list[str]:
    return ["", f"{count - _ROWS_MAX} further {what} are on the page."] if count > _ROWS_MAX else []


def _row(each: Sequence[str]) -> str:
    return f"| {' | '.join(each)} |"


def _safe(text: str) -> str:
    """On one line, and nothing in it is markup, a link, a mention or a cell's end."""
    return _cut(printable(text)).translate(_MARKUP)


def _cut(text: str) -> str:
    return text if len(text) <= _TEXT_MAX else text[:_TEXT_MAX] + " …"
