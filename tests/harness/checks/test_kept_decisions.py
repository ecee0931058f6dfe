"""Which decision of a coordinator's log is which transaction's, and what it shows of what was written before."""

from dataclasses import replace

import pytest

from harness.checks.families.transactions.kept_decisions import Decision, Written, decisions_of, may_be_decided
from harness.history.schema.client_rows import TransactionRow
from harness.history.schema.internal_rows import TransactionStateRow
from tests.rows import row_of

SECOND = 10**9
OLDER, NEWER = 1, 2


def client(number: int, process: int, begin: float, end: float, *, outcome: int = 0) -> TransactionRow:
    return row_of(
        TransactionRow,
        transaction=number,
        process=process,
        transactional_id="id",
        invoked_ns=int(begin * SECOND),
        completed_ns=int(end * SECOND),
        outcome=outcome,
    )


def decided(state: str, *, begun: float, at: float, epoch: int = 0) -> TransactionStateRow:
    return row_of(
        TransactionStateRow,
        snapshots=[0],
        time_ns=int(at * SECOND),
        transactional_id="id",
        producer_id=7,
        producer_epoch=epoch,
        state=state,
        begun_ns=int(begun * SECOND),
        partitions=[{"topic": "t", "partition": 0}],
    )


def test_a_decision_is_of_the_transaction_that_was_begun_when_its_log_says() -> None:
    clients = [client(0, OLDER, 1, 3), client(1, OLDER, 4, 6, outcome=1)]
    kept = [decided("PrepareCommit", begun=1.5, at=3), decided("PrepareAbort", begun=4.5, at=6)]
    assert sorted(decisions_of(clients, kept)) == [0, 1]


@pytest.mark.parametrize(("outcome", "state"), [(2, "PrepareCommit"), (1, "PrepareCommit"), (0, "PrepareAbort")])
def test_a_decision_that_no_client_was_told_is_of_none(outcome: int, state: str) -> None:
    assert not decisions_of([client(0, OLDER, 1, 3, outcome=outcome)], [decided(state, begun=1.5, at=3)])


def replaced(*, fenced_at: float | None = 3, epoch: int = 2) -> frozenset[int]:
    """The older client is at its transaction still when the newer one has replaced it, and commits."""
    clients = [client(0, OLDER, 1, 9, outcome=1), client(1, NEWER, 4, 6)]
    kept = [decided("PrepareCommit", begun=4.5, at=6, epoch=epoch)]
    if fenced_at is not None:
        kept.append(decided("PrepareAbort", begun=1.5, at=fenced_at, epoch=1))
    return frozenset(decisions_of(clients, kept))


def test_of_two_clients_at_once_the_newer_ones_stands_above_with_a_greater_epoch() -> None:
    assert replaced() == {0, 1}
    assert replaced(epoch=1) == {0}, "the epoch came again: it may be the older one's"
    assert replaced(fenced_at=7) == {0}, "it stands below"
    assert replaced(fenced_at=None) == frozenset()


def beside_one_of_unknown_outcome(*, epoch: int = 2, began: bool = True) -> dict[int, Decision]:
    """The older client was never told what became of its transaction; the coordinator aborted the newer one's."""
    clients = [client(0, OLDER, 1, 9, outcome=2), client(1, NEWER, 4, 6, outcome=1)]
    kept = [decided("Ongoing", begun=1.5, at=1.6), decided("PrepareAbort", begun=4.5, at=6, epoch=epoch + 1)]
    if began:
        kept.append(decided("Ongoing", begun=4.5, at=4.6, epoch=epoch))
    return dict(decisions_of(clients, kept))


def test_whose_a_decision_is_the_epochs_tell_with_which_transactions_began() -> None:
    found = beside_one_of_unknown_outcome()
    assert (set(found), found[1].client) == ({1}, (7, 2))
    assert not beside_one_of_unknown_outcome(epoch=0), "the epoch came again: it may be the older one's"
    assert not beside_one_of_unknown_outcome(began=False), "its coordinator raised the epoch, or it began with that"


def test_what_it_ends_had_begun_before_what_was_sent_later_to_a_partition_that_it_names() -> None:
    decision = Decision.of(decided("PrepareCommit", begun=4, at=6))
    written = Written(topic="t", partition=0, sent_ns=5 * SECOND)
    assert decision.had_begun_before(written)
    assert decision.had_begun_before(replace(written, partition=None))
    assert not decision.had_begun_before(replace(written, partition=1))
    assert not decision.had_begun_before(replace(written, topic="u"))
    assert not decision.had_begun_before(replace(written, sent_ns=int(4.05 * SECOND))), "clocks differ by as much"


def test_a_decision_may_be_a_transactions_if_that_was_at_work_when_it_was_begun() -> None:
    own = client(0, OLDER, 1, 3)
    assert may_be_decided(own, [decided("PrepareCommit", begun=1.5, at=9)])
    assert not may_be_decided(own, [decided("PrepareAbort", begun=1.5, at=9)]), "its client was told otherwise"
    assert not may_be_decided(own, [decided("PrepareCommit", begun=4, at=9)])
