"""FindCoordinator in every version: groups and transactional ids are sent to the leader of their partition."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from reference_impl.core.groups.group_rules import GroupRules
from reference_impl.core.identifiers import GROUP_OFFSETS_TOPIC, TRANSACTIONS_TOPIC, ErrorCode, TopicPartition
from reference_impl.core.state import LiveBroker, PartitionState
from reference_impl.core.transactions.transaction_rules import TransactionRules
from reference_impl.runtime.config import broker_config
from reference_impl.runtime.coordinators.groups import GroupCoordinators
from reference_impl.runtime.coordinators.markers import MarkerSender
from reference_impl.runtime.coordinators.transactions import TransactionCoordinators
from reference_impl.runtime.handlers.coordinators import (
    GROUP_KEY,
    TRANSACTION_KEY,
    Coordinating,
    CoordinatorHandler,
    InternalTopic,
    offsets_topic,
    transactions_topic,
)
from reference_impl.runtime.handlers.metadata import MetadataCache
from reference_impl.runtime.server import Caller
from reference_impl.wire.api_keys import ApiKey
from reference_impl.wire.messages import Request, request_class, response_class
from tests.reference_impl.runtime.test_config import SMALLEST

FindCoordinatorRequest = request_class(ApiKey.FIND_COORDINATOR)
NOBODY = (-1, "", -1)
TOPICS = (GROUP_OFFSETS_TOPIC, TRANSACTIONS_TOPIC)  # by key type


class World:
    """One broker's handler; what it asks the controller for is kept."""

    def __init__(self, partitions: int) -> None:
        config = broker_config(SMALLEST)
        self.metadata = MetadataCache()
        self.asked: list[Any] = []
        replicas: Any = SimpleNamespace(on_progress=[], on_topics_deleted=[], partitions={})
        self.coordinators = GroupCoordinators(
            config=config,
            replicas=replicas,
            metadata=self.metadata,
            rules=GroupRules(),
            new_id=str,
        )
        self.transactions = TransactionCoordinators(
            config=config,
            replicas=replicas,
            metadata=self.metadata,
            markers=MarkerSender(self.metadata, self._ask_broker),
            rules=TransactionRules(),
        )
        kinds = {
            GROUP_KEY: Coordinating(
                self.coordinators, InternalTopic(offsets_topic(config), self._ask, timeout_ms=1000)
            ),
            TRANSACTION_KEY: Coordinating(
                self.transactions, InternalTopic(transactions_topic(config), self._ask, timeout_ms=1000)
            ),
        }
        self.handler = CoordinatorHandler(kinds, self.metadata)
        for topic in TOPICS:
            self.metadata._states[topic] = self._states(topic, partitions)

    @staticmethod
    def _states(topic: str, partitions: int) -> dict[int, PartitionState]:
        return {
            number: PartitionState(
                topic_partition=TopicPartition(topic, number),
                replicas=(7,),
                leader=7,
                isr=(7,),
                leader_epoch=0,
                partition_epoch=0,
                controller_epoch=1,
            )
            for number in range(partitions)
        }

    def lives(self) -> None:
        listeners = (("CLIENT1", "node7", 9093), ("CLIENT2", "elsewhere", 9094))
        self.metadata.brokers[7] = LiveBroker(broker_id=7, broker_epoch=1, listeners=listeners, directory_ids=())

    async def _ask(self, api_key: int, version: int, body: Any) -> Any:
        self.asked.append(body.topics[0])
        created = response_class(ApiKey.CREATE_TOPICS).fields["topics"].data_class
        return response_class(ApiKey.CREATE_TOPICS)(topics=[created(name=body.topics[0].name, error_code=0)])

    async def _ask_broker(self, broker_id: int, api_key: int, version: int, body: Any) -> Any:
        raise AssertionError("no transaction ends here")

    def find(self, version: int, *, kind: int = GROUP_KEY) -> tuple[int, tuple[int, str, int]]:
        body = FindCoordinatorRequest(key="somebody", key_type=kind, coordinator_keys=["somebody"])
        request = Request(
            api_key=ApiKey.FIND_COORDINATOR, api_version=version, correlation_id=1, client_id="c", body=body
        )
        answer = self.handler.answer(request, Caller(listener="CLIENT2", client_id="c", peer="somewhere"))
        (found,) = answer.coordinators if version >= 4 else [answer]
        return found.error_code, (found.node_id, found.host, found.port)


@pytest.mark.parametrize("version", range(5))
@pytest.mark.parametrize("kind", [GROUP_KEY, TRANSACTION_KEY])
def test_a_name_is_sent_to_its_partitions_leader_at_the_listener_it_asked(version: int, kind: int) -> None:
    world = World(partitions=3)
    assert world.find(version, kind=kind) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, NOBODY)
    world.lives()
    assert world.find(version, kind=kind) == (ErrorCode.NONE, (7, "elsewhere", 9094))


def test_nobody_coordinates_another_kind() -> None:
    world = World(partitions=3)
    world.lives()
    assert world.find(4, kind=2) == (ErrorCode.INVALID_REQUEST, NOBODY)


@pytest.mark.parametrize(("kind", "name"), list(enumerate(TOPICS)))
async def test_the_first_question_creates_the_topic_with_the_brokers_settings(kind: int, name: str) -> None:
    world = World(partitions=0)
    assert [world.find(3, kind=kind), world.find(3, kind=kind)] == [(ErrorCode.COORDINATOR_NOT_AVAILABLE, NOBODY)] * 2
    await asyncio.sleep(0)
    (topic,) = world.asked
    assert (topic.name, topic.num_partitions, topic.replication_factor) == (name, 50, 3)
    configs = {(config.name, config.value) for config in topic.configs}
    assert ("cleanup.policy", "compact") in configs
    assert (("min.insync.replicas", "2") in configs) == (kind == TRANSACTION_KEY)
