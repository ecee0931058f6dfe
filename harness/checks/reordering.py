"""Reordering: one process's records took offsets against the order in which it sent them."""

from harness.checks.contract import Class
from harness.checks.findings import Finding, RunContext, finding_of_rows, offsets_words, plural
from harness.checks.rewinds import Rewinds


def find(context: RunContext) -> list[Finding]:
    findings = []
    rewinds = Rewinds(context)
    scenario = context.story.scenario
    idempotent = scenario is None or scenario.workload.idempotence
    for story, rows in context.by_partition("send_order"):
        groups: dict[tuple[Class, str], list[int]] = {}
        for index, row in enumerate(rows):
            rewind = rewinds.of(story, row)
            key: tuple[Class, str] = ("violation", "nothing permits it")
            if rewind is not None:
                key = (rewind.classification, rewind.cause)
            elif not idempotent and story.faults_between(row.t0 or 0, row.t1 or 0):
                key = ("permitted", "the producer is not idempotent and retried under a fault")
            groups.setdefault(key, []).append(index)
        for (classification, cause), indexes in groups.items():
            members = [rows[index] for index in indexes]
            sentence = (
                f"{plural(len(members), 'record')} {offsets_words(members)} of {story.name} got an offset at or below "
                f"that of a record the same process sent before: {cause}."
            )
            findings.append(
                finding_of_rows(
                    context, story, members, check="reordering", kind="nonmonotonic-send", sentence=sentence,
                    classification=classification, cause=cause,
                )
            )  # fmt: skip
    return findings
