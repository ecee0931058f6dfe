"""Reordering: one process's records got offsets in another order than it called them, whichever was answered first.

A call comes after those that had returned, or had been answered, before it began; where nobody recorded that, after
those that began before it, if one task made them all. Without idempotence a record that is sent again may be overtaken
(attempts.py) while it is in flight: the row is the overtaking record, and the failed attempt may be as far away as the
longest delivery time.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from harness.checks.contract.rulings import NOTHING_PERMITS_IT, Cause, Class, Doubt, Ruling
from harness.checks.explaining.attempts import Attempts
from harness.checks.explaining.rewinds import Rewind, Rewinds
from harness.checks.family import Family
from harness.checks.findings import Finding, RunContext, finding_of_rows
from harness.checks.model.partition_history import PartitionHistory
from harness.checks.spark.detection import Flagged
from harness.checks.spark.fused_query import Flag
from harness.checks.wording.causes import cause_words
from harness.checks.wording.words import offsets_words, plural

_OF_SEVERAL_TASKS = Cause(code="calls-of-several-tasks", doubt=Doubt(code="calls-of-several-tasks"))
_WORSE: Sequence[Class] = ("permitted", "observation", "violation")


@dataclass(frozen=True, kw_only=True)
class _Ruled:
    """open_question: nothing but this says that the run is undecided."""

    classification: Class
    cause: Cause
    ruling: Ruling | None = None
    open_question: bool = False

    @classmethod
    def of(cls, rewind: Rewind) -> "_Ruled":
        return cls(classification=rewind.classification, cause=rewind.cause, open_question=rewind.open_question)


_VIOLATION = _Ruled(classification="violation", cause=NOTHING_PERMITS_IT)


def find(context: RunContext) -> list[Finding]:
    findings = []
    rewinds, attempts = Rewinds(context, of_its_process=True), Attempts(context)
    for history, rows in context.by_partition("send_order"):
        groups: dict[tuple[Class, Cause], list[Flagged]] = {}
        rulings: dict[tuple[Class, Cause], _Ruled] = {}
        for row in rows:
            ruled = _explained(context, rewinds, attempts, history, row)
            groups.setdefault((ruled.classification, ruled.cause), []).append(row)
            rulings[ruled.classification, ruled.cause] = ruled
        for (classification, cause), members in groups.items():
            ruled = rulings[classification, cause]
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
                    ruling=ruled.ruling,
                    open_question=ruled.open_question,
                )
            )
    return findings


def _explained(
    context: RunContext, rewinds: Rewinds, attempts: Attempts, history: PartitionHistory, row: Flagged
) -> _Ruled:
    """It may stand below records that are there still, which were overtaken, and below others, which may have been cut:
    the worse of the two counts."""
    overtaking = None
    if row.overtook_kept:
        in_order = row.overtook_in_order if row.overtook_gone else row.in_order  # which knows the order of an operation
        overtaking = _ruled(context, attempts, history, row, in_order=in_order, answered=row.above_kept)
        if not row.overtook_gone:
            return overtaking
    rewind = rewinds.of(history, row)
    if rewind is None:
        answered = "regression" in row.flags
        found = _ruled(context, attempts, history, row, in_order=row.in_order, answered=answered)
        unseen = rewinds.unseen(history, row) if found.classification == "violation" else None
        rewound = found if unseen is None else _Ruled.of(unseen)
    else:
        rewound = _Ruled.of(rewind)
    if overtaking is None:
        return rewound
    return max(overtaking, rewound, key=lambda ruled: _WORSE.index(ruled.classification))


def _ruled(
    context: RunContext,
    attempts: Attempts,
    history: PartitionHistory,
    row: Flagged,
    *,
    in_order: bool,
    answered: bool,
) -> _Ruled:
    """Of a record that stands where no election and no loss has put it. in_order: it was surely called after the other
    one; answered: even after that one's answer."""
    if not in_order and not attempts.of_one_task():
        return _Ruled(classification="observation", cause=_OF_SEVERAL_TASKS, open_question=True)
    if answered:  # whatever was sent again, it was sent after that
        return _VIOLATION
    scenario = context.history.scenario
    around_ns = scenario.workload.delivery_timeout_ms * 1_000_000 if scenario is not None else 0
    overtaken = attempts.overtaken(history, row, around_ns=around_ns)
    cause = NOTHING_PERMITS_IT if overtaken.code == "idempotent-producer" else overtaken.cause
    return _Ruled(classification=overtaken.classification, cause=cause, ruling=overtaken.ruling)


FAMILY = Family(
    name="reordering",
    find=find,
    flags=(Flag(name="send_order", condition="acked and offset is not null and over_above_ns < sent_called_ns"),),
)
