"""What one partition's story is made of, where a table is silent."""

from typing import Any

from harness.checks.model.elections import exact_states, states_near
from harness.checks.model.partition_history import holds_up, read_run_history
from harness.history.schema.cluster_rows import FaultRow, PartitionStateRow
from tests.harness.checks.contract.test_contract_against_model import small_tables
from tests.harness.checks.histories.build import History
from tests.rows import row_of


def test_a_partition_whose_replicas_are_not_listed_has_those_of_its_last_state() -> None:
    history = History().state(1, 0, (1, 2), at=0, start=0)
    history.partition["replicas"] = None
    story = read_run_history(small_tables(history), 0, None, 0).partitions[0]
    assert story.replicas == (1, 2, 3)
    history.rows["partition_states"].clear()
    assert read_run_history(small_tables(history), 0, None, 0).partitions[0].replicas == ()


def test_states_of_one_moment_follow_each_other_by_their_partition_epochs() -> None:
    def state(partition_epoch: int, **columns: Any) -> PartitionStateRow:
        fields = {"time_ns": 5, "exact": True, "partition_epoch": partition_epoch} | columns
        return row_of(PartitionStateRow, **fields)

    rows = [state(2), state(0), state(1), state(0, time_ns=4)]
    built_rows = [(row["time_ns"], row["partition_epoch"]) for row in exact_states(rows)]
    assert built_rows == [(4, 0), (5, 0), (5, 1), (5, 2)]


def test_what_a_broker_that_was_cut_off_said_of_an_older_epoch_is_no_state() -> None:
    history = History()
    for leader, epoch, at in ((1, 0, 0), (2, 1, 8), (1, 0, 9), (2, 1, 10)):
        history.state(leader, epoch, (leader,), at=at)
    polled = [row_of(PartitionStateRow, **(row | {"exact": False})) for row in history.rows["partition_states"]]
    assert [(row["leader"], row["leader_epoch"]) for row in exact_states(polled)] == [(1, 0), (2, 1)]


def test_around_a_state_whose_time_is_not_exact_its_neighbours_may_have_been_in_force_too() -> None:
    times = ((0, 0), (10, 3), (20, None), (30, 3))
    rows = [row_of(PartitionStateRow, time_ns=t, uncertainty_ns=apart) for t, apart in times]

    def near(time_ns: int) -> list[int]:
        return [row["time_ns"] for row in states_near(rows, time_ns)]

    assert near(-1) == []
    assert near(6) == [0]
    assert near(7) == near(12) == [0, 10]
    assert near(13) == [10]
    assert near(20) == near(26) == [20]
    assert near(27) == near(32) == [20, 30]
    assert near(33) == [30]


def test_a_broker_is_held_up_by_what_strikes_its_links_to_brokers_and_by_a_pause() -> None:
    def fault(
        kind: str, *, nodes: list[int] | None = None, links: list[tuple[int | None, int]] | None = None
    ) -> FaultRow:
        struck = [{"source": source, "client": None, "target": target} for source, target in links or ()]
        return row_of(FaultRow, kind=kind, nodes=nodes, links=struck if links else None)

    for kind in ("cut", "slow", "impair"):
        assert holds_up(fault(kind, links=[(1, 2)]), 1)
        assert holds_up(fault(kind, links=[(2, 1)]), 1)
        assert not holds_up(fault(kind, links=[(2, 3)], nodes=[1]), 1), "the links say more than the brokers"
        assert not holds_up(fault(kind, links=[(None, 1)]), 1), "clients that are cut off from it do not"
        assert holds_up(fault(kind, nodes=[1]), 1)
        assert not holds_up(fault(kind), 1)
    for kind in ("pause", "full"):
        assert holds_up(fault(kind, nodes=[1]), 1)
        assert not holds_up(fault(kind, nodes=[2]), 1)
        assert not holds_up(fault(kind), 1)
    assert not holds_up(fault("kill", nodes=[1]), 1), "that ends it"
