"""From metadata records to a history: each record type by hand, and two real Kafka clusters."""

from pathlib import Path

from harness.cluster.books.metadata_history import EXACT, history_of
from harness.cluster.books.metadata_log import read_log
from harness.host.clock import Anchor
from harness.ports.cluster import BrokerEvent, ClusterHistory, PartitionState
from tests.harness.cluster import metadata_writer as writer
from tests.harness.cluster.test_metadata_log import DATA, write, write_snapshot

_ANCHOR = Anchor(monotonic_ns=5_000_000_000, wall_ns=1_000_000_000)
_ORDERS = (writer.topic("orders"), writer.partition("orders", leader=1, isr=(1, 2), replicas=(1, 2)))


def history_in(folder: Path, *values: bytes) -> ClusterHistory:
    """The history of one batch at 1000 ms of the controller's clock, in quorum epoch 3."""
    return history_of(read_log(write(folder, {0: [writer.batch(0, values, epoch=3)]})).entries, _ANCHOR)


def recorded(name: str) -> ClusterHistory:
    return history_of(read_log(DATA / name).entries, Anchor(monotonic_ns=0, wall_ns=0))


def brief(states: list[PartitionState]) -> list[tuple[int, int, int, tuple[int, ...], tuple[int, ...] | None]]:
    return [(each.leader, each.leader_epoch, each.partition_epoch or 0, each.isr, each.elr) for each in states]


def of(history: ClusterHistory, topic: str) -> list[PartitionState]:
    return [state for state in history.partition_states if state.topic == topic]


def events(history: ClusterHistory, *names: str) -> list[tuple[str, int]]:
    return [(event.event, event.node) for event in history.broker_events if not names or event.event in names]


def test_a_state_is_exact_and_good_to_a_millisecond_on_the_runs_axis(tmp_path: Path) -> None:
    assert history_in(tmp_path, *_ORDERS).partition_states == [
        PartitionState(
            topic="orders",
            partition=0,
            t_ns=5_000_000_000,
            uncertainty_ns=1_000_000,
            exact=True,
            observer=EXACT,
            leader=1,
            leader_epoch=0,
            partition_epoch=0,
            controller_epoch=3,
            isr=(1, 2),
            replicas=(1, 2),
            elr=None,
            topic_id=writer.uuid_text("orders"),
        )
    ]


def test_each_record_is_one_partition_epoch_and_each_named_leader_one_leader_epoch(tmp_path: Path) -> None:
    changes = (
        writer.change("orders", isr=(1,)),
        writer.change("orders", leader=1),  # the same leader: an older state of it is fenced
        writer.change("orders", leader=-1),
        writer.change("orders"),
        writer.change("orders", leader=2, isr=(2,), replicas=(1, 2, 3)),
    )
    states = history_in(tmp_path, *_ORDERS, *changes).partition_states
    assert brief(list(states)) == [
        (1, 0, 0, (1, 2), None),
        (1, 0, 1, (1,), None),
        (1, 1, 2, (1,), None),
        (-1, 2, 3, (1,), None),
        (-1, 2, 4, (1,), None),
        (2, 3, 5, (2,), None),
    ]
    assert states[-1].replicas == (1, 2, 3)


def test_eligible_leader_replicas_are_reported_from_the_feature_on_and_kept_until_changed(tmp_path: Path) -> None:
    history = history_in(
        tmp_path,
        writer.ELR_ON,
        *_ORDERS,
        writer.change("orders", isr=(1,), elr=(2,)),
        writer.change("orders", isr=(), leader=-1, elr=(1, 2), last_known_elr=(1,)),
        writer.change("orders", isr=(2,), leader=2, elr=(1,)),
    )
    assert [(state.isr, state.elr) for state in history.partition_states] == [
        ((1, 2), ()),
        ((1,), (2,)),
        ((), (1, 2)),
        ((2,), (1,)),
    ]
    assert [state.last_known_leader for state in history.partition_states] == [None, None, 1, 1]


def test_only_those_who_just_registered_are_reported_as_dropped_from_the_eligible_ones(tmp_path: Path) -> None:
    """Kafka 4.3.1 writes what a registration changes before the registration, in one batch."""
    waiting = writer.change("orders", isr=(), leader=-1, elr=(2,), last_known_elr=(1,))
    elected = writer.change("orders", isr=(1,), leader=1, elr=(), last_known_elr=(), recovery=1)
    back = writer.registration(2, "d")

    before = [writer.ELR_ON, *_ORDERS, back, waiting]
    away = [writer.batch(0, before), writer.batch(len(before), [elected], wall_ms=1900)]
    returned = [writer.batch(0, before), writer.batch(len(before), [elected, back], wall_ms=1900)]

    for number, (batches, dropped) in enumerate([(away, ()), (returned, (2,))]):
        history = history_of(read_log(write(tmp_path / str(number), {0: batches})).entries, _ANCHOR)
        assert [state.elr_dropped for state in history.partition_states] == [(), (), dropped]


