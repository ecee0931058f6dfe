"""The one verdict of a campaign: what its judged runs come to together, and its findings grouped across runs."""

import datetime
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from harness.campaign.plan import Plan, PlannedRun
from harness.campaign.rows import FindingSeen, RunJudged
from harness.history.accepted import Accepted, is_accepted
from harness.verdict import Verdict, exit_code_with

# What ended a campaign before all of its runs were done; "": nothing did.
Stop = Literal["", "interrupted", "found", "time", "runs", "shards"]
_STOPS: Mapping[Stop, str] = {
    "interrupted": "interrupted",
    "found": "a violation was found",
    "time": "its time is over",
    "runs": "its number of runs is reached",
    "shards": "not by its shards",
}


@dataclass(frozen=True, kw_only=True)
class Group:
    """The findings of one fingerprint. runs: the numbers of those that have it, in order. look_at: the run to look at,
    the one with the smallest schedule (smallest_faults) of those whose folder is kept.

    flaky: among conclusive runs of the same scenario, system, world and client, some have it and some do not. Drawn
    schedules are of the same scenario only where they are the same schedule.
    """

    fingerprint: str
    check: str
    classification: str
    cause: str
    faults: tuple[str, ...]
    count: int
    runs: tuple[int, ...]
    look_at: int
    smallest_faults: int
    flaky: bool
    accepted: Accepted | None


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """counts: by verdict, "not_run" included; why_not_run: of each run that has no verdict. accepted_runs: violations
    of accepted findings alone. expired: what was accepted until a day that is over, and excuses nothing any more.
    unseen: what is accepted and no run showed.
    """

    verdict: Verdict
    exit_code: int
    sentence: str
    counts: Mapping[str, int]
    groups: tuple[Group, ...]
    accepted_runs: int
    why_not_run: Mapping[int, str]
    stop: Stop = ""
    expired: tuple[Accepted, ...] = ()
    unseen: tuple[Accepted, ...] = ()


def counts_as(run: RunJudged, plan: Plan, accepted: Mapping[str, Accepted], today: datetime.date) -> Verdict:
    """What a run means for its campaign: its verdict; but a violation of accepted findings alone is none."""
    seen = Verdict(run.verdict)
    if plan.stated_is_pass and run.stated:
        if run.as_stated:
            return Verdict.PASS
        if seen is Verdict.PASS:
            return Verdict.INCONCLUSIVE  # what the scenario is about did not show
    if seen is Verdict.VIOLATION:
        violations = [each.fingerprint for each in run.findings if each.classification == "violation"]
        if violations and all(is_accepted(each, accepted, today) for each in violations):
            return Verdict.PASS
    return seen


def outcome_of(
    plan: Plan,
    judged: Mapping[int, RunJudged],
    accepted: Mapping[str, Accepted],
    *,
    today: datetime.date,
    stop: Stop = "",
) -> Outcome:
    """What was interrupted has not passed, whatever its first runs came to."""
    planned = {run.number: run for run in plan.runs}
    means = {number: counts_as(run, plan, accepted, today) for number, run in judged.items()}
    counts = Counter(run.verdict for run in judged.values())
    if all(run.not_here or run.number in judged for run in plan.runs):
        stop = ""  # all was done that can be done here
    why_not_run = {run.number: run.not_here or _STOPS.get(stop, "") for run in plan.runs if run.number not in judged}
    accepted_runs = sum(
        run.verdict == "violation" and means[number] is Verdict.PASS and not (plan.stated_is_pass and run.as_stated)
        for number, run in judged.items()
    )
    groups = groups_of(planned, judged, accepted, today=today)
    code = exit_code_of_campaign(list(means.values()), plan.inconclusive_share)
    if code == 0 and why_not_run and stop == "interrupted":
        code = 3
    verdict = {1: Verdict.VIOLATION, 4: Verdict.ERROR, 3: Verdict.INCONCLUSIVE, 0: Verdict.PASS}[code]
    breaking = sum(bool(run.broken_invariant) for run in judged.values())
    code = exit_code_with(code, is_invariant_broken=breaking > 0)
    sentence = _sentence(counts, Counter(means.values()), groups, why_not_run, breaking=breaking)
    return Outcome(
        verdict=verdict,
        exit_code=code,
        sentence=sentence,
        counts=dict(counts) | {"not_run": len(why_not_run)},
        groups=groups,
        accepted_runs=accepted_runs,
        why_not_run=why_not_run,
        stop=stop,
        expired=tuple(each for each in accepted.values() if not each.holds(today)),
        unseen=tuple(each for each in accepted.values() if each.fingerprint not in {one.fingerprint for one in groups}),
    )


