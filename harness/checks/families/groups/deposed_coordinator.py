"""A coordinator that was replaced, and has not heard of it, answers fetches from what it has in memory.

An OffsetFetch asks no replica: whoever takes himself for the coordinator answers, as a deposed leader answers readers.
So what had been committed when it was replaced may be told for as long as a fault keeps it from hearing, and a moment
longer. A commit it cannot answer any more: that waits for every replica in sync. Where nobody recorded who coordinates,
any broker that faults kept from hearing throughout may be such a one, from before the first of them.
"""

from collections.abc import Sequence

from harness.checks.contract.deposed import LEARN_NS, Deposed
from harness.checks.families.groups.group_partition import place_of_group
from harness.checks.families.groups.group_register import Fetch, Register
from harness.checks.model.elections import Election
from harness.checks.model.partition_history import PartitionHistory, RunHistory, held_up
from harness.history.facts.fault_facts import begin_of
from harness.history.schema.internal_rows import ConsumerOffsetsRow


def may_be_its_answer(
    history: RunHistory, rows: Sequence[ConsumerOffsetsRow], group: str, register: Register, fetch: Fetch
) -> bool:
    """Whether a deposed coordinator of the group may lawfully have answered so. rows: the run's."""
    place = place_of_group(history, rows, group)
    if place is None or not place.exact:
        return _may_be_anybodys(history, register, fetch)
    term = max(
        (each for each in place.elections if each.earliest_t <= fetch.completed_ns),
        key=lambda each: each.epoch,
        default=None,
    )
    if term is None:
        return False
    deposed, times = Deposed(place), _moments(history, fetch)
    may_go_on = {epoch for time_ns in times for epoch in deposed.epochs_that_may_go_on(term, time_ns)}
    return any(
        _was_unaware(place, epoch, successor, fetch)
        and fetch.offset in register.may_answer(_asked(fetch, successor.earliest_t, successor.latest_t))
        for epoch in may_go_on
        for successor in (next(each for each in place.elections if each.epoch > epoch),)
    )


def _moments(history: RunHistory, fetch: Fetch) -> list[int]:
    """At which its coordinator may have answered: one that was paused meanwhile does so when it goes on."""
    begin_ns, end_ns = fetch.invoked_ns, fetch.completed_ns
    return [begin_ns, *(time_ns for time_ns in history.faults.times if begin_ns < time_ns < end_ns), end_ns]


def _may_be_anybodys(history: RunHistory, register: Register, fetch: Fetch) -> bool:
    """Whether it is what held at some moment since a fault, or one after the other, kept some broker from hearing: one
    that heard between two of them had learnt that it was replaced."""
    nodes = {node for place in history.partitions.values() for node in place.replicas}
    since = (_deaf_since(history, node, fetch) for node in nodes)
    return any(
        fetch.offset in register.may_answer(_asked(fetch, since_ns - LEARN_NS, fetch.completed_ns))
        for since_ns in since
        if since_ns is not None
    )


def _deaf_since(history: RunHistory, node: int, fetch: Fetch) -> int | None:
    """When the faults began that may have kept this node from hearing until then; None: there was none."""
    begin_ns, faults = fetch.invoked_ns, held_up(history.faults, (node,), fetch.invoked_ns, fetch.completed_ns)
    if not faults:
        return None
    while (first_ns := min(map(begin_of, faults))) < begin_ns:
        begin_ns = first_ns
        faults = held_up(history.faults, (node,), begin_ns, fetch.completed_ns)
    return begin_ns


def _asked(fetch: Fetch, begin_ns: int, end_ns: int) -> Fetch:
    """The same question, within that time."""
    return Fetch(fetch.offset, begin_ns, end_ns, fetch.stable)


def _was_unaware(place: PartitionHistory, epoch: int, successor: Election, fetch: Fetch) -> bool:
    node = place.leader_of(epoch)
    if fetch.invoked_ns < successor.latest_t + LEARN_NS:
        return True
    return node is not None and bool(held_up(place.faults, (node,), fetch.invoked_ns, fetch.completed_ns))