def test_clearing_eligible_leader_replicas_changes_only_partitions_that_had_some(tmp_path: Path) -> None:
    others = (writer.topic("b"), writer.partition("b", leader=1, isr=(1,), replicas=(1, 2), elr=(2,)))
    before = (writer.ELR_ON, *_ORDERS, *others, writer.change("orders", last_known_elr=(2,)))
    clear_b, clear_all = (writer.record(28, 0, writer.text(name)) for name in ("b", ""))
    history = history_in(tmp_path, *before, clear_b, clear_b, clear_all, clear_all)
    assert brief(of(history, "b")) == [(1, 0, 0, (1,), (2,)), (1, 0, 1, (1,), ())]
    assert brief(of(history, "orders")) == [(1, 0, 0, (1, 2), ()), (1, 0, 1, (1, 2), ()), (1, 0, 2, (1, 2), ())]


def test_an_unclean_election_is_marked_and_its_recovery_is_not(tmp_path: Path) -> None:
    history = history_in(
        tmp_path,
        *_ORDERS,
        writer.change("orders", leader=2, isr=(2,), recovery=1),
        writer.change("orders", recovery=0),
    )
    marked = BrokerEvent(
        node=history.broker_events[0].node,
        t_ns=5_000_000_000,
        event="unclean_election_marked",
        topic="orders",
        partition=0,
        epoch=1,
    )
    assert history.broker_events == [marked]
    assert marked.node == 2


def test_a_deleted_topic_and_a_new_one_of_its_name_are_distinguished(tmp_path: Path) -> None:
    again = writer.record(2, 0, writer.text("orders") + writer.uuid_of("other"))
    history = history_in(
        tmp_path,
        *_ORDERS,
        writer.record(9, 0, writer.uuid_of("orders")),
        writer.change("orders", isr=(1,)),
        again,
        writer.partition("other", leader=2, isr=(2,), replicas=(2,)),
    )
    one, other = writer.uuid_text("orders"), writer.uuid_text("other")
    assert [(state.topic, state.topic_id, state.leader) for state in history.partition_states] == [
        ("orders", one, 1),
        ("orders", other, 2),
    ]
    assert [(life.topic, life.topic_id, life.deleted_ns is None) for life in history.topics] == [
        ("orders", one, False),
        ("orders", other, True),
    ]


def test_a_change_of_a_partition_nobody_created_is_no_state(tmp_path: Path) -> None:
    assert history_in(tmp_path, writer.change("orders", leader=1)).partition_states == []


def test_brokers_register_are_fenced_once_and_leave(tmp_path: Path) -> None:
    fence, unfence = (writer.registration_change(1, {0: state}) for state in (b"\x01", b"\xff"))
    shutting_down = writer.registration_change(1, {1: b"\x01"})
    history = history_in(
        tmp_path, writer.registration(1, "d"), fence, unfence, shutting_down, fence, fence, writer.unregistration(1)
    )
    assert events(history) == [
        ("broker_registered", 1),
        ("broker_unfenced", 1),
        ("broker_fenced", 1),
        ("broker_gone", 1),
    ]
    assert {event.detail for event in history.broker_events} == {"broker epoch 7"}


def test_a_broker_that_comes_back_without_a_directory_it_had_has_lost_it(tmp_path: Path) -> None:
    history = history_in(
        tmp_path,
        writer.registration(1, "a"),
        writer.registration(1, "a"),
        writer.registration(2, "x"),
        writer.registration(1, "a", "b"),  # one more disk
        writer.registration(1, "b", "c"),
    )
    lost = [event for event in history.broker_events if event.event == "directory_lost"]
    assert [(event.node, event.detail) for event in lost] == [
        (
            1,
            f"registered with directory {[writer.uuid_text('b'), writer.uuid_text('c')]}, "
            f"before it was {[writer.uuid_text('a'), writer.uuid_text('b')]}",
        )
    ]


def test_settings_have_their_scope_and_a_key_that_is_taken_away_is_empty(tmp_path: Path) -> None:
    history = history_in(
        tmp_path,
        writer.config(2, "orders", "retention.ms", "5"),
        writer.config(2, "orders", "retention.ms", None),
        writer.config(4, "2", "log.cleaner.threads", "1"),
        writer.config(4, "", "min.insync.replicas", "1"),
        writer.config(16, "client", "interval.ms", "1"),
    )
    assert [(each.scope, each.name, each.node, each.key, each.value) for each in history.configuration] == [
        ("topic", "orders", -1, "retention.ms", "5"),
        ("topic", "orders", -1, "retention.ms", ""),
        ("broker", "2", 2, "log.cleaner.threads", "1"),
        ("cluster", "", -1, "min.insync.replicas", "1"),
    ]


