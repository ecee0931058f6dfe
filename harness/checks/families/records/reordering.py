"""Reordering: one process's records got offsets in another order than it called them, whichever was answered first.

A call comes after those that had returned, or had been answered, before it began; where nobody recorded that, after
those that began before it, if one task made them all. Without idempotence a record that is sent again may be overtaken
(attempts.py) while it is in flight: the row is the overtaking record, and the failed attempt may be as far away as the
longest delivery time.
"""

from harness.checks.contract.rulings import NOTHING_PERMITS_IT, Cause, Class, Doubt, Ruling
from harness.checks.explaining.attempts import Attempts
from harness.checks.explaining.rewinds import Rewinds
from harness.checks.family import Family
from harness.checks.findings import Finding, RunContext, finding_of_rows
from harness.checks.model.partition_history import PartitionHistory
from harness.checks.spark.detection import Flagged
from harness.checks.spark.fused_query import Flag
from harness.checks.wording.causes import cause_words
from harness.checks.wording.words import offsets_words, plural

_OF_SEVERAL_TASKS = Cause(code="calls-of-several-tasks", doubt=Doubt(code="calls-of-several-tasks"))
_Ruled = tuple[Class, Cause, Ruling | None]


def find(context: RunContext) -> list[Finding]:
    findings = []
    rewinds, attempts = Rewinds(context), Attempts(context)
    for history, rows in context.by_partition("send_order"):
        groups: dict[tuple[Class, Cause], list[Flagged]] = {}
        open_ends: dict[Cause, Ruling] = {}
        questions: set[Cause] = {_OF_SEVERAL_TASKS}
        for row in rows:
            rewind = rewinds.of(history, row)
            if rewind is not None:
                classification, cause, ruling = rewind.classification, rewind.cause, None
            else:
                classification, cause, ruling = _ruled(context, attempts, history, row)
            if classification == "violation" and (doubt := rewinds.unseen(history, row)) is not None:
                classification, cause, ruling = doubt.classification, doubt.cause, None
                questions.add(cause)
            if ruling is not None:
                open_ends[cause] = ruling
            groups.setdefault((classification, cause), []).append(row)
        for (classification, cause), members in groups.items():
            sentence = (
                f"{plural(len(members), 'record')} {offsets_words(members)} of {history.name} got an offset at or "
                f"below that of a record the same process sent before: {cause_words(cause)}."
            )
            findings.append(
                finding_of_rows(
                    context,
                    history,
                    members,
                    check="reordering",
                    kind="nonmonotonic-send",
                    sentence=sentence,
                    classification=classification,
                    cause=cause,
                    ruling=open_ends.get(cause),
                    open_question=cause in questions,
                )
            )
    return findings


def _ruled(context: RunContext, attempts: Attempts, history: PartitionHistory, row: Flagged) -> _Ruled:
    """Of a record that stands where no election and no loss has put it."""
    if not row.in_order and not attempts.of_one_task():
        return "observation", _OF_SEVERAL_TASKS, None
    if "regression" in row.flags:  # whatever was sent again, it was sent after the other one's answer
        return "violation", NOTHING_PERMITS_IT, None
    scenario = context.history.scenario
    around_ns = scenario.workload.delivery_timeout_ms * 1_000_000 if scenario is not None else 0
    overtaken = attempts.overtaken(history, row, around_ns=around_ns)
    cause = NOTHING_PERMITS_IT if overtaken.code == "idempotent-producer" else overtaken.cause
    return overtaken.classification, cause, overtaken.ruling


FAMILY = Family(
    name="reordering",
    find=find,
    flags=(Flag(name="send_order", condition="acked and offset is not null and over_above_ns < sent_called_ns"),),
)
