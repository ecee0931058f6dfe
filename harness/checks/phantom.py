"""Phantoms: values read that nobody sent, and values read before they were sent. Nothing permits either."""

from harness.checks.findings import Finding, RunContext, finding_of_rows
from harness.checks.wording.words import offsets_words, plural


def find(context: RunContext) -> list[Finding]:
    findings = []
    for flag, kind, what in (
        ("phantom", "nobody-sent-it", "that nobody sent"),
        ("early", "read-before-sent", "before their send began"),
    ):
        for story, rows in context.by_partition(flag):
            values = f"{plural(len(rows), 'value')} {plural(len(rows), 'was')}"
            sentence = f"{values} read {offsets_words(rows)} of {story.name} {what}."
            findings.append(
                finding_of_rows(
                    context, story, rows, check="phantom", classification="violation", kind=kind, sentence=sentence
                )
            )
    return findings
