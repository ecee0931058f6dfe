"""Records of committed transactions that the final log lacks: what became of each decides for the whole transaction.

Where the check of lost writes has ruled on a record, its finding is the answer: it knows the copies in the logs, and
what the leader promised. Other records are ruled on here, by what their senders know.
"""

from collections.abc import Sequence
from typing import TypedDict

from harness.checks.contract.rulings import NOTHING_PERMITS_IT, Cause, Class, Doubt, LossCause
from harness.checks.families.records import removal
from harness.checks.families.records.removal import Removal
from harness.checks.findings import Finding, RunContext
from harness.checks.model.lost_records import LostRecord


class MissingRow(TypedDict):
    """A sent record that the final log lacks; final_end: the last offset read there."""

    partition_id: int
    value: int
    offset: int | None
    completed_ns: int
    key: int | None
    acks: int | None
    timestamp_ms: int | None
    final_end: int | None


class MissingRecords:
    def __init__(self, context: RunContext) -> None:
        self._context = context
        self._removal = Removal(context)
        self._losses = {
            (loss.topic, loss.partition, value): loss
            for loss in context.found.get("lost-write", ())
            for value in loss.values
        }

    def removed(self, record: MissingRow) -> bool:
        """Whether the configuration removed it, or it went with its topic."""
        loss = self._loss(record)
        return (loss is not None and loss.check == removal.CHECK) or (
            self._removal.of_record(record["partition_id"], record["value"], record["offset"]) is not None
        )

    def ruled(self, missing: Sequence[MissingRow]) -> tuple[Class, Cause]:
        """Class and cause, taken together: the worst of what became of them."""
        fates = [fate for record in missing if (fate := self._fate(record)) is not None]
        if not fates:
            return "observation", Cause(code="not-read-that-far")
        if any(classification == "violation" for classification, _, _ in fates):
            return "violation", NOTHING_PERMITS_IT
        doubt = next((doubt for _, _, doubt in fates if doubt), None)
        if doubt:
            return "observation", Cause(code="missing-in-doubt", doubt=doubt)
        return "permitted", Cause(code="missing-by-a-loss", by=fates[0][1])

    def _loss(self, record: MissingRow) -> Finding | None:
        history = self._context.partition(record["partition_id"])
        return self._losses.get((history.topic, history.partition, record["value"]))

    def _fate(self, record: MissingRow) -> tuple[Class, LossCause | None, Doubt | None] | None:
        """Class, cause and doubt; None: its partition was not read that far, or no reader comes to it."""
        loss = self._loss(record)
        if loss is None:
            return self._fate_by_its_send(record)
        if loss.classification == "observation" and (loss.ruling is None or loss.ruling.undecided is None):
            return None
        ruling = loss.ruling
        return (
            loss.classification,
            ruling.cause if ruling is not None else None,
            ruling.undecided if ruling is not None else None,
        )

    def _fate_by_its_send(self, record: MissingRow) -> tuple[Class, LossCause | None, Doubt | None] | None:
        history = self._context.partition(record["partition_id"])
        read_to_end = history.read_to_end or history.deletion is not None
        if not read_to_end and (record["offset"] is None or record["offset"] > (record["final_end"] or -1)):
            return None
        lost = LostRecord(
            offset=record["offset"],
            epoch=None,
            acks=record["acks"],
            t_acknowledged=record["completed_ns"],
            committed=False,
            in_a_log=False,
        )
        ruling = self._context.judge(history).rule(lost)
        return ruling.classification, ruling.cause, ruling.undecided
