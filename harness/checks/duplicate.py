"""Duplicates: one value at two or more offsets.

Twice in the final log breaks the promise of an idempotent producer; a producer without idempotence may repeat a record
when it had a reason to retry. A value seen at two offsets of which the log kept at most one was moved by a truncation:
it is judged like the loss of the offset that is gone.
"""

from collections.abc import Sequence

from harness.checks.contract import Class
from harness.checks.detection import SEEN_FINAL, Flagged
from harness.checks.findings import Finding, RunContext, finding_of_rows, plural, ranges
from harness.checks.story import PartitionStory


def find(context: RunContext) -> list[Finding]:
    findings = []
    for story, rows in context.by_partition("duplicate"):
        values: dict[int, list[Flagged]] = {}
        for row in rows:
            values.setdefault(row.value, []).append(row)
        groups: dict[tuple[str, Class, str], list[Flagged]] = {}
        for places in values.values():
            kind = "twice-in-the-log" if places[0].final_offsets > 1 else "moved"
            classification, cause = (
                _twice(context, story, places) if kind != "moved" else _moved(context, story, places)
            )
            groups.setdefault((kind, classification, cause), []).extend(places)
        for (kind, classification, cause), members in groups.items():
            count = len({row.value for row in members})
            where = "in the final log" if kind != "moved" else "in what was acknowledged and read"
            offsets = ranges(row.off for row in members)
            sentence = (
                f"{plural(count, 'value')} of {story.name} {plural(count, 'is')} at more than one offset {where} "
                f"(offsets {offsets}): {cause}."
            )
            findings.append(
                finding_of_rows(
                    context, story, members, check="duplicate", classification=classification, kind=kind,
                    sentence=sentence, count=count, cause=cause,
                )
            )  # fmt: skip
    return findings


def _twice(context: RunContext, story: PartitionStory, places: Sequence[Flagged]) -> tuple[Class, str]:
    scenario = context.story.scenario
    if scenario is None or scenario.workload.idempotence:
        return "violation", "an idempotent producer writes each record once"
    if scenario.workload.retries == 0:
        return "violation", "the producer never retried"
    row = places[0]
    if row.t0 is None or row.t1 is None:
        return "permitted", "the producer is not idempotent and its send had no answer"
    waited_ms = (row.t1 - row.t0) / 1e6
    disturbed = story.faults_between(row.t0, row.t1)
    changed = [state for state in story.states if row.t0 <= state["t"] <= row.t1]
    if row.status != 0 or waited_ms >= scenario.workload.request_timeout_ms or disturbed or changed:
        return "permitted", "the producer is not idempotent and had a reason to retry"
    return "violation", "nothing happened that would make the producer retry"


def _moved(context: RunContext, story: PartitionStory, places: Sequence[Flagged]) -> tuple[Class, str]:
    gone = [row for row in places if not row.seen & SEEN_FINAL]
    rulings = [context.ruling(story, row) for row in gone]
    if rulings and all(ruling.classification == "permitted" for ruling in rulings):
        return "permitted", f"the log was cut by a permitted {rulings[0].cause} and the record written again"
    return "violation", "the record changed its offset and no permitted loss explains it"
