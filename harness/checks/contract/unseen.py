"""What the configuration would have permitted and nobody saw: brokers that are only polled report less than the books.

Nothing here permits a loss. What may have happened unseen keeps a loss, or a log's end that moved back, from being
called a violation.
"""

from dataclasses import replace

from harness.checks.contract.rulings import Doubt
from harness.checks.model.elections import Election
from harness.checks.model.lost_records import LostRecord
from harness.checks.model.partition_history import PartitionHistory


def may_be_unseen(history: PartitionHistory, lost: LostRecord, epoch: int | None, by_time: bool) -> Doubt | None:
    """What the configuration would have permitted and polling would have missed; None if there is nothing."""
    if history.exact:
        return None
    since = lost.t_acknowledged or 0
    if any(
        loss.time_ns > since and loss.event.took(history.topic, history.partition, lost.offset) is not False
        for loss in history.disk_losses
    ):
        return Doubt(code="disk-lost-while-polled")
    if not any(row["leader_epoch"] >= 0 for row in history.states):
        if lost.is_lenient or history.unclean_ever is not False:
            return Doubt(code="no-epochs-told")
        return None
    later = [election for election in history.elections if is_later(election, lost, epoch, by_time)]
    if any(election.allowed is not False for election in later):
        return Doubt(code="unclean-while-polled")
    return Doubt(code="fail-over-while-polled") if lost.is_lenient and later else None


def is_later(election: Election, lost: LostRecord, epoch: int | None, by_time: bool) -> bool:
    """Whether the election may have come between the record's acknowledgement and its loss."""
    if by_time:
        return lost.t_acknowledged is None or election.latest_t >= lost.t_acknowledged
    return epoch is None or election.epoch > epoch


def unseen_rewind(
    history: PartitionHistory, *, offset: int, time_ns: int | None, strict: bool, since_ns: int | None = None
) -> Doubt | None:
    """What may have moved the log's end back to `offset` or below by then, unseen; None if nothing is permitted.

    For a move that no recorded election explains. strict: the records at or above it were committed, so a clean
    fail-over explains nothing. since_ns: they were still there then, so what came before explains nothing.
    """
    if history.exact:
        return None
    lost = LostRecord(
        offset=offset, epoch=None, acks=-1 if strict else 1, t_acknowledged=None, committed=strict, in_a_log=True
    )
    known = replace(
        history,  # before the first election the log was empty
        elections=tuple(
            each
            for each in history.elections[1:]
            if (time_ns is None or each.earliest_t <= time_ns) and (since_ns is None or each.latest_t >= since_ns)
        ),
        disk_losses=tuple(
            loss
            for loss in history.disk_losses
            if (time_ns is None or loss.time_ns <= time_ns) and (since_ns is None or loss.time_ns >= since_ns)
        ),
    )
    return may_be_unseen(known, lost, None, False)
