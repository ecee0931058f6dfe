"""Which controller requests a broker accepts, and which it refuses even from the controller."""

import uuid
from pathlib import Path
from typing import Any

import pytest

from reference_impl.core.identifiers import ErrorCode
from reference_impl.runtime.in_process import InProcessCluster
from reference_impl.wire.api_keys import ApiKey
from reference_impl.wire.messages import decode_request, encode_request, request_class

pytestmark = pytest.mark.cluster

BROKER = 2


def through_the_wire(api_key: int, **fields: Any) -> Any:
    body = request_class(api_key)(**fields)
    return decode_request(encode_request(api_key, 0, 1, "controller", body)[4:]).body


def word_of_the_controller(cluster: InProcessCluster) -> dict[str, int]:
    replicas = cluster.brokers[BROKER].replicas
    return {
        "controller_id": cluster.brokers[BROKER].metadata.controller_id,
        "controller_epoch": replicas.controller_epoch,
        "broker_epoch": replicas.broker_epoch,
    }


def state_of(api_key: int, topic: str, partition: int = 0) -> Any:
    entry = request_class(api_key).fields["partition_states"].data_class
    return entry(
        topic=topic,
        topic_id=uuid.UUID(int=5),
        partition=partition,
        leader=BROKER,
        leader_epoch=0,
        isr=[BROKER],
        partition_epoch=0,
        replicas=[BROKER],
        controller_epoch=1,
        is_new=True,
    )


def everything_below(folder: Path) -> set[str]:
    """Folders, but not those of znodes and journals, which go on by themselves."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_dir()}


@pytest.mark.parametrize("topic", ["../../x", "..", "a/b", "x" * 250])
async def test_a_topic_that_may_not_be_called_so_leaves_no_folder_and_no_metadata(
    cluster: InProcessCluster, tmp_path: Path, topic: str
) -> None:
    broker, reported = cluster.brokers[BROKER], word_of_the_controller(cluster)
    before = everything_below(tmp_path)
    states = [
        state_of(ApiKey.LEADER_AND_ISR, topic),
        state_of(ApiKey.LEADER_AND_ISR, "orders"),
        state_of(ApiKey.LEADER_AND_ISR, "orders", -1),
    ]
    answer = await broker.replicas.leader_and_isr(
        through_the_wire(ApiKey.LEADER_AND_ISR, **reported, is_full=False, partition_states=states, live_brokers=[])
    )
    assert [(entry.partition, entry.error_code) for entry in answer.partition_errors] == [
        (0, ErrorCode.INVALID_TOPIC_EXCEPTION),
        (0, ErrorCode.NONE),
        (-1, ErrorCode.INVALID_PARTITIONS),
    ]
    assert everything_below(tmp_path) - before == {f"{BROKER}/data/orders-0"}

    stop = request_class(ApiKey.STOP_REPLICA).fields["partitions"].data_class
    stopped = [stop(topic=name, partition=0, leader_epoch=0, delete=True) for name in ("orders", topic)]
    answer = await broker.replicas.stop_replica(through_the_wire(ApiKey.STOP_REPLICA, **reported, partitions=stopped))
    assert answer.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert "orders" in {key.topic for key in broker.replicas.partitions}

    states = [state_of(ApiKey.UPDATE_METADATA, topic)]
    answer = broker.replicas.update_metadata(
        through_the_wire(
            ApiKey.UPDATE_METADATA,
            **reported,
            is_full=False,
            live_brokers=[],
            partition_states=states,
            topics=[],
            deleted_topics=[],
        )
    )
    assert answer.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert set(broker.metadata.brokers) == set(cluster.brokers)
    assert topic not in broker.metadata.topics()
