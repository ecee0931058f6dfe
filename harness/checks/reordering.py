"""Reordering: one process's records took offsets against the order in which it sent them."""

from harness.checks.findings import Finding, RunContext, finding_of_rows, offsets_words, plural


def find(context: RunContext) -> list[Finding]:
    findings = []
    scenario = context.story.scenario
    idempotent = scenario is None or scenario.workload.idempotence
    for story, rows in context.by_partition("send_order"):
        groups: dict[tuple[str, str], list[int]] = {}
        for index, row in enumerate(rows):
            rewind, successor = context.rewound(story, row), context.acknowledged_by_a_zombie(story, row)
            if rewind is not None:
                why = f"the log was truncated to {rewind.began_at} by the election of epoch {rewind.epoch}"
                key = ("permitted", why)
            elif successor is not None:
                why = f"a leader acknowledged it that epoch {successor.epoch} had replaced, and it was lawfully lost"
                key = ("permitted", why)
            elif not idempotent and story.faults_between(row.t0 or 0, row.t1 or 0):
                key = ("permitted", "the producer is not idempotent and retried under a fault")
            else:
                key = ("violation", "nothing permits it")
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
                    classification="permitted" if classification == "permitted" else "violation", cause=cause,
                )
            )  # fmt: skip
    return findings
