"""A coordinator that was replaced, and has not heard of it, answers fetches from what it has in memory.

An OffsetFetch asks no replica: whoever takes himself for the coordinator answers, as a deposed leader answers readers.
So what had been committed when it was replaced may be told for as long as a fault keeps it from hearing, and a moment
longer. A commit it cannot answer any more: that waits for every replica in sync.
"""

from collections.abc import Sequence

from harness.checks.contract.deposed import LEARN_NS, Deposed
from harness.checks.families.groups.group_partition import place_of_group
from harness.checks.families.groups.group_register import Fetch, Register
from harness.checks.model.elections import Election
from harness.checks.model.partition_history import PartitionHistory, RunHistory, holds_up
from harness.history.schema.internal_rows import ConsumerOffsetsRow

_HEARS_NS = 10 * 10**9  # how soon after the last fault that held it up it has surely heard


def may_be_its_answer(
    history: RunHistory, rows: Sequence[ConsumerOffsetsRow], group: str, register: Register, fetch: Fetch
) -> bool:
    """Whether a deposed coordinator of the group may lawfully have answered so. rows: the run's."""
    place = place_of_group(history, rows, group)
    if place is None or not place.exact:
        return False
    term = max(
        (each for each in place.elections if each.earliest_t <= fetch.completed_ns),
        key=lambda each: each.epoch,
        default=None,
    )
    if term is None:
        return False
    may_go_on = Deposed(place).epochs_that_may_go_on(term, fetch.invoked_ns)
    return any(
        _was_unaware(place, epoch, deposed, fetch) and fetch.offset in register.may_answer(_asked_when(deposed, fetch))
        for epoch in may_go_on
        for deposed in (next(each for each in place.elections if each.epoch > epoch),)
    )


def _asked_when(deposed: Election, fetch: Fetch) -> Fetch:
    """The same question at the end of its time."""
    return Fetch(fetch.offset, deposed.earliest_t, deposed.latest_t, fetch.stable)


def _was_unaware(place: PartitionHistory, epoch: int, deposed: Election, fetch: Fetch) -> bool:
    if fetch.invoked_ns < deposed.latest_t + LEARN_NS:
        return True
    node = place.leader_of(epoch)
    recent = place.faults_between(fetch.invoked_ns - _HEARS_NS, fetch.completed_ns)
    return node is not None and any(holds_up(fault, node) for fault in recent)
