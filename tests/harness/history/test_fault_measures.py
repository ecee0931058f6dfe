"""Time to a new leader, and time until every ISR is complete, for each fault."""

from harness.history.facts.fault_measures import in_sync_times, leader_times
from harness.history.schema.cluster_rows import FaultRow, PartitionStateRow
from tests.rows import row_of

SECOND = 10**9
END = 60 * SECOND


def state(at: float, leader: int, epoch: int, isr: list[int], *, partition: int = 0) -> PartitionStateRow:
    return row_of(
        PartitionStateRow,
        topic="t",
        partition=partition,
        time_ns=int(at * SECOND),
        exact=True,
        leader=leader,
        leader_epoch=epoch,
        partition_epoch=int(at * 10),
        isr=isr,
        uncertainty_ns=5_000_000,
    )


def fault(number: int, node: int, *, at: float, until: float | None, kind: str = "kill") -> FaultRow:
    return row_of(
        FaultRow,
        fault=number,
        kind=kind,
        nodes=[node],
        asked_ns=int(at * SECOND),
        begin_ns=int(at * SECOND),
        end_ns=None if until is None else int(until * SECOND),
    )


LEADER_KILLED = [state(0, 1, 0, [1, 2, 3]), state(12, 2, 1, [2, 3]), state(30, 2, 1, [2, 3, 1])]


def test_a_new_leader_and_a_whole_isr_are_measured_from_the_fault() -> None:
    faults = [fault(0, 1, at=10, until=20)]

    leader, whole = leader_times(LEADER_KILLED, faults, END)[0], in_sync_times(LEADER_KILLED, faults, END)[0]
    assert (leader.seconds, leader.never, leader.uncertainty_s) == (2.0, False, 0.005)
    assert (whole.seconds, whole.never) == (20.0, False)


def test_the_slowest_partition_counts() -> None:
    other = [
        state(0, 1, 0, [1, 2, 3], partition=1),
        state(15, 3, 1, [2, 3], partition=1),
        state(25, 3, 1, [1, 2, 3], partition=1),
    ]
    faults = [fault(0, 1, at=10, until=20)]

    assert leader_times([*LEADER_KILLED, *other], faults, END)[0].seconds == 5.0
    assert in_sync_times([*LEADER_KILLED, *other], faults, END)[0].seconds == 20.0


def test_what_does_not_end_is_a_lower_bound() -> None:
    states = [state(0, 1, 0, [1]), state(11, -1, 0, [1])]
    faults = [fault(0, 1, at=10, until=None)]

    leader = leader_times(states, faults, END)[0]
    assert (leader.seconds, leader.never) == (50.0, True)
    never_whole = in_sync_times(LEADER_KILLED[:2], faults, END)[0]
    assert (never_whole.seconds, never_whole.never) == (50.0, True)


def test_a_fault_that_touches_nobody_has_no_measures() -> None:
    faults = [fault(0, 7, at=10, until=20), fault(1, 3, at=40, until=41, kind="slow")]

    assert leader_times(LEADER_KILLED, faults, END) == {}
    assert in_sync_times(LEADER_KILLED, faults, END) == {}


def test_an_isr_that_had_shrunk_before_need_only_be_as_it_was() -> None:
    states = [state(0, 1, 0, [1, 2]), state(12, 1, 0, [1]), state(18, 1, 0, [1, 2])]

    assert in_sync_times(states, [fault(0, 2, at=10, until=15)], END)[0].seconds == 8.0