def test_each_leader_of_the_quorum_is_a_controller_with_its_epoch(tmp_path: Path) -> None:
    batches = [
        writer.batch(at, [writer.leader_change(node)], control=writer.LEADER_CHANGE, epoch=epoch, wall_ms=1000 + at)
        for at, (node, epoch) in enumerate([(100, 1), (102, 4)])
    ]
    history = history_of(read_log(write(tmp_path, {0: batches})).entries, _ANCHOR)
    assert [(each.node, each.controller_epoch, each.t_ns) for each in history.controllers] == [
        (100, 1, 5_000_000_000),
        (102, 4, 5_001_000_000),
    ]


def test_what_a_snapshot_holds_is_a_state_and_no_event(tmp_path: Path) -> None:
    folder = write(tmp_path, {8: [writer.batch(8, [writer.change("orders", isr=(1,)), writer.registration(1, "b")])]})
    held = [writer.ELR_ON, writer.registration(1, "a", fenced=False), *_ORDERS, writer.config(2, "orders", "k", "v")]
    write_snapshot(folder, 8, 1, held, last_wall_ms=900)
    history = history_of(read_log(folder).entries, _ANCHOR)
    assert [(state.t_ns, state.isr) for state in history.partition_states] == [
        (4_900_000_000, (1, 2)),
        (5_000_000_000, (1,)),
    ]
    assert events(history) == [("broker_registered", 1), ("directory_lost", 1)]
    assert {(change.scope, change.key, change.value, change.t_ns) for change in history.configuration} == {
        ("topic", "k", "v", 4_900_000_000),
        ("feature", "eligible.leader.replicas.version", "1", 4_900_000_000),
    }


def test_the_recorded_kafka_4_3_elected_one_topic_from_the_elr_and_the_other_uncleanly() -> None:
    history = recorded("cluster_metadata_4_3")
    assert brief(of(history, "orders"))[:7] == [
        (1, 0, 0, (1, 2, 3), ()),
        (2, 1, 1, (2, 3), ()),  # 1 was killed
        (2, 1, 2, (1, 2, 3), ()),
        (2, 1, 3, (1, 2), ()),  # 3 shut down
        (1, 2, 4, (1,), (2,)),  # 2 shut down: below min.insync.replicas it stays eligible
        (-1, 3, 5, (), (1, 2)),  # 1 was killed
        (2, 4, 6, (2,), (1,)),  # 2 came back and may lead
    ]
    assert brief(of(history, "loose"))[4:6] == [(-1, 3, 4, (), (1,)), (2, 4, 5, (2,), ())]
    marked = [event for event in history.broker_events if event.event == "unclean_election_marked"]
    assert [(event.node, event.topic, event.partition, event.epoch) for event in marked] == [(2, "loose", 0, 4)]
    assert {state.replicas for state in of(history, "gone")} == {(3,)}


def test_the_recorded_kafka_4_3_reports_restarts_a_lost_disk_settings_and_two_controller_terms() -> None:
    history = recorded("cluster_metadata_4_3")
    assert [node for _, node in events(history, "broker_registered")] == [1, 2, 3, 1, 2, 3, 1, 3]
    assert events(history, "directory_lost", "broker_gone") == [("directory_lost", 3), ("broker_gone", 3)]
    assert [(each.node, each.controller_epoch) for each in history.controllers] == [(100, 1), (100, 2)]
    assert {state.controller_epoch for state in history.partition_states} == {1, 2}
    assert [(each.scope, each.name, each.value) for each in history.configuration if each.key == "retention.ms"] == [
        ("topic", "orders", "360000"),
        ("topic", "orders", ""),
    ]
    assert [each.t_ns for each in history.partition_states] == sorted(each.t_ns for each in history.partition_states)


def test_the_recorded_kafka_3_9_has_no_elr_and_waited_for_the_last_isr_member() -> None:
    history = recorded("cluster_metadata_3_9")
    assert {state.elr for state in history.partition_states} == {None}
    assert brief(of(history, "orders"))[4:7] == [(1, 2, 4, (1,), None), (-1, 3, 5, (1,), None), (1, 4, 6, (1,), None)]
    assert events(history, "unclean_election_marked", "directory_lost", "broker_gone") == [
        ("unclean_election_marked", 2),
        ("directory_lost", 3),
        ("broker_gone", 3),
    ]


def test_the_recorded_log_without_its_beginning_goes_on_from_its_snapshot() -> None:
    history = recorded("cluster_metadata_4_3_trimmed")
    assert brief(list(history.partition_states)) == [
        (2, 1, 3, (1, 2), ()),
        (2, 1, 4, (2,), (1,)),
        (2, 1, 5, (2,), ()),
        (2, 1, 6, (1, 2), ()),
    ]
    assert events(history) == [("broker_fenced", 1), ("broker_registered", 1), ("broker_unfenced", 1)]
