"""Records of committed transactions that every in-sync log has, and that no read_committed reader was given (KIP-98).

Such a record was not lost, or where no log was read nobody knows that it was: the marker that commits it was, and the
next marker of its producer aborted it; or the coordinator lost its decision, or that the partition belongs to the
transaction. Markers are no records, and in no table. They are appended after the decision and acknowledged by all in
sync, so what the contract says of such a record is what it says of them. What lawfully took what the coordinator knew
permits that, if the coordinator's log has no decision as the client was told, and no copy of it one that was done. If
something may lawfully have taken one, or what the coordinator knew, it is an open question.
"""

from dataclasses import replace

from harness.checks.contract.rulings import Doubt, Ruling
from harness.checks.families.transactions.transaction_forgetting import TransactionForgetting, written_at
from harness.checks.findings import RunContext
from harness.checks.model.lost_records import LostRecord
from harness.checks.model.partition_history import PartitionHistory
from harness.checks.spark.detection import Flagged
from harness.history.schema.client_rows import TRANSACTIONS, TransactionRow
from harness.history.schema.cluster_rows import PARTITIONS, PartitionRow
from harness.history.schema.column_types import END_OF_TIME_NS
from harness.history.schema.schemas import STATUS_OK


def hidden_ruled(
    context: RunContext, history: PartitionHistory, row: Flagged, ruling: Ruling, forgetting: TransactionForgetting
) -> Ruling:
    """The ruling on a record that nothing is known to have taken; another one if it is there, and hidden."""
    if ruling.classification != "violation" or not _may_be_there(history, row):
        return ruling
    transaction = _transaction_of(context, row)
    if transaction is None:
        return ruling
    # Its marker may have been written as soon as its own send was answered: the end may have been answered late.
    marker = LostRecord(
        offset=None, epoch=None, acks=-1, t_acknowledged=row.completed_ns, committed=False, in_a_log=False
    )
    if context.judge(history).rule(marker).classification != "violation":
        return replace(ruling, classification="observation", undecided=Doubt(code="marker-may-be-lost"))
    # So may its partition have been taken into the transaction, at any time since that began.
    taken = forgetting.ruled(transaction, END_OF_TIME_NS, written_at(history, row))
    if taken is None:
        return ruling
    if taken[0] == "permitted" and forgetting.lost_its_decision(transaction):
        return replace(ruling, classification="permitted", cause="forgotten-decision", forgotten=taken[1])
    return replace(ruling, classification="observation", undecided=Doubt(code="decision-may-be-lost"))


def was_passed_over(context: RunContext, history: PartitionHistory, row: Flagged) -> bool:
    """Whether the final read came to the partition's end, above it, and was not given it though its transaction was
    committed and nothing before it is open: for read_committed it was aborted."""
    stable = next((each["last_stable_offset"] for each in context.tables[PARTITIONS] if _is_of(each, history)), None)
    if stable is None or row.offset is None or not history.read_to_end or row.offset >= stable:
        return False
    return _may_be_there(history, row) and _transaction_of(context, row) is not None


def _is_of(row: PartitionRow, history: PartitionHistory) -> bool:
    return row["partition_id"] == history.partition_id


def _may_be_there(history: PartitionHistory, row: Flagged) -> bool:
    """Whether the logs of all in sync have it at the end, as far as they were read and it is known who is in sync."""
    read, in_sync = history.end_snapshots.keys(), frozenset(history.final_isr)
    if in_sync:
        return in_sync & read <= row.held_at_end
    return not read or bool(row.held_at_end)


def _transaction_of(context: RunContext, row: Flagged) -> TransactionRow | None:
    """The committed one of its producer in which it was sent."""
    return next(
        (
            each
            for each in context.tables[TRANSACTIONS]
            if each["process"] == row.process
            and each["outcome"] == STATUS_OK
            and row.invoked_ns is not None
            and each["invoked_ns"] <= row.invoked_ns <= each["completed_ns"]
        ),
        None,
    )
