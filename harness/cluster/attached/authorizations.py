"""What this user may not do on a cluster, asked before a run by requests that change nothing whatever is answered.

Brokers look at the authorization first. So each request is one that could do nothing: about a topic that is not there,
a member that nobody is, a producer that nobody has, or only to be validated. Only the four codes of a missing
authorization count; of all else the run itself will tell.
"""

import uuid
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from kafka.protocol.admin import (
    DescribeConfigsRequest,
    DescribeQuorumRequest,
    ElectLeadersRequest,
    IncrementalAlterConfigsRequest,
)
from kafka.protocol.consumer import FetchRequest, HeartbeatRequest, OffsetFetchRequest
from kafka.protocol.metadata import MetadataRequest
from kafka.protocol.producer import EndTxnRequest, InitProducerIdRequest, ProduceRequest

from harness.cluster.books.observing import creation, whose_quorum
from harness.cluster.broker_requests import BrokerConnection
from harness.ports.cluster import TopicDefinition

_ASK_S = 5.0
UNAUTHORIZED = frozenset({29, 30, 31, 53})  # for a topic, a group, the cluster, a transactional id
_UNKNOWN_TOPIC = 3
_TOPIC, _BROKER = 2, 4
_NOBODY = -1
_BY_NAME, _FETCH_BY_NAME = 12, 12  # the last versions of Produce and Fetch that name topics
_OF_ONE_GROUP = 7  # the last version of OffsetFetch that asks for one


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What a run will do."""

    topics: Sequence[TopicDefinition]
    group: str = ""
    looked_up_group: str = ""  # which nobody joins
    transactional_ids: Sequence[str] = ()
    idempotent: bool = False
    elects: bool = False
    configures: bool = False


@dataclass(frozen=True, kw_only=True)
class Lacking:
    """Both in Kafka's words."""

    operation: str
    resource: str

    def __str__(self) -> str:
        return f"{self.operation} on {self.resource}"


def refusal(code: int, lack: Lacking) -> str | None:
    """What a code says of this operation that was tried; None if it is no missing authorization."""
    return f"this user lacks {lack}; have it granted by an ACL" if code in UNAUTHORIZED else None


async def lacking(connection: BrokerConnection, wanted: Wanted) -> list[Lacking]:
    """Raises OSError or TimeoutError if the broker does not answer at all."""
    asking = _Asking(connection)
    await asking.of_cluster(elects=wanted.elects)
    for topic in wanted.topics:
        await asking.of_topic(topic, configures=wanted.configures)
    if wanted.group:
        await asking.of_group(wanted.group, joins=True)
    if wanted.looked_up_group:
        await asking.of_group(wanted.looked_up_group, joins=False)
    for name in wanted.transactional_ids:
        await asking.of_transactions(name)
    if (wanted.idempotent or wanted.transactional_ids) and not asking.lacks("Write"):
        await asking.of_idempotence()
    return list(dict.fromkeys(asking.found))


