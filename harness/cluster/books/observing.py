"""Polls each broker's current view, and sends administration requests to the active controller, with Kafka requests.

Metadata of brokers before Kafka 0.10 contains no controller and only live replicas. Both are in znodes, and ZooKeeper's
transaction log shows them as soon as they are written; leaders and in-sync replicas are still each broker's own view.

In KRaft mode Metadata names an arbitrary live broker as controller (KIP-595), so the controllers are asked for the
quorum's leader. Only one that believes itself the leader answers; of two, the one with the later epoch is right. Any
broker accepts administration requests and forwards them.
"""

import asyncio
import dataclasses
import json
import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

from kafka.protocol.admin import (
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DescribeQuorumRequest,
    DescribeTopicPartitionsRequest,
    ElectLeadersRequest,
    IncrementalAlterConfigsRequest,
)
from kafka.protocol.metadata import MetadataRequest

from harness.cluster.books.zookeeper_log import ChangeFollower, ZnodeChange, understanding
from harness.cluster.broker_requests import BrokerConnection, Connect
from harness.errors import HarnessError
from harness.host.clock import Clock
from harness.ports.cluster import NodeId, PartitionState, TopicDefinition
from harness.scenario.topic_names import METADATA_TOPIC

_METADATA_VERSION = 9
LOOK_S = 0.5
_ADMINISTRATION_S = 20.0
# No leader yet, timed out, broker not available, not the controller, over a quota of changes (KIP-599).
_RETRIED = (5, 7, 8, 41, 89)
ALREADY_EXISTS, _UNKNOWN_TOPIC = 36, 3
_UNKNOWN_SERVER_ERROR = -1
_DELETION_VERSION = 1
_TOPIC_RESOURCE, _SET = 2, 0
CREATION_VERSION = 7  # from this one on, the answer has the topic's id


