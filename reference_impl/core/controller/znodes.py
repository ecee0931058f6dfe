"""The cluster's znodes: their paths and the encoding of their contents (claims S04 and S13 of docs/seed_claims.md)."""

import base64
import json
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from reference_impl.core.controller.controller_state import Incarnation
from reference_impl.core.identifiers import TopicPartition
from reference_impl.core.state import LiveBroker, PartitionState

CONTROLLER = "/controller"
CONTROLLER_EPOCH = "/controller_epoch"
BROKER_IDS = "/brokers/ids"
TOPICS = "/brokers/topics"
DIRECTORIES = "/brokers/directories"
DELETE_TOPICS = "/admin/delete_topics"
TOPIC_CONFIGS = "/config/topics"
BROKER_CONFIGS = "/config/brokers"
CLUSTER_ID = "/cluster/id"

# In order of creation: parents first.
PERSISTENT_PATHS = (
    *("/brokers", BROKER_IDS, TOPICS, DIRECTORIES, "/admin", DELETE_TOPICS),
    *("/config", TOPIC_CONFIGS, BROKER_CONFIGS, "/cluster"),
)


def topic_path(topic: str) -> str:
    return f"{TOPICS}/{topic}"


def partition_path(key: TopicPartition) -> str:
    return f"{TOPICS}/{key.topic}/partitions/{key.partition}"


def state_path(key: TopicPartition) -> str:
    return f"{partition_path(key)}/state"


def topic_config_path(topic: str) -> str:
    return f"{TOPIC_CONFIGS}/{topic}"


def encode(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def controller(broker_id: int, wall_ms: int) -> bytes:
    assert broker_id >= 0
    return encode({"version": 2, "brokerid": broker_id, "timestamp": str(wall_ms), "kraftControllerEpoch": -1})


def registration(broker: LiveBroker, *, wall_ms: int) -> bytes:
    """The data that a broker writes to its znode below /brokers/ids."""
    assert broker.listeners, "a broker listens somewhere"
    name, host, port = broker.listeners[0]
    del name
    return encode(
        {
            "version": 5,
            "host": host,
            "port": port,
            "endpoints": [f"{listener}://{address}:{number}" for listener, address, number in broker.listeners],
            "listener_security_protocol_map": {listener: "PLAINTEXT" for listener, _, _ in broker.listeners},
            "timestamp": str(wall_ms),
            "directories": list(broker.directory_ids),
        }
    )


def read_registration(broker_id: int, data: bytes, broker_epoch: int) -> LiveBroker:
    value = json.loads(data)
    return LiveBroker(
        broker_id=broker_id,
        broker_epoch=broker_epoch,
        listeners=tuple(_endpoint(text) for text in value["endpoints"]),
        directory_ids=tuple(value.get("directories", ())),
    )


def _endpoint(text: str) -> tuple[str, str, int]:
    listener, _, address = text.partition("://")
    host, _, port = address.rpartition(":")
    return listener, host, int(port)


def topic(topic_id: uuid.UUID, assignment: Sequence[Sequence[int]]) -> bytes:
    assert assignment, "a topic has at least one partition"
    return encode(
        {
            "version": 3,
            "topic_id": base64.urlsafe_b64encode(topic_id.bytes).rstrip(b"=").decode(),
            "partitions": {str(partition): list(replicas) for partition, replicas in enumerate(assignment)},
            "adding_replicas": {},
            "removing_replicas": {},
        }
    )


def read_topic(data: bytes) -> tuple[uuid.UUID, dict[int, tuple[int, ...]]]:
    value = json.loads(data)
    topic_id = uuid.UUID(bytes=base64.urlsafe_b64decode(value["topic_id"] + "=="))
    return topic_id, {int(number): tuple(replicas) for number, replicas in value["partitions"].items()}


def partition_state(state: PartitionState) -> bytes:
    assert state.leader_epoch >= 0
    assert state.isr, "an ISR is never empty"
    return encode(
        {
            "controller_epoch": state.controller_epoch,
            "leader": state.leader,
            "version": 1,
            "leader_epoch": state.leader_epoch,
            "isr": list(state.isr),
        }
    )


def read_partition_state(
    key: TopicPartition, replicas: tuple[int, ...], data: bytes, partition_epoch: int
) -> PartitionState:
    value = json.loads(data)
    return PartitionState(
        topic_partition=key,
        replicas=replicas,
        leader=value["leader"],
        isr=tuple(value["isr"]),
        leader_epoch=value["leader_epoch"],
        partition_epoch=partition_epoch,
        controller_epoch=value["controller_epoch"],
    )


def configs(overrides: Mapping[str, str]) -> bytes:
    return encode({"version": 1, "config": dict(overrides)})


def read_configs(data: bytes) -> dict[str, str]:
    return dict(json.loads(data)["config"]) if data else {}


def incarnation(value: Incarnation) -> bytes:
    return encode(
        {
            "version": 1,
            "broker_epoch": value.broker_epoch,
            "directories": list(value.directory_ids),
            "previous": list(value.previous_directory_ids),
        }
    )


def read_incarnation(data: bytes, version: int) -> Incarnation:
    value = json.loads(data)
    return Incarnation(
        broker_epoch=value["broker_epoch"],
        directory_ids=tuple(value["directories"]),
        previous_directory_ids=tuple(value["previous"]),
        version=version,
    )
