"""What rows came to, as text: lines for a terminal, one JSON document, cases of JUnit, and the exit code."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from harness.ci.junit import Case, Outcome
from harness.conform.row import Result, State
from harness.verdict import Verdict, exit_code_of

_STATE_WIDTH = max(len(state.value) for state in State)
_NAME_WIDTH = 30
_INDENT = " " * (_STATE_WIDTH + 2)
_OUTCOMES = {
    State.CONFORMS: Outcome.PASSED,
    State.VIOLATES: Outcome.FAILED,
    State.UNDECIDED: Outcome.ERROR,
    State.NOT_OFFERED: Outcome.SKIPPED,
}
_VERDICTS = {State.VIOLATES: Verdict.VIOLATION, State.UNDECIDED: Verdict.INCONCLUSIVE}


def exit_code(results: Iterable[Result]) -> int:
    """What is not offered is not promised."""
    return exit_code_of({_VERDICTS.get(each.state, Verdict.PASS) for each in results})


def lines(result: Result, *, whole: bool) -> list[str]:
    """`whole`: with what is expected and what that follows also where the row is kept."""
    row = result.row
    shown = [f"{result.state.value:<{_STATE_WIDTH}}  {row.name:<{_NAME_WIDTH}} {result.seen}"]
    if whole or result.state in _VERDICTS:
        shown += [f"{_INDENT}expected: {row.expected}", f"{_INDENT}follows: {row.follows}"]
    return shown


def headline(results: Sequence[Result]) -> str:
    counts = Counter(each.state for each in results)
    return f"{len(results)} rows: " + ", ".join(f"{counts[state]} {state.value}" for state in State)


def document(
    results: Sequence[Result], *, bootstrap: str, marks: Sequence[str], left: Sequence[str]
) -> Mapping[str, Any]:
    """`marks`: with which the names of all that was made begin, one for each address; `left`: what could not be
    deleted."""
    return {
        "bootstrap": bootstrap,
        "marks": list(marks),
        "exit_code": exit_code(results),
        "counts": {state.value: sum(each.state is state for each in results) for state in State},
        "rows": [
            {
                "name": each.row.name,
                "state": each.state.value,
                "expected": each.row.expected,
                "seen": each.seen,
                "follows": each.row.follows,
                "reads": each.row.reads,
                "facts": [asdict(fact) for fact in each.facts],
                "undecodable": None if each.undecodable is None else asdict(each.undecodable),
                "duration_s": round(each.duration_s, 3),
            }
            for each in results
        ],
        "left": list(left),
    }


def cases(results: Sequence[Result]) -> list[Case]:
    return [
        Case(
            group="conform",
            name=each.row.name,
            outcome=_OUTCOMES[each.state],
            duration_s=each.duration_s,
            message="" if each.state is State.CONFORMS else each.seen,
            text="" if each.state is State.CONFORMS else f"expected: {each.row.expected}\nfollows: {each.row.follows}",
        )
        for each in results
    ]
