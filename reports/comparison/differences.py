"""What differs, in one sentence each, and nothing that the repeats would contradict.

A sentence says the medians of all columns and whether they are further apart than the repeats of one column are. The
page's headline is the first of them that is.
"""

from collections import Counter
from collections.abc import Sequence
from itertools import combinations

from reports.comparison.columns import Column, Run
from reports.comparison.measures import Compared, Measure, always_or_never, compare, number
from reports.comparison.model import Difference, Kind
from reports.comparison.questions import Question, questions

_ALWAYS_TOLD = ("lost_violation", "lost_permitted")
_DID = {
    "pass": "passed",
    "violation": "broke a promise",
    "inconclusive": "came to no conclusion",
    "vacuous": "never reached what the scenario is about",
    "error": "could not be done",
}


def differences(columns: Sequence[Column]) -> list[Difference]:
    """All that was asked, in the order of importance; nothing about what was zero everywhere, except a loss."""
    found = [_verdicts(columns)]
    for question in questions(columns):
        made = _asked(columns, question)
        if made is not None:
            found.append(made)
    anomalies = _anomalies(columns)
    place = next((number for number, each in enumerate(found) if each.anchor == "faults"), len(found))
    return [*found[:place], *anomalies, *found[place:]]


def headline(columns: Sequence[Column], found: Sequence[Difference]) -> str:
    """What was compared, and the first of what differs."""
    runs = _and([f"{_runs(column)} of {column.label}" for column in columns])
    scenario = next(run.data.scenario.name for column in columns for run in column.runs if run.data is not None)
    return f"{scenario}, {runs}: {_most_important(columns, found)}"


def _runs(column: Column) -> str:
    """2 runs, or 1 of 2 runs where the numbers of the others do not count."""
    counted, total = len(column.counted), len(column.runs)
    runs = f"{total} run{'s' * (total != 1)}"
    return runs if counted == total else f"{counted} of {runs}"


def _most_important(columns: Sequence[Column], found: Sequence[Difference]) -> str:
    """A broken promise or a column without numbers first, then what the measures say; a vacuous column says least."""
    verdict = found[0]
    first_of_all = any("violation" in tally(column) or not column.counted for column in columns)
    ranked = [verdict, *found[1:]] if first_of_all else [*found[1:], verdict]
    first = next((each for each in ranked if each.kind == "differs"), None)
    if first is not None:
        return first.context + first.sentence
    names = " and ".join([", ".join(column.label for column in columns[:-1]), columns[-1].label])
    empty = [column.label for column in columns if not column.counted]
    if empty:
        return f"{' and '.join(empty)} came to no run whose numbers count, so there is nothing to hold against."
    if any(len(column.counted) < 2 for column in columns):
        return f"of {names} there are too few runs to tell a difference from chance."
    return f"of {len(found)} things compared, none differs between {names} by more than the repeats spread."


# ---- verdicts -------------------------------------------------------------------------------------------------------


def verdict_of(run: Run) -> str:
    return run.numbers.verdict if run.numbers is not None else "error"


def tally(column: Column) -> Counter[str]:
    return Counter(verdict_of(run) for run in column.runs)


def _verdicts(columns: Sequence[Column]) -> Difference:
    tallies = [tally(column) for column in columns]
    parts = [_tally_words(column, counts) for column, counts in zip(columns, tallies, strict=True)]
    kind: Kind
    counted = all(column.counted for column in columns)
    if all(set(counts) == set(tallies[0]) and len(counts) == 1 for counts in tallies):
        kind = "same"
    elif any(not set(one) & set(other) for one in tallies for other in tallies):
        kind = "differs" if min(sum(counts.values()) for counts in tallies) > 1 else "unknown"
    else:
        kind = "within"
    note = "The repeats do not agree either." if kind == "within" else ""
    if not counted:
        empty = next(column for column in columns if not column.counted)
        why = next((run.why for run in empty.runs if run.why), "")
        note = f"{empty.label} has no numbers: {why}"
    return Difference(
        kind=kind, topic="Verdict", context="", sentence="; ".join(parts) + ".", note=note, anchor="verdicts"
    )


