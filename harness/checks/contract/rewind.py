"""What may have moved a log's end back: an election by which that was lawful, or what nobody saw."""

from dataclasses import replace

from harness.checks.contract.deposed import Deposed
from harness.checks.contract.exceptions import Case, may_be_unseen, ruled
from harness.checks.contract.rulings import Doubt
from harness.checks.contract.timeline import Seen, Window
from harness.checks.model.elections import Election
from harness.checks.model.lost_records import LostRecord
from harness.checks.model.partition_history import PartitionHistory


def lawful_rewind(
    history: PartitionHistory,
    *,
    offset: int,
    epoch: int | None,
    time_ns: int | None,
    strict: bool,
    since: int | None = None,
) -> Election | None:
    """The election, by epoch or time, that explains why the log's end moved back to `offset` or below, if there is one.

    strict: the records are committed, so a clean fail-over explains nothing. since: a reader saw the record at the
    offset at that time; a leader deposed earlier may have returned it.
    """
    deposed = Deposed(history)
    before: Election | None = None
    found: Election | None = None
    for election in history.elections:
        first, before = before, election
        if first is None or (epoch is not None and election.epoch > epoch):
            continue  # before the first election the log was empty
        if time_ns is not None and election.earliest_t > time_ns:
            continue
        if since is not None and election.latest_t < since and not deposed.may_answer_for_another(election, since):
            continue
        unread = election.start is None and not history.exact and not history.snapshots
        if not unread and not election.ends_at_or_below(offset):
            continue
        lost = LostRecord(
            offset=offset,
            epoch=first.epoch,
            acks=-1 if strict else 1,
            t_acknowledged=None,
            committed=strict,
            in_a_log=not unread,
        )
        since_first = Window(seen=Seen(epoch=first.epoch, time_ns=first.earliest_t))
        case = Case(history=history, election=election, lost=lost, epoch=first.epoch, by_time=False, window=since_first)
        # An undecided ruling is enough: the loss itself then makes the run inconclusive.
        if ruled(case).classification != "violation" or may_be_unseen(
            history, lost, first.epoch, False, lost.t_acknowledged or 0
        ):
            found = election
    return found


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
    return may_be_unseen(known, lost, None, False, lost.t_acknowledged or 0)
