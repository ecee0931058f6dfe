"""The controller's pen: what a cluster's books say comes out of the sealed tables as it went in."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness.cluster.books.metadata_history import history_of
from harness.cluster.books.metadata_log import read_log
from harness.controller.recorder import Recorder
from harness.history.run_folder import RunFolder
from harness.history.sealed.sealing import seal
from harness.host.clock import Anchor, SystemClock
from harness.ports.cluster import ClusterHistory, PartitionState
from tests.partition_states import recorded


def state(
    epoch: int,
    leader: int,
    isr: Sequence[int],
    *,
    elr: Sequence[int] | None,
    partition_epoch: int | None = None,
    last_known_leader: int | None = None,
    elr_dropped: Sequence[int] = (),
) -> PartitionState:
    return recorded(
        leader,
        epoch,
        tuple(isr),
        t_ns=epoch,
        exact=partition_epoch is not None,
        partition_epoch=partition_epoch,
        elr=None if elr is None else tuple(elr),
        last_known_leader=last_known_leader,
        elr_dropped=tuple(elr_dropped),
    )


def sealed(runs: Path, *states: PartitionState) -> list[dict[str, Any]]:
    return sealed_history(
        runs, ClusterHistory(partition_states=states, controllers=(), broker_events=(), configuration=())
    )


def sealed_history(runs: Path, history: ClusterHistory) -> list[dict[str, Any]]:
    clock = SystemClock()
    folder = RunFolder.create(runs, scenario="test", clock=clock, seed=1, stamp="20260101-000000")
    recorder = Recorder(folder=folder.history, clock=clock)
    recorder.cluster_history(history)
    recorder.close()
    seal(folder)
    rows: list[dict[str, Any]] = folder.table("partition_states").to_pylist()
    return rows


def test_eligible_leader_replicas_come_out_of_the_sealed_table(tmp_path: Path) -> None:
    rows = sealed(tmp_path, state(0, 1, (1, 2), elr=()), state(1, -1, (), elr=(1, 2)), state(2, 3, (3,), elr=None))
    assert [row["elr"] for row in rows] == [[], [1, 2], None]
    assert [row["isr_before"] for row in rows] == [None, [1, 2], []]


def test_an_election_from_the_eligible_leader_replicas_is_clean(tmp_path: Path) -> None:
    rows = sealed(tmp_path, state(0, -1, (), elr=(1, 2)), state(1, 2, (2,), elr=(1,)))
    assert [row["unclean"] for row in rows] == [False, False]


def test_an_election_from_neither_the_isr_nor_the_eligible_leader_replicas_is_unclean(tmp_path: Path) -> None:
    rows = sealed(tmp_path, state(0, -1, (), elr=(1,)), state(1, 2, (2,), elr=()), state(2, 3, (3,), elr=None))
    assert [row["unclean"] for row in rows] == [False, True, True]


def test_the_last_known_leader_is_elected_cleanly_when_nobody_else_is_eligible_any_more(tmp_path: Path) -> None:
    gone = state(1, -1, (), elr=(), last_known_leader=1)
    assert [row["unclean"] for row in sealed(tmp_path, gone, state(2, 1, (1,), elr=()))] == [False, False]
    assert [row["unclean"] for row in sealed(tmp_path, gone, state(2, 2, (2,), elr=()))] == [False, True]
    waiting = state(1, -1, (), elr=(2,), last_known_leader=1)
    returned = state(2, 1, (1,), elr=(), elr_dropped=(2,))
    assert [row["unclean"] for row in sealed(tmp_path, waiting, returned)] == [False, False]
    assert [row["unclean"] for row in sealed(tmp_path, waiting, state(2, 1, (1,), elr=(2,)))] == [False, True]


def test_the_last_known_leader_is_elected_uncleanly_while_an_eligible_one_is_only_away(tmp_path: Path) -> None:
    waiting = state(1, -1, (), elr=(2,), last_known_leader=1)
    assert [row["unclean"] for row in sealed(tmp_path, waiting, state(2, 1, (1,), elr=()))] == [False, True]


def test_a_polled_state_in_which_only_the_eligible_leader_replicas_changed_is_a_state(tmp_path: Path) -> None:
    rows = sealed(tmp_path, state(1, -1, (), elr=(1, 2)), state(1, -1, (), elr=(2,)), state(1, -1, (), elr=(2,)))
    assert [row["elr"] for row in rows] == [[1, 2], [2]]


def test_of_a_real_kafkas_elections_the_one_is_unclean_that_kafka_itself_marked(tmp_path: Path) -> None:
    log = read_log(Path(__file__).parents[1] / "cluster/data/cluster_metadata_4_3")
    history = history_of(log.entries, Anchor(monotonic_ns=0, wall_ns=0))
    rows = sealed_history(tmp_path, history)
    marked = [event for event in history.broker_events if event.event == "unclean_election_marked"]
    assert (
        [(row["topic"], row["leader_epoch"], row["leader"]) for row in rows if row["unclean"]]
        == [(event.topic, event.epoch, event.node) for event in marked]
        == [("loose", 4, 2)]
    )