def _tally_words(column: Column, counts: Counter[str]) -> str:
    total = sum(counts.values())
    if len(counts) == 1:
        verdict = next(iter(counts))
        every = "in its only run" if total == 1 else f"in all {total} runs"
        return f"{column.label} {_DID.get(verdict, verdict)} {every}"
    some = ", ".join(f"{_DID.get(verdict, verdict)} in {count}" for verdict, count in sorted(counts.items()))
    return f"{column.label} {some} of {total} runs"


# ---- measures -------------------------------------------------------------------------------------------------------


def _asked(columns: Sequence[Column], question: Question) -> Difference | None:
    measure = question.measure
    compared = compare(measure)
    known = [index for index, values in enumerate(measure.values) if values]
    if len(known) < 2 or (
        compared.kind == "same" and compared.medians[known[0]] == 0 and measure.key not in _ALWAYS_TOLD
    ):
        return None
    if measure.key == "lost_violation" and compared.kind == "same" and compared.medians[known[0]] == 0:
        return None  # the line about permitted losses says that nothing was lost
    parts = []
    for index, column in enumerate(columns):
        middle = compared.medians[index]
        if middle is None:
            if column.counted:
                parts.append(f"{column.label} has no such number")
            continue
        parts.append(question.sentence(column.label, middle, measure.values[index], first=not parts))
    return Difference(
        kind=compared.kind,
        topic="Lost" if measure.key == "lost_permitted" and compared.kind == "same" else question.topic,
        context=question.context,
        sentence=("; " if question.again is None else ", ").join(parts) + ".",
        note=_note(measure, compared),
        anchor=question.anchor,
    )


def _note(measure: Measure, compared: Compared) -> str:
    unit = measure.unit
    spread = number(compared.spread, unit)
    if compared.kind == "differs":
        known = [values for values in measure.values if values]
        if any(always_or_never(measure, one, other) for one, other in combinations(known, 2)):
            return "In every run of the one, in none of the other."
        return f"Apart by {number(compared.apart, unit)}; repeats spread by {spread} at most."
    if compared.kind == "within":
        return f"Within the spread between repeats, {spread}."
    if compared.kind == "unknown":
        return "The spread between repeats is not known."
    return ""


def _anomalies(columns: Sequence[Column]) -> list[Difference]:
    """Kinds of findings that every run of one column has and no run of another."""
    if any(not column.counted for column in columns):
        return []
    kinds = {kind for column in columns for numbers in column.counted for kind in numbers.anomalies}
    own: list[list[str]] = [[] for _ in columns]
    for check, classification in sorted(kinds):
        present = [[(check, classification) in numbers.anomalies for numbers in column.counted] for column in columns]
        if check == "lost-write" or not any(all(seen) for seen in present) or not any(not any(s) for s in present):
            continue
        for index, seen in enumerate(present):
            if all(seen):
                own[index].append(f"{classification} {check}")
    if not any(own):
        return []
    parts = [
        f"every run of {column.label} has {_and(names)}" for column, names in zip(columns, own, strict=True) if names
    ]
    all_names = {name for names in own for name in names}
    free = [
        column.label
        for column in columns
        if not all_names & {f"{kind[1]} {kind[0]}" for numbers in column.counted for kind in numbers.anomalies}
    ]
    if free:
        parts.append(f"no run of {' or '.join(free)} has any")
    sentence = "; ".join(parts) + "."
    few = min(len(column.counted) for column in columns) < 2
    return [
        Difference(
            kind="unknown" if few else "differs",
            topic="Other anomalies",
            context="",
            sentence=sentence[:1].upper() + sentence[1:],
            note="",
            anchor="anomalies",
        )
    ]


def _and(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