class Observation:
    """Connections to every broker's admin listener. `is_running` avoids a timeout for each stopped broker. `connect`:
    None for a cluster of ours, whose listeners ask for nothing."""

    # Error 5 means no leader, which is a valid state; other errors mean that the broker does not know the partition.
    known_by_codes: tuple[int, ...] = (0, 5)
    reports_versions = True  # the brokers do; see BrokerConnection

    def __init__(
        self,
        addresses: Mapping[NodeId, tuple[str, int]],
        *,
        is_running: Callable[[NodeId], bool],
        clock: Clock,
        connect: Connect | None = None,
    ) -> None:
        self.addresses = dict(addresses)
        self._connect = connect or partial(BrokerConnection, reports_versions=self.reports_versions)
        self._brokers = {node: self._connect(*address) for node, address in addresses.items()}
        self._is_running = is_running
        self._clock = clock
        self._controllers: dict[NodeId, int] = {}
        self.answered: set[NodeId] = set()  # in the last round

    def close(self) -> None:
        for connection in self._brokers.values():
            connection.close()

    async def metadata(self, node: NodeId, topics: Sequence[str]) -> Any:
        """Returns one broker's answer. Raises OSError or TimeoutError."""
        wanted = [MetadataRequest.MetadataRequestTopic(name=topic) for topic in topics]
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
        return await self._brokers[node].ask(request, _METADATA_VERSION, timeout_s=LOOK_S)

    async def _round(self, node: NodeId, topics: Sequence[str]) -> list[PartitionState]:
        """Returns one broker's view of the partitions and of the controller."""
        answer = await self.metadata(node, topics)
        self._controllers[node] = answer.controller_id
        return self._states(node, answer)

    async def look(self, topics: Sequence[str]) -> list[PartitionState]:
        """Polls all running brokers once; brokers that do not answer are missing in the result."""
        running = [node for node in self._brokers if self._is_running(node)]
        answers = await asyncio.gather(*(self._round(node, topics) for node in running), return_exceptions=True)
        states: list[PartitionState] = []
        self.answered = set(running)
        for node, answer in zip(running, answers, strict=True):
            if isinstance(answer, OSError | TimeoutError):
                self._controllers.pop(node, None)
                self.answered.discard(node)
            elif isinstance(answer, BaseException):
                raise answer
            else:
                states.extend(answer)
        for silent in set(self._brokers) - set(running):
            self._controllers.pop(silent, None)
        return states

    def _states(self, node: NodeId, answer: Any) -> list[PartitionState]:
        now = self._clock.monotonic_ns()
        return [
            PartitionState(
                topic=topic.name,
                partition=partition.partition_index,
                t_ns=now,
                uncertainty_ns=int(LOOK_S * 1e9),
                exact=False,
                observer=int(node),
                leader=partition.leader_id,
                leader_epoch=partition.leader_epoch,
                partition_epoch=None,
                controller_epoch=None,
                isr=tuple(partition.isr_nodes),
                replicas=tuple(partition.replica_nodes),
                elr=_eligible(partition),
            )
            for topic in answer.topics
            for partition in topic.partitions
            if partition.error_code in self.known_by_codes and partition.replica_nodes
        ]

    def controller(self) -> int:
        """The controller named by most brokers of the last round; one that only names itself may be deposed."""
        votes = Counter(controller for controller in self._controllers.values() if controller >= 0)
        return votes.most_common(1)[0][0] if votes else -1

    # -- administration -----------------------------------------------------------------------------------------------

    def _administrators(self) -> Sequence[NodeId]:
        """The brokers that accept administration requests: the controller alone."""
        controller = NodeId(self.controller())
        return [controller] if controller in self._brokers else []

    async def _administer(self, make: Callable[[], Any], version: int, code_of: Callable[[Any], int]) -> int:
        """Returns Kafka's error code."""
        return (await self._administered(make, version, code_of))[0]

    async def _administered(
        self, make: Callable[[], Any], version: int, code_of: Callable[[Any], int]
    ) -> tuple[int, Any]:
        """Returns Kafka's error code and the whole answer. Tries for a while, each time on the current controller,
        because it may be moving."""
        deadline = asyncio.get_running_loop().time() + _ADMINISTRATION_S
        last = "no controller is known"
        while asyncio.get_running_loop().time() < deadline:
            await self.look([])
            for broker in self._administrators():
                try:
                    answer = await self._brokers[broker].ask(make(), version, timeout_s=10.0)
                    code = code_of(answer)
                    if code not in _RETRIED:
                        return code, answer
                    last = f"broker {broker} answered with error {code}"
                except (OSError, TimeoutError) as error:
                    last = f"broker {broker}: {type(error).__name__} {error}"
            await asyncio.sleep(0.1)
        raise HarnessError(f"administration was not answered in {_ADMINISTRATION_S:g} s; last: {last}")

    async def request_creation(self, topic: TopicDefinition) -> tuple[int, uuid.UUID | None]:
        """Returns Kafka's error code, and the topic's id where there are ids (KIP-516) and the code is 0.

        A request may be repeated, by this side or between brokers, so ALREADY_EXISTS may be the answer to the only
        creation there was.
        """

        def created(answer: Any) -> Any:
            return next((each for each in answer.topics if each.name == topic.name), None)

        def code_of(answer: Any) -> int:
            found = created(answer)
            return _UNKNOWN_SERVER_ERROR if found is None else int(found.error_code)

        code, answer = await self._administered(lambda: creation(topic), CREATION_VERSION, code_of)
        return code, known_id(created(answer)) if code == 0 else None

    async def create_topics(self, topics: Sequence[TopicDefinition]) -> None:
        """For a cluster whose topics are all this run's: one that exists is a repeated request's. Raises HarnessError
        with Kafka's error code."""
        for topic in topics:
            code, _ = await self.request_creation(topic)
            if code not in (0, ALREADY_EXISTS):
                raise HarnessError(f"topic {topic.name!r} was refused with Kafka's error {code}; see [[topics]]")

    async def delete_topic(self, topic: str) -> None:
        code = await self._administer(
            lambda: DeleteTopicsRequest(topic_names=[topic], timeout_ms=9000),
            _DELETION_VERSION,
            lambda answer: int(answer.responses[0].error_code),
        )
        if code not in (0, _UNKNOWN_TOPIC):  # the first answer may have been lost
            raise HarnessError(f"the deletion of topic {topic!r} was refused with Kafka's error {code}")

    async def set_topic_config(self, topic: str, settings: Mapping[str, str]) -> None:
        code = await self._administer(
            lambda: _alteration(topic, settings), 1, lambda answer: int(answer.responses[0].error_code)
        )
        if code:
            raise HarnessError(f"topic {topic!r}: {dict(settings)} was refused with Kafka's error {code}")

    async def elect(self, topic: str, partition: int, *, kind: Literal["preferred", "unclean"]) -> int:
        return await self._administer(lambda: _election(topic, partition, kind), 2, _election_code)


