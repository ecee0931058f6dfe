"""Single requests to one broker: what it has of a partition, what it refuses, what its defaults are.

Each uses a connection of its own, so a broker that delays an answer does not delay the observer.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any

from kafka.protocol.admin import DescribeConfigsRequest, IncrementalAlterConfigsRequest
from kafka.protocol.consumer import FetchRequest, OffsetForLeaderEpochRequest
from kafka.protocol.metadata import MetadataRequest
from kafka.protocol.producer import ProduceRequest
from kafka.record import MemoryRecordsBuilder

from harness.cluster.books.observing import CREATION_VERSION, creation
from harness.cluster.broker_requests import BrokerConnection, Connect
from harness.cluster.record_batches import records_of
from harness.errors import HarnessError
from harness.host.clock import Clock
from harness.ports.capabilities import Fetched
from harness.ports.cluster import NodeId, Send, TopicDefinition, TopicPartition
from harness.ports.own_names import AS_WRITTEN, OwnNames

_ASK_S = 5.0
_LOOK_S = 0.5
_BROKER_RESOURCE, _SET = 4, 0
_DEFAULT_CONFIG = 5  # source of a value: Kafka's default (KIP-226)
_MAGIC = 2
_ACKS = {"0": 0, "1": 1, "all": -1}
_BATCH_BYTES = 1 << 20
_NOT_CONTROLLER = 41


class BrokerQuestions:
    """`addresses`: every broker's real address, which is never cut. `reports_versions`: see BrokerConnection.

    `connect`: None for a cluster of ours, whose listeners ask for nothing. `names`: what topics are called there.
    """

    def __init__(
        self,
        addresses: Mapping[NodeId, tuple[str, int]],
        *,
        is_running: Callable[[NodeId], bool],
        clock: Clock,
        reports_versions: bool = True,
        connect: Connect | None = None,
        names: OwnNames = AS_WRITTEN,
    ) -> None:
        self._addresses = addresses
        self._names = names
        self._connect = connect or partial(BrokerConnection, reports_versions=reports_versions)
        self._is_running = is_running
        self._clock = clock

    @asynccontextmanager
    async def _connected(self, node: NodeId) -> AsyncIterator[BrokerConnection]:
        if node not in self._addresses:
            raise HarnessError(f"there is no broker {node} to be asked; brokers: {sorted(self._addresses)}")
        connection = self._connect(*self._addresses[node])
        try:
            yield connection
        finally:
            connection.close()

    async def _ask(self, node: NodeId, request: Any, version: int, *, timeout_s: float = _ASK_S) -> Any:
        async with self._connected(node) as connection:
            return await connection.ask(request, version, timeout_s=timeout_s + connection.opening_s)

    async def registered(self) -> Sequence[int]:
        async def registered_by(node: NodeId) -> tuple[int, ...]:
            request = MetadataRequest(topics=[], allow_auto_topic_creation=False)
            answer = await self._ask(node, request, 9, timeout_s=_LOOK_S)
            return tuple(sorted(broker.node_id for broker in answer.brokers))

        running = [node for node in self._addresses if self._is_running(node)]
        answers = await asyncio.gather(*(registered_by(node) for node in running), return_exceptions=True)
        counted = Counter(answer for answer in answers if isinstance(answer, tuple))
        return counted.most_common(1)[0][0] if counted else ()

    async def config_defaults(self, node: NodeId, keys: Sequence[str]) -> Mapping[str, str | None]:
        """Kafka's default values of broker keys, whatever is configured; None for a key that is unknown or has no
        default."""
        kinds = DescribeConfigsRequest
        resource = kinds.DescribeConfigsResource(
            resource_type=_BROKER_RESOURCE, resource_name=str(node), configuration_keys=list(keys)
        )
        request = kinds(resources=[resource], include_synonyms=True, include_documentation=False)
        answer = await self._ask(node, request, 4)
        found: dict[str, str | None] = dict.fromkeys(keys)
        for config in answer.results[0].configs:
            for synonym in config.synonyms or ():
                if synonym.source == _DEFAULT_CONFIG:
                    found[config.name] = synonym.value
        return found

    async def configure_broker(self, node: NodeId, settings: Mapping[str, str]) -> int:
        kinds = IncrementalAlterConfigsRequest
        resource_kind = kinds.AlterConfigsResource
        configs = [
            resource_kind.AlterableConfig(name=key, config_operation=_SET, value=value)
            for key, value in settings.items()
        ]
        resource = resource_kind(resource_type=_BROKER_RESOURCE, resource_name=str(node), configs=configs)
        answer = await self._ask(node, kinds(resources=[resource], validate_only=False), 1)
        return int(answer.responses[0].error_code)

    async def create_topic(self, topic: TopicDefinition) -> int:
        """Returns the first answer other than NOT_CONTROLLER."""
        code = _NOT_CONTROLLER
        for node in self._addresses:
            if code == _NOT_CONTROLLER and self._is_running(node):
                renamed = replace(topic, name=self._names.there(topic.name))
                answer = await self._ask(node, creation(renamed), CREATION_VERSION)
                code = int(answer.topics[0].error_code)
        return code

    async def fetch(self, node: NodeId, partition: TopicPartition, offset: int, *, epoch: int, version: int) -> Fetched:
        kinds = FetchRequest
        wanted = kinds.FetchTopic.FetchPartition(
            partition=partition.partition,
            current_leader_epoch=epoch,
            fetch_offset=offset,
            partition_max_bytes=_BATCH_BYTES,
        )
        topics = [kinds.FetchTopic(topic=self._names.there(partition.topic), partitions=[wanted])]
        request = kinds(replica_id=-1, max_wait_ms=0, min_bytes=1, topics=topics)
        answer = await self._ask(node, request, version)
        if answer.error_code or not answer.responses:
            return Fetched(error=int(answer.error_code), values=())
        answered = answer.responses[0].partitions[0]
        records = records_of(bytes(answered.records or b""))
        # A broker returns whole batches: the first may begin before the requested offset.
        values = [record.value.decode("utf-8", "backslashreplace") for record in records if record.offset >= offset]
        return Fetched(error=int(answered.error_code), values=tuple(values))

    async def epoch_end(self, node: NodeId, partition: TopicPartition, epoch: int) -> tuple[int, int]:
        """Returns (error, the offset at which the epoch ends)."""
        kinds = OffsetForLeaderEpochRequest
        topic_kind = kinds.OffsetForLeaderTopic
        wanted = topic_kind.OffsetForLeaderPartition(
            partition=partition.partition, current_leader_epoch=-1, leader_epoch=epoch
        )
        there = self._names.there(partition.topic)
        request = kinds(replica_id=-1, topics=[topic_kind(topic=there, partitions=[wanted])])
        answer = await self._ask(node, request, 3)
        answered = answer.topics[0].partitions[0]
        return int(answered.error_code), int(answered.end_offset)

    async def produce(self, node: NodeId, records: Sequence[Send], *, acks: str, timeout_s: float) -> tuple[int, int]:
        ((topic, partition),) = {(record.topic, record.partition) for record in records}
        builder = MemoryRecordsBuilder(_MAGIC, 0, _BATCH_BYTES)
        for record in records:
            builder.append(timestamp=self._clock.wall_ns() // 1_000_000, key=record.key, value=record.value)
        builder.close()
        kinds = ProduceRequest
        data = kinds.TopicProduceData.PartitionProduceData(index=partition, records=bytes(builder.buffer()))
        request = kinds(
            transactional_id=None,
            acks=_ACKS[acks],
            timeout_ms=int(1000 * timeout_s),
            topic_data=[kinds.TopicProduceData(name=self._names.there(topic), partition_data=[data])],
        )
        # The test is about the broker's own timeout, so it must expire before ours.
        patience_s = _ASK_S if acks != "0" else timeout_s
        answer = await self._ask(node, request, 7, timeout_s=patience_s + (timeout_s if acks != "0" else 0))
        answered = answer.responses[0].partition_responses[0]
        return int(answered.error_code), int(answered.base_offset)
