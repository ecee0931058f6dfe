"""Whether a run's result is as its scenario states: the verdict, the required findings, the forbidden findings."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict

from harness.checks.findings import Finding
from harness.scenario.model import ExpectSpec, FindingPattern
from harness.verdict import Verdict


class ExpectationRow(TypedDict):
    """A row of verdict.json."""

    expectation: str
    required: str
    seen: str
    met: bool


@dataclass(frozen=True, kw_only=True)
class Outcome:
    holds: bool
    expected: str  # the verdict that the scenario states
    expectations: Sequence[ExpectationRow]


def outcome_of(expect: ExpectSpec | None, verdict: Verdict, findings: Sequence[Finding]) -> Outcome:
    expect = expect or ExpectSpec()
    rows = [_row("verdict", expect.verdict, verdict.value, verdict.value == expect.verdict)]
    for pattern in expect.required:
        seen = _seen(pattern, findings)
        rows.append(
            _row(f"required {describe(pattern)}", _bounds(pattern, default="at least 1"), seen, _is_met(pattern, seen))
        )
    for pattern in expect.forbidden:
        seen = _seen(pattern, findings)
        # A forbidden pattern with bounds forbids what is within them; without, anything that matches.
        bounded = any(bound is not None for bound in (pattern.count, pattern.at_least, pattern.at_most))
        hit = _is_met(pattern, seen) if bounded else seen > 0
        rows.append(_row(f"forbidden {describe(pattern)}", "none", seen, not hit))
    return Outcome(holds=all(row["met"] for row in rows), expected=expect.verdict, expectations=rows)


def _row(expectation: str, required: str, seen: object, met: bool) -> ExpectationRow:
    return {"expectation": expectation, "required": required, "seen": str(seen), "met": met}


def matches(pattern: FindingPattern, finding: Finding) -> bool:
    return pattern.check in (None, finding.check) and pattern.classification in (None, finding.classification)


def _seen(pattern: FindingPattern, findings: Sequence[Finding]) -> int:
    """The number of records, summed over the findings that match."""
    return sum(finding.count for finding in findings if matches(pattern, finding))


def _is_met(pattern: FindingPattern, seen: int) -> bool:
    if pattern.count is not None and seen != pattern.count:
        return False
    if pattern.at_most is not None and seen > pattern.at_most:
        return False
    if pattern.at_least is not None:
        return seen >= pattern.at_least
    # Requiring a finding means at least one, unless the bounds themselves allow none.
    return seen >= 1 or pattern.count == 0 or pattern.at_most == 0


def describe(pattern: FindingPattern) -> str:
    return f"{pattern.classification or 'any'} {pattern.check or 'finding'}"


def _bounds(pattern: FindingPattern, *, default: str) -> str:
    words = []
    if pattern.count is not None:
        words.append(f"exactly {pattern.count}")
    if pattern.at_least is not None:
        words.append(f"at least {pattern.at_least}")
    if pattern.at_most is not None:
        words.append(f"at most {pattern.at_most}")
    return ", ".join(words) or default