def _eligible(partition: Any) -> tuple[int, ...] | None:
    """KIP-966: only DescribeTopicPartitions contains them."""
    replicas = getattr(partition, "eligible_leader_replicas", None)
    return None if replicas is None else tuple(replicas)


def known_id(topic: Any) -> uuid.UUID | None:
    """The topic id in an answer; None before the version that has it, and where the cluster has none (all zeros)."""
    topic_id = getattr(topic, "topic_id", None)
    return topic_id if isinstance(topic_id, uuid.UUID) and topic_id.int else None


def creation(topic: TopicDefinition) -> Any:
    kinds = CreateTopicsRequest
    assignments = [
        kinds.CreatableTopic.CreatableReplicaAssignment(partition_index=number, broker_ids=list(replicas))
        for number, replicas in enumerate(topic.assignment or ())
    ]
    configs = [
        kinds.CreatableTopic.CreatableTopicConfig(name=key, value=value) for key, value in topic.settings.items()
    ]
    return kinds(
        topics=[
            kinds.CreatableTopic(
                name=topic.name,
                num_partitions=-1 if assignments else topic.partitions or 1,
                replication_factor=-1 if assignments else topic.replication_factor or -1,
                assignments=assignments,
                configs=configs,
            )
        ],
        timeout_ms=9000,
        validate_only=False,
    )


def _alteration(topic: str, settings: Mapping[str, str]) -> Any:
    kinds = IncrementalAlterConfigsRequest
    configs = [
        kinds.AlterConfigsResource.AlterableConfig(name=key, config_operation=_SET, value=value)
        for key, value in settings.items()
    ]
    resource = kinds.AlterConfigsResource(resource_type=_TOPIC_RESOURCE, resource_name=topic, configs=configs)
    return kinds(resources=[resource], validate_only=False)


def _election(topic: str, partition: int, kind: Literal["preferred", "unclean"]) -> Any:
    kinds = ElectLeadersRequest
    wanted = kinds.TopicPartitions(topic=topic, partitions=[partition])
    return kinds(election_type=1 if kind == "unclean" else 0, topic_partitions=[wanted], timeout_ms=9000)


def _election_code(answer: Any) -> int:
    if answer.error_code:
        return int(answer.error_code)
    for result in answer.replica_election_results:
        for partition in result.partition_result:
            return int(partition.error_code)
    return 0


_CONTROLLER, _TOPICS = "/controller", "/brokers/topics/"


