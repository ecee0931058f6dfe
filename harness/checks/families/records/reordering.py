"""Reordering: one process's records got offsets in another order than it sent them.

Without idempotence a record that is sent again may be overtaken (attempts.py): the row is the overtaking record, and
the failed attempt may be as far away as the longest delivery time.
"""

from harness.checks.contract.rewinds import Rewinds
from harness.checks.contract.rulings import NOTHING_PERMITS_IT, Cause, Class, Ruling
from harness.checks.findings import Finding, RunContext, finding_of_rows
from harness.checks.model.attempts import Attempts
from harness.checks.wording.causes import cause_words
from harness.checks.wording.words import offsets_words, plural


def find(context: RunContext) -> list[Finding]:
    findings = []
    rewinds = Rewinds(context)
    scenario = context.history.scenario
    around_ns = scenario.workload.delivery_timeout_ms * 1_000_000 if scenario is not None else 0
    attempts = Attempts(context)
    for history, rows in context.by_partition("send_order"):
        groups: dict[tuple[Class, Cause], list[int]] = {}
        open_ends: dict[Cause, Ruling] = {}
        unseen: set[Cause] = set()
        for index, row in enumerate(rows):
            rewind = rewinds.of(history, row)
            classification: Class
            if rewind is not None:
                classification, cause = rewind.classification, rewind.cause
            elif attempts.idempotent(row):
                classification, cause = "violation", NOTHING_PERMITS_IT
            else:
                repeated = attempts.repeated(history, row, around_ns=around_ns)
                classification, cause = repeated.classification, repeated.cause
                if repeated.ruling is not None:
                    open_ends[cause] = repeated.ruling
            if classification == "violation" and (doubt := rewinds.unseen(history, row)) is not None:
                classification, cause = doubt.classification, doubt.cause
                unseen.add(cause)
            groups.setdefault((classification, cause), []).append(index)
        for (classification, cause), indexes in groups.items():
            members = [rows[index] for index in indexes]
            sentence = (
                f"{plural(len(members), 'record')} {offsets_words(members)} of {history.name} got an offset at or "
                f"below that of a record the same process sent before: {cause_words(cause)}."
            )
            findings.append(
                finding_of_rows(
                    context, history, members, check="reordering", kind="nonmonotonic-send", sentence=sentence,
                    classification=classification, cause=cause, ruling=open_ends.get(cause),
                    open_question=cause in unseen,
                )
            )  # fmt: skip
    return findings