def exit_code_of_campaign(means: Sequence[Verdict], inconclusive_share: float) -> int:
    """1: a violation somewhere; else 4: an error; else 3: more inconclusive runs than stated, or no run; else 0."""
    if Verdict.VIOLATION in means:
        return 1
    if Verdict.ERROR in means:
        return 4
    open_runs = sum(each in (Verdict.INCONCLUSIVE, Verdict.VACUOUS) for each in means)
    return 3 if not means or open_runs > inconclusive_share * len(means) else 0


def groups_of(
    planned: Mapping[int, PlannedRun],
    judged: Mapping[int, RunJudged],
    accepted: Mapping[str, Accepted],
    *,
    today: datetime.date,
) -> tuple[Group, ...]:
    """Violations first, then what was seen in most runs."""
    found: defaultdict[str, dict[int, FindingSeen]] = defaultdict(dict)
    conclusive: defaultdict[tuple[object, ...], set[int]] = defaultdict(set)
    for number, run in sorted(judged.items()):
        for seen in run.findings:
            found[seen.fingerprint][number] = seen
        if run.verdict in ("pass", "violation"):
            conclusive[_like(planned[number])].add(number)
    groups = []
    for fingerprint, by_run in found.items():
        first = next(iter(by_run.values()))
        smallest = min(by_run, key=lambda number: (not judged[number].folder, judged[number].schedule_faults, number))
        flaky = any(conclusive[_like(planned[number])] - set(by_run) for number in by_run)
        groups.append(
            Group(
                fingerprint=fingerprint,
                check=first.check,
                classification=first.classification,
                cause=first.cause,
                faults=tuple(sorted({kind for seen in by_run.values() for kind in seen.faults})),
                count=sum(seen.count for seen in by_run.values()),
                runs=tuple(by_run),
                look_at=smallest,
                smallest_faults=judged[smallest].schedule_faults,
                flaky=flaky,
                accepted=accepted[fingerprint] if is_accepted(fingerprint, accepted, today) else None,
            )
        )
    order = ("violation", "permitted", "observation")
    return tuple(sorted(groups, key=lambda each: (order.index(each.classification), -len(each.runs), each.fingerprint)))


def of_reasons(reasons: Iterable[str]) -> str:
    """(its time is over), or (3 its time is over, 2 no container engine answers); "" where none is known."""
    counts = Counter(filter(None, reasons))
    several = len(counts) > 1
    words = ", ".join(f"{count} {reason}" if several else reason for reason, count in counts.most_common())
    return f" ({words})" if words else ""


def _like(run: PlannedRun) -> tuple[object, ...]:
    """What runs have in common that should come to the same outcome, whatever their seed."""
    schedule = () if run.drawn is None else (run.profile, run.seed, run.drawn)
    return (run.scenario, run.text, run.system, run.world, run.client, *schedule)


def _sentence(
    counts: Mapping[str, int],
    means: Mapping[Verdict, int],
    groups: Sequence[Group],
    why_not_run: Mapping[int, str],
    *,
    breaking: int,
) -> str:
    """breaking: how many runs broke an invariant."""
    total = sum(counts.values())
    parts = [
        f"{counts[name]} {name}"
        for name in ("pass", "violation", "inconclusive", "vacuous", "error")
        if counts.get(name)
    ]
    sentence = f"{total} run{'s' if total > 1 else ''}: {', '.join(parts)}" if total else "no run was done"
    stated = total - sum(means[each] for each in means if each is not Verdict.PASS)
    if total and stated != counts.get("pass", 0):
        sentence += f"; {stated} count as passing: stated or accepted"
    broken = [group for group in groups if group.classification == "violation" and group.accepted is None]
    if broken:
        sentence += f"; {len(broken)} different violation{'s' if len(broken) > 1 else ''}"
    if breaking:
        sentence += f"; an invariant was broken in {breaking} run{'s' if breaking > 1 else ''}"
    if why_not_run:
        sentence += f"; {len(why_not_run)} not run{of_reasons(why_not_run.values())}"
    return sentence + "."
