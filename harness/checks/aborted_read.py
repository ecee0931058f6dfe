"""Aborted reads (G1a): a value was read whose send had definitely failed. "Not appended" must be the truth."""

from harness.checks.findings import Finding, RunContext, finding_of_rows, offsets_words, plural


def find(context: RunContext) -> list[Finding]:
    findings = []
    for story, rows in context.by_partition("aborted"):
        count = len({row.value for row in rows})
        sentence = (
            f"{plural(count, 'record')} of {story.name} {plural(count, 'was')} refused as not appended, and then read "
            f"{offsets_words(rows)}."
        )
        findings.append(
            finding_of_rows(
                context, story, rows, check="aborted-read", classification="violation", kind="failed-send",
                sentence=sentence, count=count,
            )
        )  # fmt: skip
    return findings
