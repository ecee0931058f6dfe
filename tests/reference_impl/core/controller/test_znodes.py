"""Znodes can be read as they were written, in Kafka's format (claims S04 and S13)."""

import json
import uuid

from reference_impl.core.controller import znodes
from reference_impl.core.controller.controller_state import Incarnation
from reference_impl.core.identifiers import TopicPartition
from reference_impl.core.state import LiveBroker, PartitionState


def test_the_controller_znode_has_kafkas_four_fields() -> None:
    assert json.loads(znodes.controller(3, 1234)) == {
        "version": 2,
        "brokerid": 3,
        "timestamp": "1234",
        "kraftControllerEpoch": -1,
    }


def test_a_registration_reads_back() -> None:
    broker = LiveBroker(
        broker_id=1,
        broker_epoch=77,
        listeners=(("INTERNAL", "node1", 9092), ("CLIENT1", "127.0.0.1", 9093)),
        directory_ids=("d1",),
    )
    assert znodes.read_registration(1, znodes.registration(broker, wall_ms=5), 77) == broker


def test_a_topic_reads_back() -> None:
    topic_id = uuid.UUID(int=2**127 + 5)
    assert znodes.read_topic(znodes.topic(topic_id, [(1, 2), (2, 1)])) == (topic_id, {0: (1, 2), 1: (2, 1)})


def test_a_partition_state_reads_back_with_the_znodes_version_as_partition_epoch() -> None:
    state = PartitionState(
        topic_partition=TopicPartition("t", 0),
        replicas=(1, 2),
        leader=-1,
        isr=(2, 1),
        leader_epoch=4,
        partition_epoch=6,
        controller_epoch=2,
    )
    data = znodes.partition_state(state)
    assert set(json.loads(data)) == {"controller_epoch", "leader", "version", "leader_epoch", "isr"}
    assert znodes.read_partition_state(TopicPartition("t", 0), (1, 2), data, 6) == state


def test_overrides_and_incarnations_read_back() -> None:
    assert znodes.read_configs(znodes.configs({"a": "1"})) == {"a": "1"}
    value = Incarnation(broker_epoch=5, directory_ids=("b",), previous_directory_ids=("a",), version=3)
    assert znodes.read_incarnation(znodes.incarnation(value), 3) == value
