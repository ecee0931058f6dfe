"""Known gaps in a run's evidence: the verdict is inconclusive, with a sentence that says why.

Journals without an end, parts that the seal found missing (run.json, `missing`), and an accounting of the records that
does not add up.
"""

from collections.abc import Mapping
from typing import Any

from harness.checks.evidence_tables import Sums
from harness.checks.findings import RunContext
from harness.checks.wording.words import plural
from harness.history.schema.client_rows import PROCESSES

SENDERS = ("producer", "both", None)


def cut_journals(context: RunContext, *, of_senders: bool = False) -> list[str]:
    """The clients whose journals are known to lack their end."""
    cut = [row for row in context.tables[PROCESSES] if row["journal_complete"] is False]
    return sorted({row["client"] or "" for row in cut if not of_senders or row["role"] in SENDERS})


def reasons(context: RunContext, run: Mapping[str, Any], accounting: Sums) -> list[str]:
    given = [str(reason) for reason in run.get("missing") or ()]
    if cut := cut_journals(context):
        names = ", ".join(cut[:5]) + (", ..." if len(cut) > 5 else "")
        given.append(
            f"{plural(len(cut), 'journal')} {plural(len(cut), 'has')} no end ({names}): what was done and seen last "
            "may be missing."
        )
    if not accounting["adds_up"]:
        given.append(_unbalanced(accounting))
    return given


def _unbalanced(sums: Sums) -> str:
    by_value = sums["sent"] + sums["sent_again"]
    if by_value != sums["send_records"]:
        return (
            f"The accounting does not add up: {plural(by_value, 'record')} by value, and "
            f"{sums['send_records']} {plural(sums['send_records'], 'was')} sent."
        )
    return (
        f"The accounting does not add up: {plural(sums['acknowledged_missing'], 'acknowledged record')} "
        f"{plural(sums['acknowledged_missing'], 'is')} missing, and the findings name {sums['missing_in_findings']}."
    )