class ZookeeperObservation(Observation):
    """`transactions`: the folder of ZooKeeper's transaction log, "version-2" of its dataDir."""

    # 9, REPLICA_NOT_AVAILABLE: version 0 returns it for a partition with a dead replica, together with a valid leader.
    known_by_codes = (*Observation.known_by_codes, 9)
    reports_versions = False

    def __init__(
        self,
        addresses: Mapping[NodeId, tuple[str, int]],
        *,
        transactions: Path,
        is_running: Callable[[NodeId], bool],
        clock: Clock,
    ) -> None:
        super().__init__(addresses, is_running=is_running, clock=clock)
        self._follower = ChangeFollower(transactions)
        self._elected = -1
        self._assigned: dict[tuple[str, int], tuple[int, ...]] = {}

    async def look(self, topics: Sequence[str]) -> list[PartitionState]:
        for change in self._follower.read_on():
            with understanding(change):
                self._take(change)
        return await super().look(topics)

    def controller(self) -> int:
        return self._elected

    def _take(self, change: ZnodeChange) -> None:
        topic = change.path.removeprefix(_TOPICS)
        if change.path == _CONTROLLER:
            self._elected = -1 if change.data is None else int(json.loads(change.data)["brokerid"])
        elif topic != change.path and "/" not in topic and change.data:
            for partition, replicas in json.loads(change.data)["partitions"].items():
                self._assigned[topic, int(partition)] = tuple(replicas)

    def _states(self, node: NodeId, answer: Any) -> list[PartitionState]:
        return [
            dataclasses.replace(state, replicas=self._assigned.get((state.topic, state.partition), state.replicas))
            for state in super()._states(node, answer)
        ]


_PARTITIONS_AT_ONCE = 2000


class QuorumObservation(Observation):
    """`controllers`: the quorum's voters with their own addresses."""

    def __init__(
        self,
        addresses: Mapping[NodeId, tuple[str, int]],
        *,
        controllers: Mapping[NodeId, tuple[str, int]],
        is_running: Callable[[NodeId], bool],
        clock: Clock,
        connect: Connect | None = None,
    ) -> None:
        super().__init__(addresses, is_running=is_running, clock=clock, connect=connect)
        self._quorum = {node: self._connect(*address) for node, address in controllers.items()}

    def close(self) -> None:
        super().close()
        for connection in self._quorum.values():
            connection.close()

    async def look(self, topics: Sequence[str]) -> list[PartitionState]:
        states, _ = await asyncio.gather(super().look(topics), self._ask_quorum())
        return states

    async def _ask_quorum(self) -> None:
        running = [node for node in self._quorum if self._is_running(node)]
        answers = await asyncio.gather(*(self._claim(node) for node in running), return_exceptions=True)
        claims = []
        for answer in answers:
            if isinstance(answer, tuple):
                claims.append(answer)
            elif isinstance(answer, BaseException) and not isinstance(answer, OSError | TimeoutError):
                raise answer
        self._controllers = {NodeId(leader): leader for _, leader in [max(claims)]} if claims else {}

    async def _claim(self, node: NodeId) -> tuple[int, int] | None:
        """Returns (epoch, id) of the leader if this controller believes itself the leader, else None."""
        answer = await self._quorum[node].ask(whose_quorum(), 1, timeout_s=LOOK_S)
        partitions = [partition for topic in answer.topics for partition in topic.partitions]
        if (
            not partitions or partitions[0].error_code
        ):  # other controllers answer that they are not the leader, with leader id 0
            return None
        return int(partitions[0].leader_epoch), int(partitions[0].leader_id)

    async def _round(self, node: NodeId, topics: Sequence[str]) -> list[PartitionState]:
        if not await self._brokers[node].knows(DescribeTopicPartitionsRequest.API_KEY, timeout_s=LOOK_S):
            return self._states(node, await self.metadata(node, topics))
        wanted = [DescribeTopicPartitionsRequest.TopicRequest(name=topic) for topic in topics]
        if not wanted:
            return []
        request = DescribeTopicPartitionsRequest(
            topics=wanted, response_partition_limit=_PARTITIONS_AT_ONCE, cursor=None
        )
        answer = await self._brokers[node].ask(request, 0, timeout_s=LOOK_S)
        return self._states(node, answer)

    def _administrators(self) -> Sequence[NodeId]:
        return [node for node in self._brokers if self._is_running(node)]


def whose_quorum() -> DescribeQuorumRequest:
    kinds = DescribeQuorumRequest
    partition = kinds.TopicData.PartitionData(partition_index=0)
    return kinds(topics=[kinds.TopicData(topic_name=METADATA_TOPIC, partitions=[partition])])
