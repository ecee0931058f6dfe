"""This broker's view of the cluster, updated by the controller's UpdateMetadata only; it may be stale, as in Kafka.

Each client gets the addresses of the listener it connected to: every client link has a listener name of its own.
"""

import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from reference_impl.core.identifiers import INTERNAL_TOPICS, NO_LEADER, ErrorCode, TopicPartition, is_topic_name
from reference_impl.core.state import LiveBroker, PartitionState
from reference_impl.runtime.server import Caller
from reference_impl.wire.api_keys import ApiKey
from reference_impl.wire.messages import Request, response_class

NO_TOPIC_ID = uuid.UUID(int=0)

MetadataResponse = response_class(ApiKey.METADATA)
DescribeClusterResponse = response_class(ApiKey.DESCRIBE_CLUSTER)


def partition_state(message: Any) -> PartitionState:
    """A partition's state in the format of LeaderAndIsr and UpdateMetadata."""
    return PartitionState(
        topic_partition=TopicPartition(message.topic, message.partition),
        replicas=tuple(message.replicas),
        leader=message.leader,
        isr=tuple(message.isr),
        leader_epoch=message.leader_epoch,
        partition_epoch=message.partition_epoch,
        controller_epoch=message.controller_epoch,
    )


class MetadataCache:
    def __init__(self) -> None:
        self.updates = 0  # how many were taken
        self.controller_id = -1
        self.cluster_id: str | None = None
        self.brokers: dict[int, LiveBroker] = {}
        self.topic_ids: dict[str, uuid.UUID] = {}
        self.topic_configs: dict[str, dict[str, str]] = {}
        self._states: dict[str, dict[int, PartitionState]] = {}

    def update(self, message: Any) -> None:
        """Takes one UpdateMetadata whose controller epoch was checked already."""
        self.updates += 1
        self.controller_id = message.controller_id
        self.brokers = {broker.broker_id: _live_broker(broker) for broker in message.live_brokers}
        if message.is_full:
            self._states.clear()
            self.topic_ids.clear()
            self.topic_configs.clear()
        for topic in message.deleted_topics:
            for forgotten in (self._states, self.topic_ids, self.topic_configs):
                forgotten.pop(topic, None)
        for topic in message.topics:
            self.topic_ids[topic.topic] = topic.topic_id
            self.topic_configs[topic.topic] = {config.name: config.value for config in topic.configs}
        for state in map(partition_state, message.partition_states):
            self._states.setdefault(state.topic_partition.topic, {})[state.topic_partition.partition] = state

    def state(self, topic_partition: TopicPartition) -> PartitionState | None:
        return self._states.get(topic_partition.topic, {}).get(topic_partition.partition)

    def topics(self) -> Iterable[str]:
        return self._states.keys()

    def partitions(self, topic: str) -> Mapping[int, PartitionState]:
        return self._states.get(topic, {})

    def topic_name(self, topic_id: uuid.UUID) -> str | None:
        return next((name for name, known in self.topic_ids.items() if known == topic_id), None)

    def address(self, broker_id: int, listener: str) -> tuple[str, int] | None:
        broker = self.brokers.get(broker_id)
        return None if broker is None else broker.address(listener)

    def eligible_replicas(self) -> dict[int, int]:
        """Broker epochs of the brokers that may join an ISR: alive and not shutting down (KAFKA-15021, KIP-903)."""
        return {broker.broker_id: broker.broker_epoch for broker in self.brokers.values() if not broker.shutting_down}


def _live_broker(message: Any) -> LiveBroker:
    listeners = tuple((endpoint.listener, endpoint.host, endpoint.port) for endpoint in message.endpoints)
    return LiveBroker(
        broker_id=message.broker_id,
        broker_epoch=message.broker_epoch,
        listeners=listeners,
        directory_ids=(),
        shutting_down=message.shutting_down,
    )


class MetadataHandler:
    def __init__(self, cache: MetadataCache) -> None:
        self._cache = cache

    def answer(self, request: Request, caller: Caller) -> Any:
        version, body = request.api_version, request.body
        wanted = body.topics
        if wanted is None or (version == 0 and not wanted):
            topics = [self._topic(name, caller) for name in sorted(self._cache.topics())]
        else:
            topics = [self._wanted_topic(topic, caller) for topic in wanted]
        return MetadataResponse(
            throttle_time_ms=0,
            brokers=[
                MetadataResponse.MetadataResponseBroker(node_id=node_id, host=host, port=port, rack=None)
                for node_id, host, port in self._brokers(caller)
            ],
            cluster_id=self._cache.cluster_id,
            controller_id=self._controller_id(caller),
            topics=topics,
        )

    def describe_cluster(self, request: Request, caller: Caller) -> Any:
        return DescribeClusterResponse(
            throttle_time_ms=0,
            error_code=0,
            error_message=None,
            endpoint_type=1,
            cluster_id=self._cache.cluster_id or "",
            controller_id=self._controller_id(caller),
            brokers=[
                DescribeClusterResponse.DescribeClusterBroker(broker_id=node_id, host=host, port=port, rack=None)
                for node_id, host, port in self._brokers(caller)
            ],
        )

    def _brokers(self, caller: Caller) -> list[tuple[int, str, int]]:
        found = []
        for broker_id in sorted(self._cache.brokers):
            address = self._cache.address(broker_id, caller.listener)
            if address is not None:
                found.append((broker_id, *address))
        return found

    def _controller_id(self, caller: Caller) -> int:
        controller_id = self._cache.controller_id
        return controller_id if self._cache.address(controller_id, caller.listener) is not None else -1

    def _wanted_topic(self, wanted: Any, caller: Caller) -> Any:
        # v12; the Java client then sends the name ""
        if wanted.topic_id is not None and wanted.topic_id != NO_TOPIC_ID:
            name = self._cache.topic_name(wanted.topic_id)
            if name is None:
                return _topic_error(None, wanted.topic_id, ErrorCode.UNKNOWN_TOPIC_ID)
            return self._topic(name, caller)
        if not self._cache.partitions(wanted.name):
            legal = wanted.name is None or is_topic_name(wanted.name)
            error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if legal else ErrorCode.INVALID_TOPIC_EXCEPTION
            return _topic_error(wanted.name, NO_TOPIC_ID, error)
        return self._topic(wanted.name, caller)

    def _topic(self, name: str, caller: Caller) -> Any:
        states = self._cache.partitions(name)
        return MetadataResponse.MetadataResponseTopic(
            error_code=0,
            name=name,
            topic_id=self._cache.topic_ids.get(name, NO_TOPIC_ID),
            is_internal=name in INTERNAL_TOPICS,
            partitions=[self._partition(states[index], caller) for index in sorted(states)],
        )

    def _partition(self, state: PartitionState, caller: Caller) -> Any:
        reachable = self._cache.address(state.leader, caller.listener) is not None
        return MetadataResponse.MetadataResponseTopic.MetadataResponsePartition(
            error_code=ErrorCode.NONE if reachable else ErrorCode.LEADER_NOT_AVAILABLE,
            partition_index=state.topic_partition.partition,
            leader_id=state.leader if reachable else NO_LEADER,
            leader_epoch=state.leader_epoch,
            replica_nodes=list(state.replicas),
            isr_nodes=list(state.isr),
            offline_replicas=[replica for replica in state.replicas if replica not in self._cache.brokers],
        )


def _topic_error(name: str | None, topic_id: uuid.UUID, error: ErrorCode) -> Any:
    return MetadataResponse.MetadataResponseTopic(
        error_code=error,
        name=name,
        topic_id=topic_id,
        is_internal=False,
        partitions=[],
    )
