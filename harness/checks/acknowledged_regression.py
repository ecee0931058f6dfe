"""Acknowledged regression: a record got a lower offset than one acknowledged before this one's send began.

Across producers, so it catches a log that was rewound and written over when no single producer could notice.
"""

from harness.checks.findings import Finding, RunContext, finding_of_rows, offsets_words, plural


def find(context: RunContext) -> list[Finding]:
    findings = []
    for story, rows in context.by_partition("regression"):
        groups: dict[tuple[bool, str], list[int]] = {}
        for index, row in enumerate(rows):
            rewind, successor = context.rewound(story, row), context.acknowledged_by_a_zombie(story, row)
            cause = "nothing permits it"
            if rewind is not None:
                cause = f"the election of epoch {rewind.epoch} lawfully truncated the log to {rewind.began_at}"
            elif successor is not None:
                cause = f"a leader acknowledged it that epoch {successor.epoch} had replaced, and it was lawfully lost"
            groups.setdefault((rewind is not None or successor is not None, cause), []).append(index)
        for (lawful, cause), indexes in groups.items():
            members = [rows[index] for index in indexes]
            sentence = (
                f"{plural(len(members), 'record')} {offsets_words(members)} of {story.name} got a lower offset than a "
                f"record acknowledged before {'its' if len(members) == 1 else 'their'} send began: {cause}."
            )
            findings.append(
                finding_of_rows(
                    context, story, members, check="acknowledged-regression", kind="regression", sentence=sentence,
                    classification="permitted" if lawful else "violation", cause=cause,
                )
            )  # fmt: skip
    return findings