class _Asking:
    def __init__(self, connection: BrokerConnection) -> None:
        self._connection = connection
        self.found: list[Lacking] = []

    def lacks(self, operation: str) -> bool:
        return any(each.operation == operation for each in self.found)

    async def of_cluster(self, *, elects: bool) -> None:
        async def configuration() -> Iterable[int]:
            brokers = (await self._ask(MetadataRequest(topics=[], allow_auto_topic_creation=False), 9)).brokers
            if not brokers:
                return ()
            answer = await self._ask(_describing(_BROKER, str(brokers[0].node_id)), 4)
            return [each.error_code for each in answer.results]

        async def quorum() -> Iterable[int]:
            return [(await self._ask(whose_quorum(), 1)).error_code]

        async def election() -> Iterable[int]:
            kinds = ElectLeadersRequest
            nobodys = kinds.TopicPartitions(topic=f"kafka-chaos-{uuid.uuid4().hex}", partitions=[0])
            answer = await self._ask(kinds(election_type=0, topic_partitions=[nobodys], timeout_ms=1000), 2)
            of_partitions = [
                part.error_code for each in answer.replica_election_results for part in each.partition_result
            ]
            return [answer.error_code, *of_partitions]

        await self._note("DescribeConfigs", "Cluster", DescribeConfigsRequest, configuration)
        await self._note("Describe", "Cluster", DescribeQuorumRequest, quorum)
        if elects:
            await self._note("Alter", "Cluster", ElectLeadersRequest, election)

    async def of_topic(self, topic: TopicDefinition, *, configures: bool) -> None:
        """Of one that is there nothing is asked but whether it is, for it is somebody's."""
        name = f"Topic {topic.name}"

        async def created() -> Iterable[int]:
            request = creation(topic)
            request.validate_only = True
            return [each.error_code for each in (await self._ask(request, 7)).topics]

        described = list(await self._codes_of_metadata(topic.name))
        if any(code not in (_UNKNOWN_TOPIC, *UNAUTHORIZED) for code in described):
            return
        self._add("Describe", name, described)
        await self._note("Create", name, type(creation(topic)), created)
        await self._note("Write", name, ProduceRequest, lambda: self._codes_of_write(topic.name))
        await self._note("Read", name, FetchRequest, lambda: self._codes_of_read(topic.name))
        await self._note("DescribeConfigs", name, DescribeConfigsRequest, lambda: self._codes_of_settings(topic.name))
        if configures:
            alter = IncrementalAlterConfigsRequest
            await self._note("AlterConfigs", name, alter, lambda: self._codes_of_change(topic.name))

    async def _codes_of_metadata(self, topic: str) -> Iterable[int]:
        wanted = [MetadataRequest.MetadataRequestTopic(name=topic)]
        answer = await self._ask(MetadataRequest(topics=wanted, allow_auto_topic_creation=False), 9)
        return [each.error_code for each in answer.topics]

    async def _codes_of_write(self, topic: str) -> Iterable[int]:
        """No record."""
        kinds = ProduceRequest
        data = kinds.TopicProduceData.PartitionProduceData(index=0, records=None)
        topics = [kinds.TopicProduceData(name=topic, partition_data=[data])]
        answer = await self._ask(kinds(transactional_id=None, acks=1, timeout_ms=1000, topic_data=topics), _BY_NAME)
        return [part.error_code for each in answer.responses for part in each.partition_responses]

    async def _codes_of_read(self, topic: str) -> Iterable[int]:
        kinds = FetchRequest
        wanted = kinds.FetchTopic.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1)
        topics = [kinds.FetchTopic(topic=topic, partitions=[wanted])]
        answer = await self._ask(kinds(replica_id=-1, max_wait_ms=0, min_bytes=0, topics=topics), _FETCH_BY_NAME)
        return [part.error_code for each in answer.responses for part in each.partitions]

    async def _codes_of_settings(self, topic: str) -> Iterable[int]:
        return [each.error_code for each in (await self._ask(_describing(_TOPIC, topic), 4)).results]

    async def _codes_of_change(self, topic: str) -> Iterable[int]:
        kinds = IncrementalAlterConfigsRequest
        resource = kinds.AlterConfigsResource(resource_type=_TOPIC, resource_name=topic, configs=[])
        answer = await self._ask(kinds(resources=[resource], validate_only=True), 1)
        return [each.error_code for each in answer.responses]

    async def of_group(self, group: str, *, joins: bool) -> None:
        async def offsets() -> Iterable[int]:
            return [(await self._ask(OffsetFetchRequest(group_id=group, topics=[]), _OF_ONE_GROUP)).error_code]

        async def beat() -> Iterable[int]:
            request = HeartbeatRequest(group_id=group, generation_id=_NOBODY, member_id="nobody")
            return [(await self._ask(request, 3)).error_code]

        await self._note("Describe", f"Group {group}", OffsetFetchRequest, offsets)
        if joins:
            await self._note("Read", f"Group {group}", HeartbeatRequest, beat)

    async def of_transactions(self, name: str) -> None:
        async def end() -> Iterable[int]:
            request = EndTxnRequest(transactional_id=name, producer_id=_NOBODY, producer_epoch=_NOBODY, committed=False)
            return [(await self._ask(request, 2)).error_code]

        await self._note("Write", f"TransactionalId {name}", EndTxnRequest, end)

    async def of_idempotence(self) -> None:
        """Whoever may write to a topic has it from Kafka 2.8 on (KIP-679)."""

        async def identity() -> Iterable[int]:
            request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
            return [(await self._ask(request, 2)).error_code]

        await self._note("IdempotentWrite", "Cluster", InitProducerIdRequest, identity)

    async def _note(
        self, operation: str, resource: str, kind: Any, codes: Callable[[], Awaitable[Iterable[int]]]
    ) -> None:
        """A broker that does not know the request has nothing to say of it."""
        if await self._connection.knows(kind.API_KEY, timeout_s=_ASK_S):
            self._add(operation, resource, await codes())

    def _add(self, operation: str, resource: str, codes: Iterable[int]) -> None:
        if UNAUTHORIZED.intersection(int(code) for code in codes):
            self.found.append(Lacking(operation=operation, resource=resource))

    async def _ask(self, request: Any, version: int) -> Any:
        return await self._connection.ask(request, version, timeout_s=_ASK_S)


def _describing(kind: int, name: str) -> Any:
    kinds = DescribeConfigsRequest
    resource = kinds.DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=[])
    return kinds(resources=[resource], include_synonyms=False, include_documentation=False)
