"""Acknowledged regression: a record got a lower offset than one acknowledged before this one's send began.

It compares all producers, so it finds a log that was rewound and overwritten even if no single producer could notice.
"""

from harness.checks.contract.rulings import NOTHING_PERMITS_IT
from harness.checks.explaining.rewinds import Rewind, Rewinds
from harness.checks.family import Family
from harness.checks.findings import Finding, RunContext, finding_of_rows
from harness.checks.spark.fused_query import Flag
from harness.checks.wording.causes import cause_words
from harness.checks.wording.words import offsets_words, plural

_UNEXPLAINED = Rewind(classification="violation", cause=NOTHING_PERMITS_IT)


def find(context: RunContext) -> list[Finding]:
    findings = []
    rewinds = Rewinds(context)
    for history, rows in context.by_partition("regression"):
        groups: dict[Rewind, list[int]] = {}
        for index, row in enumerate(rows):
            rewind = rewinds.of(history, row) or rewinds.unseen(history, row) or _UNEXPLAINED
            groups.setdefault(rewind, []).append(index)
        for rewind, indexes in groups.items():
            members = [rows[index] for index in indexes]
            sentence = (
                f"{plural(len(members), 'record')} {offsets_words(members)} of {history.name} got a lower offset than "
                f"a record acknowledged before {'its' if len(members) == 1 else 'their'} send began: "
                f"{cause_words(rewind.cause)}."
            )
            findings.append(
                finding_of_rows(
                    context,
                    history,
                    members,
                    check="acknowledged-regression",
                    kind="regression",
                    sentence=sentence,
                    classification=rewind.classification,
                    cause=rewind.cause,
                    open_question=rewind.open_question,
                )
            )
    return findings


FAMILY = Family(
    name="acknowledged-regression",
    find=find,
    flags=(Flag(name="regression", condition="acked and offset is not null and acked_above_ns < sent_invoked_ns"),),
)
