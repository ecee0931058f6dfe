"""Somebody else's cluster in memory: its controller knows what is there, and each broker knows it or lags behind."""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.protocol.admin import (
    CreateTopicsRequest,
    DeleteGroupsRequest,
    DeleteTopicsRequest,
    DescribeConfigsRequest,
    ElectLeadersRequest,
    IncrementalAlterConfigsRequest,
    ListGroupsRequest,
    ListTransactionsRequest,
)
from kafka.protocol.metadata import MetadataRequest

from harness.cluster import broker_requests
from harness.ports.cluster import NodeId

ALREADY_EXISTS, UNKNOWN_TOPIC, INVALID_CONFIG, UNKNOWN_TOPIC_ID = 36, 3, 40, 100
TOPIC_AUTHORIZATION_FAILED = 29
NOT_COORDINATOR, NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND = 16, 68, 69
BROKERS = (1, 2, 3)


@dataclass(frozen=True)
class Topic:
    topic_id: uuid.UUID
    settings: Mapping[str, str] = field(default_factory=dict)
    replicas: tuple[int, ...] = BROKERS
    isr: tuple[int, ...] = BROKERS


@dataclass
class LaggingCluster:
    """`versions`: the highest version of an API where it is not the newest; -1: the API is missing."""

    versions: dict[int, int] = field(default_factory=dict)
    topics: dict[str, Topic] = field(default_factory=dict)
    lagging: dict[int, dict[str, Topic]] = field(default_factory=dict)  # what a broker that lags still knows
    lost_answers: int = 0  # of creations, which are carried out all the same
    refuses: frozenset[str] = frozenset()  # settings that no topic may have
    unauthorized: frozenset[str] = frozenset()  # operations
    forgets: frozenset[str] = frozenset()  # settings that are taken and not kept
    altered: list[str] = field(default_factory=list)
    elected: list[str] = field(default_factory=list)
    deleted: list[uuid.UUID] = field(default_factory=list)
    down: set[int] = field(default_factory=set)
    groups: dict[str, int] = field(default_factory=dict)  # their coordinators
    busy_groups: dict[str, int] = field(default_factory=dict)  # how often their deletion is still refused
    transactional_ids: set[str] = field(default_factory=set)

    def plug_in(self, monkeypatch: pytest.MonkeyPatch) -> Mapping[NodeId, tuple[str, int]]:
        """Returns the addresses of its brokers."""

        class Connection(_Connection):
            cluster = self

        monkeypatch.setattr(broker_requests, "BrokerConnection", Connection)
        return {NodeId(broker): ("somebody", broker) for broker in BROKERS}

    def highest(self, api_key: int) -> int:
        return self.versions.get(api_key, 99)

    def put(self, name: str, *, replicas: tuple[int, ...] = BROKERS, isr: tuple[int, ...] = BROKERS) -> uuid.UUID:
        """Somebody else's topic, which takes the place of one of that name."""
        self.topics[name] = Topic(uuid.uuid4(), replicas=replicas, isr=isr)
        return self.topics[name].topic_id

    # -- answers ------------------------------------------------------------------------------------------------------

    def answer(self, broker: int, request: Any, version: int) -> Any:
        if broker in self.down:
            raise ConnectionRefusedError("down")
        by_kind = {
            MetadataRequest: self._metadata,
            CreateTopicsRequest: self._create,
            DeleteTopicsRequest: self._delete,
            DescribeConfigsRequest: self._describe,
            IncrementalAlterConfigsRequest: self._alter,
            ElectLeadersRequest: self._elect,
            ListGroupsRequest: self._list_groups,
            ListTransactionsRequest: self._list_transactions,
            DeleteGroupsRequest: self._delete_group,
        }
        return by_kind[type(request)](broker, request, min(version, self.highest(request.API_KEY)))

    def _known(self, broker: int) -> Mapping[str, Topic]:
        return self.lagging.get(broker, self.topics)

    def _metadata(self, broker: int, request: Any, version: int) -> Any:
        known = self._known(broker)
        names = known if request.topics is None else [each.name for each in request.topics]
        topics = [self._described(name, known.get(name), version) for name in names]
        brokers = [SimpleNamespace(node_id=each, host="somebody", port=each) for each in BROKERS]
        return SimpleNamespace(topics=topics, brokers=brokers, controller_id=BROKERS[0])

    @staticmethod
    def _described(name: str, topic: Topic | None, version: int) -> Any:
        if topic is None:
            return SimpleNamespace(name=name, error_code=UNKNOWN_TOPIC, partitions=[], is_internal=False)
        partition = SimpleNamespace(
            error_code=0,
            partition_index=0,
            leader_id=topic.replicas[0],
            leader_epoch=0,
            isr_nodes=list(topic.isr),
            replica_nodes=list(topic.replicas),
        )
        topic_id = topic.topic_id if version >= 10 else None
        internal = name.startswith("__")
        return SimpleNamespace(name=name, error_code=0, topic_id=topic_id, is_internal=internal, partitions=[partition])

    def _create(self, broker: int, request: Any, version: int) -> Any:
        (wanted,) = request.topics
        settings = {each.name: each.value for each in wanted.configs}
        code, topic_id = 0, None
        if wanted.name in self.topics:
            code = ALREADY_EXISTS
        elif "Create" in self.unauthorized:
            code = TOPIC_AUTHORIZATION_FAILED
        elif self.refuses & set(settings):
            code = INVALID_CONFIG
        else:
            kept = {key: value for key, value in settings.items() if key not in self.forgets}
            made = self.topics[wanted.name] = Topic(uuid.uuid4(), kept)
            topic_id = made.topic_id if version >= 7 else None
        if self.lost_answers:
            self.lost_answers -= 1
            raise ConnectionResetError("the answer was lost")
        return SimpleNamespace(topics=[SimpleNamespace(name=wanted.name, error_code=code, topic_id=topic_id)])

    def _delete(self, broker: int, request: Any, version: int) -> Any:
        if "Delete" in self.unauthorized:
            return SimpleNamespace(responses=[SimpleNamespace(name=None, error_code=TOPIC_AUTHORIZATION_FAILED)])
        if version >= 6:
            (wanted,) = request.topics
            names = [name for name, topic in self.topics.items() if topic.topic_id == wanted.topic_id]
            name, code = next(iter(names), None), 0 if names else UNKNOWN_TOPIC_ID
        else:
            (name,) = request.topic_names
            names = [name] if name in self.topics else []
            code = 0 if names else UNKNOWN_TOPIC
        self.deleted += [self.topics.pop(name).topic_id for name in names]
        return SimpleNamespace(responses=[SimpleNamespace(name=name, error_code=code)])

    def _describe(self, broker: int, request: Any, version: int) -> Any:
        (resource,) = request.resources
        topic = self._known(broker).get(resource.resource_name)
        configs = [
            SimpleNamespace(name=key, value=value)
            for key, value in (topic.settings if topic else {}).items()
            if key in resource.configuration_keys
        ]
        return SimpleNamespace(results=[SimpleNamespace(configs=configs)])

    def _alter(self, broker: int, request: Any, version: int) -> Any:
        (resource,) = request.resources
        topic = self.topics[resource.resource_name]
        changed = {each.name: each.value for each in resource.configs}
        self.topics[resource.resource_name] = replace(topic, settings={**topic.settings, **changed})
        self.altered.append(resource.resource_name)
        return SimpleNamespace(responses=[SimpleNamespace(error_code=0)])

    def _list_groups(self, broker: int, request: Any, version: int) -> Any:
        own = [SimpleNamespace(group_id=name) for name, at in self.groups.items() if at == broker]
        return SimpleNamespace(error_code=0, groups=own)

    def _list_transactions(self, broker: int, request: Any, version: int) -> Any:
        known = [SimpleNamespace(transactional_id=name) for name in self.transactional_ids if broker == BROKERS[0]]
        return SimpleNamespace(error_code=0, transaction_states=known)

    def _delete_group(self, broker: int, request: Any, version: int) -> Any:
        (name,) = request.groups_names
        if self.groups.get(name, BROKERS[0]) != broker:
            code = NOT_COORDINATOR
        elif name not in self.groups:
            code = GROUP_ID_NOT_FOUND
        elif self.busy_groups.get(name):
            self.busy_groups[name] -= 1
            code = NON_EMPTY_GROUP
        else:
            del self.groups[name]
            code = 0
        return SimpleNamespace(results=[SimpleNamespace(group_id=name, error_code=code)])

    def _elect(self, broker: int, request: Any, version: int) -> Any:
        self.elected += [each.topic for each in request.topic_partitions]
        return SimpleNamespace(error_code=0, replica_election_results=[])


class _Connection:
    cluster: LaggingCluster
    opening_s = 0.0

    def __init__(self, host: str, port: int, *, security: object) -> None:
        self._broker = port

    async def ask(self, request: Any, version: int, *, timeout_s: float) -> Any:
        return self.cluster.answer(self._broker, request, version)

    async def highest_version(self, api_key: int, *, timeout_s: float) -> int | None:
        highest = self.cluster.highest(api_key)
        return None if highest < 0 else highest

    async def knows(self, api_key: int, *, timeout_s: float) -> bool:
        return await self.highest_version(api_key, timeout_s=timeout_s) is not None

    def close(self) -> None:
        return
