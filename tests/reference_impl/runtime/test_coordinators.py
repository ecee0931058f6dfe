"""FindCoordinator in every version: groups are sent to the leader of their partition, transactions are refused."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from reference_impl.core.groups.group_rules import GroupRules
from reference_impl.core.identifiers import GROUP_OFFSETS_TOPIC, ErrorCode, TopicPartition
from reference_impl.core.state import LiveBroker, PartitionState
from reference_impl.runtime.config import broker_config
from reference_impl.runtime.groups.coordinators import GroupCoordinators
from reference_impl.runtime.handlers.coordinators import CoordinatorHandler, OffsetsTopic
from reference_impl.runtime.handlers.metadata import MetadataCache
from reference_impl.runtime.server import Caller
from reference_impl.wire.api_keys import ApiKey
from reference_impl.wire.messages import Request, request_class, response_class
from tests.reference_impl.runtime.test_config import SMALLEST

FindCoordinatorRequest = request_class(ApiKey.FIND_COORDINATOR)
NOBODY = (-1, "", -1)


class World:
    """One broker's handler; what it asks the controller for is kept."""

    def __init__(self, partitions: int) -> None:
        config = broker_config(SMALLEST)
        self.metadata = MetadataCache()
        self.asked: list[Any] = []
        replicas: Any = SimpleNamespace(on_progress=None, on_topics_deleted=None, partitions={})
        self.coordinators = GroupCoordinators(
            config=config,
            replicas=replicas,
            metadata=self.metadata,
            rules=GroupRules(),
            new_id=str,
        )
        self.handler = CoordinatorHandler(self.coordinators, self.metadata, OffsetsTopic(config, self._ask))
        states = {
            number: PartitionState(
                topic_partition=TopicPartition(GROUP_OFFSETS_TOPIC, number),
                replicas=(7,),
                leader=7,
                isr=(7,),
                leader_epoch=0,
                partition_epoch=0,
                controller_epoch=1,
            )
            for number in range(partitions)
        }
        self.metadata._states[GROUP_OFFSETS_TOPIC] = states

    def lives(self) -> None:
        listeners = (("CLIENT1", "node7", 9093), ("CLIENT2", "elsewhere", 9094))
        self.metadata.brokers[7] = LiveBroker(broker_id=7, broker_epoch=1, listeners=listeners, directory_ids=())

    async def _ask(self, api_key: int, version: int, body: Any) -> Any:
        self.asked.append(body.topics[0])
        created = response_class(ApiKey.CREATE_TOPICS).fields["topics"].data_class
        return response_class(ApiKey.CREATE_TOPICS)(topics=[created(name=GROUP_OFFSETS_TOPIC, error_code=0)])

    def find(self, version: int, *, transactional: bool = False) -> tuple[int, tuple[int, str, int]]:
        body = FindCoordinatorRequest(key="somebody", key_type=int(transactional), coordinator_keys=["somebody"])
        request = Request(
            api_key=ApiKey.FIND_COORDINATOR, api_version=version, correlation_id=1, client_id="c", body=body
        )
        answer = self.handler.answer(request, Caller(listener="CLIENT2", client_id="c", peer="somewhere"))
        (found,) = answer.coordinators if version >= 4 else [answer]
        return found.error_code, (found.node_id, found.host, found.port)


@pytest.mark.parametrize("version", range(5))
def test_a_group_is_sent_to_its_partitions_leader_at_the_listener_it_asked(version: int) -> None:
    world = World(partitions=3)
    assert world.find(version) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, NOBODY)
    world.lives()
    assert world.find(version) == (ErrorCode.NONE, (7, "elsewhere", 9094))


@pytest.mark.parametrize("version", range(1, 5))
def test_a_transactional_id_is_refused_for_good(version: int) -> None:
    world = World(partitions=3)
    world.lives()
    assert world.find(version, transactional=True) == (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, NOBODY)


async def test_the_first_question_creates_the_topic_with_the_brokers_settings() -> None:
    world = World(partitions=0)
    assert [world.find(3), world.find(3)] == [(ErrorCode.COORDINATOR_NOT_AVAILABLE, NOBODY)] * 2
    await asyncio.sleep(0)
    (topic,) = world.asked
    assert (topic.name, topic.num_partitions, topic.replication_factor) == (GROUP_OFFSETS_TOPIC, 50, 3)
    assert ("cleanup.policy", "compact") in {(config.name, config.value) for config in topic.configs}
