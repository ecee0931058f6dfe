"""Phantoms: values read that nobody sent, and values read before they were sent. Nothing permits either.

Where the journal of a sender is known to be cut short, nobody knows all that was sent: then it is an open question.
"""

from harness.checks.findings import Finding, RunContext, finding_of_rows, offsets_words, plural
from harness.checks.missing import cut_journals


def _unknown_senders(context: RunContext) -> str:
    """Why not all that was sent is known: an invocation is in the journal before its records leave."""
    cut = cut_journals(context, of_senders=True)
    return f"the end of the {'journal' if len(cut) == 1 else 'journals'} of {', '.join(cut)} is missing" if cut else ""


def find(context: RunContext) -> list[Finding]:
    findings = []
    for flag, kind, what in (
        ("phantom", "nobody-sent-it", "that nobody sent"),
        ("early", "read-before-sent", "before their send began"),
    ):
        for story, rows in context.by_partition(flag):
            values = f"{plural(len(rows), 'value')} {plural(len(rows), 'was')}"
            open_question = _unknown_senders(context) if flag == "phantom" else ""
            told = f": nobody can tell whether they were sent, for {open_question}" if open_question else ""
            sentence = f"{values} read {offsets_words(rows)} of {story.name} {what}{told}."
            findings.append(
                finding_of_rows(
                    context, story, rows, check="phantom", kind=kind, sentence=sentence, open_question=open_question,
                    classification="observation" if open_question else "violation",
                )
            )  # fmt: skip
    return findings
