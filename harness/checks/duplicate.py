"""Duplicates: one value at two or more offsets.

Twice in the final log breaks the promise of an idempotent producer; a producer without idempotence may repeat a record
when it had a reason to retry. A value seen at two offsets of which the log kept at most one was moved by a truncation:
it is judged like the loss of the offset that is gone, and no harder. Where the configuration removed that one, nothing
was cut, and the log once had both.
"""

from collections.abc import Sequence

from harness.checks.contract import Class, Ruling
from harness.checks.detection import SEEN_FINAL, Flagged
from harness.checks.findings import Finding, RunContext, finding_of_rows, plural, ranges
from harness.checks.removal import Removal
from harness.checks.story import PartitionStory


def find(context: RunContext) -> list[Finding]:
    findings = []
    removal = Removal(context)
    for story, rows in context.by_partition("duplicate"):
        values: dict[int, list[Flagged]] = {}
        for row in rows:
            values.setdefault(row.value, []).append(row)
        groups: dict[tuple[str, Class, str], list[Flagged]] = {}
        open_ends: dict[str, Ruling] = {}
        for places in values.values():
            gone = [row for row in places if not row.seen & SEEN_FINAL and removal.of(row) is None]
            if places[0].final_offsets > 1 or not gone:
                kind, (classification, cause) = "twice-in-the-log", _twice(context, story, places)
            else:
                kind, (classification, cause, ruling) = "moved", _moved(context, story, gone)
                if ruling.undecided:
                    open_ends[cause] = ruling
            groups.setdefault((kind, classification, cause), []).extend(places)
        for (kind, classification, cause), members in groups.items():
            count = len({row.value for row in members})
            kept = all(row.final_offsets > 1 for row in members)
            where = "in the final log" if kept else "in what was acknowledged and read"
            offsets = ranges(row.off for row in members)
            sentence = (
                f"{plural(count, 'value')} of {story.name} {plural(count, 'is')} at more than one offset {where} "
                f"(offsets {offsets}): {cause}."
            )
            findings.append(
                finding_of_rows(
                    context, story, members, check="duplicate", classification=classification, kind=kind,
                    sentence=sentence, count=count, cause=cause, ruling=open_ends.get(cause),
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


def _moved(context: RunContext, story: PartitionStory, gone: Sequence[Flagged]) -> tuple[Class, str, Ruling]:
    rulings = [context.ruling(story, row) for row in gone]
    violations = [ruling for ruling in rulings if ruling.classification == "violation"]
    if violations:
        return "violation", "the record changed its offset and no permitted loss explains it", violations[0]
    for ruling in rulings:
        if ruling.undecided:
            why = f"the log was cut, and nobody can tell whether that was permitted: {ruling.undecided}"
            return "observation", why, ruling
    why = f"the log was cut by a permitted {rulings[0].cause} and the record written again"
    return "permitted", why, rulings[0]
