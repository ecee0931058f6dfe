"""Why a member read again what its group had committed before the member's assignment began.

The group may lawfully have forgotten the offset (group_forgetting.py), or a coordinator that had been replaced told an
older one (deposed_coordinator.py). Or the log ended below the position that the member was told: it was lawfully cut,
or whoever answered led no more, and did not know it. Then auto.offset.reset says where the member goes on.
"""

from harness.checks.contract.deposed import Deposed
from harness.checks.contract.rulings import Cause, Class, Doubt
from harness.checks.explaining.rewinds import Rewinds
from harness.checks.families.groups.delivery_rows import DeliveryRow
from harness.checks.families.groups.group_forgetting import forgetting_ruled
from harness.checks.families.groups.group_offsets import BY_A_DEPOSED, AnsweredOffsets
from harness.checks.families.groups.group_partition import Kept
from harness.checks.families.groups.unrecorded_clients import set_to
from harness.checks.findings import RunContext
from harness.checks.model.partition_history import PartitionHistory, holds_up
from harness.history.schema.client_rows import GROUP_EVENTS
from harness.history.schema.schemas import STATUS_OK


def after_commit_ruled(context: RunContext, history: PartitionHistory, row: DeliveryRow) -> tuple[Class, Cause]:
    """Class and cause: the group may have forgotten the offset, or the log may have ended below it meanwhile."""
    since_ns, until_ns = row["committed_ns"] or 0, row["started_ns"] or row["first_ns"]
    kept = Kept(
        group=row["group"],
        partition=history,
        sent_ns=row["committed_sent"] or 0,
        stored_ns=since_ns,
        gone_ns=until_ns,
        offset=row["high"],
        shown_ns=row["shown_ns"],
        expires=row["committed_ns"] is not None,
        asked_ns=row["assigned_ns"] or row["first_ns"],
        process=row["process"],
    )
    classification, cause = forgetting_ruled(context, kept)
    begins = set_to(cause)
    if begins is not None and row["low"] < begins:
        classification = "violation"  # somebody had set it, but not as far back
    if classification == "violation" and _was_answered_by_a_deposed(context, history, row):
        classification, cause = "observation", BY_A_DEPOSED
    if classification == "violation":
        # Within an assignment, too, a consumer goes back where the log was cut below its position.
        position, until_ns = _position_answered(context, history, row), row["reread_ns"] or until_ns
        rewind = Rewinds(context).under_a_position(history, position, since_ns=since_ns, until_ns=until_ns)
        if rewind is not None:
            classification, cause = rewind.classification, rewind.cause
        else:
            deposed = _ends_below(history, position, since_ns=row["assigned_ns"] or since_ns, until_ns=until_ns)
            if deposed is not None:
                classification, cause = "observation", Cause(code="position-in-doubt", doubt=deposed)
    if classification != "violation":
        return classification, cause
    return "violation", Cause(code="committed-is-delivered-once")


def _ends_below(history: PartitionHistory, position: int, *, since_ns: int, until_ns: int) -> Doubt | None:
    """A leader that had been replaced, and had not heard of it: it may have answered that its log ends below the
    position, which clients that name no epoch believe (before KIP-320). Where nobody recorded who led, that may have
    been any replica that a fault kept from hearing of others."""
    deposed, faults = Deposed(history), history.faults_between(since_ns, until_ns)
    if not history.elections and any(holds_up(fault, node) for fault in faults for node in history.replicas):
        return Doubt(code="end-told-by-whom")
    for election in history.elections:
        start, time_ns = election.start, max(since_ns, election.earliest_t)
        if election.earliest_t > until_ns or (start is not None and start >= position):
            continue
        epochs = deposed.epochs_that_may_go_on(election, time_ns)
        if epochs:
            return Doubt(code="told-by-a-deposed-leader", epochs=tuple(epochs))
    return None


def _was_answered_by_a_deposed(context: RunContext, history: PartitionHistory, row: DeliveryRow) -> bool:
    """Whether the assignment's own answer may lawfully be a replaced coordinator's, and the member began there."""
    until_ns = row["started_ns"] or row["first_ns"]
    answer = AnsweredOffsets(context, row["group"], history).by_a_deposed(row["process"], until_ns)
    return answer is not None and (answer["told"] is None or answer["told"] <= row["low"])


def _position_answered(context: RunContext, history: PartitionHistory, row: DeliveryRow) -> int:
    """Where the member was told to go on: no lower than what was certainly committed, or it is another finding."""
    answered = [
        event["offset"]
        for event in context.tables[GROUP_EVENTS]
        if event["event"] == "fetched"
        and event["status"] == STATUS_OK
        and event["process"] == row["process"]
        and (event["topic"], event["partition"]) == (history.topic, history.partition)
        and (row["assigned_ns"] or 0) <= event["completed_ns"] <= row["first_ns"]
        and event["offset"] is not None
    ]
    return max([row["high"], *answered])
