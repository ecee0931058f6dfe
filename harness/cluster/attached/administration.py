"""Requests about an existing cluster: its brokers, its topics, the settings in force for them."""

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from kafka.protocol.admin import (
    DeleteGroupsRequest,
    DeleteTopicsRequest,
    DescribeConfigsRequest,
    DescribeQuorumRequest,
    ListGroupsRequest,
    ListTransactionsRequest,
)
from kafka.protocol.metadata import MetadataRequest

from harness.cluster.admission import NotAdmitted
from harness.cluster.attached.authorizations import Lacking, refusal
from harness.cluster.attached.journal import OwnTopic
from harness.cluster.books.observing import known_id
from harness.cluster.broker_requests import BrokerConnection, Connect
from harness.errors import HarnessError
from harness.host.printable import shortened
from harness.ports.cluster import NodeId
from harness.values import is_number

ADDRESS = tuple[str, int]
_ASK_S = 5.0
_ADMINISTER_S = 8.0
_SHOWN = 100
_LOOK_S = 1.0  # of every broker at once: a paused one does not hold up the others for longer
_ROUNDS, _PAUSE_S = 4, 0.5
_TOPIC_RESOURCE, _BROKER_RESOURCE = 2, 4
_UNKNOWN_TOPIC, _UNKNOWN_TOPIC_ID = 3, 100
_METADATA_VERSION = 12  # ids from 10 on
# Before, a broker that creates topics automatically does so for each that is named.
_NAMES_SAFELY_FROM = 4
_BY_ID_FROM, _BY_NAME = 6, 5
_NOT_COORDINATOR, _NON_EMPTY_GROUP, _UNKNOWN_GROUP = 16, 68, 69
_EMPTIES_S = 12.0  # a group, once the sessions of members that crashed are over

Answer = TypeVar("Answer")


class NobodyAnswers(HarnessError):
    """At none of the addresses that were given."""


@dataclass(frozen=True, kw_only=True)
class Answered:
    """What an address that was given told of the brokers: at least one."""

    address: ADDRESS
    brokers: Mapping[NodeId, ADDRESS]


@dataclass(frozen=True, kw_only=True)
class Unanswered:
    """why: in words, with the address."""

    address: ADDRESS
    why: str


Answers = Sequence[Answered | Unanswered]  # of each address once, in the order in which they were given


@dataclass(frozen=True, kw_only=True)
class Looked:
    """A topic as one broker knows it. `mark`: the value of the setting that was asked for, None if it tells none."""

    topic_id: uuid.UUID | None
    mark: str | None


def address_of(text: str, place: str) -> ADDRESS:
    """Parses "host:port". Raises HarnessError that names `place`."""
    host, _, port = text.strip().rpartition(":")
    host = host.strip("[]")
    if not is_number(port) or not _can_be_asked(host, int(port)):
        raise HarnessError(f'{place}: {shortened(repr(text), _SHOWN)} is no address; write "host:port"')
    return host, int(port)


def addresses_of(given: str, place: str) -> list[ADDRESS]:
    """Parses "host:port,host:port". Raises HarnessError that names `place`."""
    return [address_of(each, place) for each in given.split(",") if each.strip()]


def _can_be_asked(host: str, port: int) -> bool:
    """False where no resolver would take it: Python's sockets raise other errors than OSError then."""
    try:
        return bool(host.encode("idna")) and "\0" not in host and 0 < port < 1 << 16
    except UnicodeError:
        return False


async def answers_of(bootstrap: Sequence[ADDRESS], *, connect: Connect) -> Answers:
    """Asks each address who the brokers are. Raises HarnessError for a broker that is registered under no address."""
    return await asyncio.gather(*(_answer_of(address, connect) for address in dict.fromkeys(bootstrap)))


async def _answer_of(address: ADDRESS, connect: Connect) -> Answered | Unanswered:
    place = f"{address[0]}:{address[1]}"
    connection = connect(*address)
    try:
        answer = await connection.ask(_metadata([]), 9, timeout_s=_ASK_S)
    except NotAdmitted as refused:
        return Unanswered(address=address, why=str(refused))
    except (OSError, TimeoutError) as error:
        return Unanswered(address=address, why=f"{place} {type(error).__name__} {error}".rstrip())
    finally:
        connection.close()
    for each in answer.brokers:
        if not _can_be_asked(each.host, each.port):
            registered = shortened(f"{each.host}:{each.port}", _SHOWN)
            raise HarnessError(f"broker {each.node_id} is registered under {registered}, which is no address")
    if not answer.brokers:  # the broker has just started, or cannot reach the controller
        return Unanswered(address=address, why=f"{place} knows of no broker yet")
    return Answered(address=address, brokers={NodeId(each.node_id): (each.host, each.port) for each in answer.brokers})


def brokers_in(answers: Answers) -> Mapping[NodeId, ADDRESS]:
    """The registered brokers by the first address that told of them. Raises NobodyAnswers if none did."""
    for answer in answers:
        if isinstance(answer, Answered):
            return answer.brokers
    why = "; ".join(answer.why for answer in answers if isinstance(answer, Unanswered))
    raise NobodyAnswers(f"no broker answers at the bootstrap addresses ({why}); is the cluster up?")


def _metadata(topics: Sequence[str] | None) -> Any:
    """`topics` None: all topics. Naming a topic could create it if the cluster creates topics automatically."""
    wanted = None if topics is None else [MetadataRequest.MetadataRequestTopic(name=topic) for topic in topics]
    return MetadataRequest(topics=wanted, allow_auto_topic_creation=False)


class Administration:
    """Sends requests to any broker that answers; requests that only the controller executes are tried on each."""

    def __init__(self, addresses: Mapping[NodeId, ADDRESS], *, connect: Connect) -> None:
        self._connections = {node: connect(*address) for node, address in addresses.items()}

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()

    async def has_quorum(self) -> bool:
        """True if the cluster stores its metadata in a KRaft quorum instead of ZooKeeper."""
        return await self._highest_version(DescribeQuorumRequest.API_KEY) is not None

    async def tells_settings(self) -> bool:
        """False before Kafka 0.11 (KIP-133)."""
        return await self._highest_version(DescribeConfigsRequest.API_KEY) is not None

    async def deletes_by_id(self) -> bool:
        return (await self._highest_version(DeleteTopicsRequest.API_KEY) or 0) >= _BY_ID_FROM

    async def deletes_topics(self) -> bool:
        return await self._highest_version(DeleteTopicsRequest.API_KEY) is not None

    async def deletes_groups(self) -> bool:
        return await self._highest_version(DeleteGroupsRequest.API_KEY) is not None

    async def _highest_version(self, api_key: int) -> int | None:
        """The lowest one of the brokers that answer."""

        async def of(connection: BrokerConnection) -> int:
            version = await connection.highest_version(api_key, timeout_s=_ASK_S)
            return -1 if version is None else version

        lowest = min((await self._each(of)).values(), default=-1)
        return None if lowest < 0 else lowest

    async def topics(self) -> set[str]:
        """The topics that any broker knows: the metadata of one may lag."""
        return {topic.name for topics in (await self._every_topic()).values() for topic in topics}

    async def groups(self) -> set[str] | None:
        """All that brokers coordinate and this user may describe; None: not all of the brokers tell."""
        answers = await self._listed(lambda: ListGroupsRequest(states_filter=[], types_filter=[]), 4)
        return None if answers is None else {each.group_id for answer in answers for each in answer.groups}

    async def transactional_ids(self) -> set[str] | None:
        """Likewise; brokers tell since Kafka 3.0 (KIP-664)."""
        answers = await self._listed(lambda: ListTransactionsRequest(state_filters=[], producer_id_filters=[]), 0)
        states = None if answers is None else [each for answer in answers for each in answer.transaction_states]
        return None if states is None else {each.transactional_id for each in states}

    async def _listed(self, request: Callable[[], Any], version: int) -> Sequence[Any] | None:
        """Every broker's answer; None where one of them has none, or an error: a coordinator may still be loading."""

        async def of(connection: BrokerConnection) -> Any:
            if not await connection.knows(request().API_KEY, timeout_s=_ASK_S):
                return None
            return await connection.ask(request(), version, timeout_s=_ASK_S)

        for _ in range(_ROUNDS):
            answers = list((await self._each(of)).values())
            if any(answer is None for answer in answers):
                return None
            if len(answers) == len(self._connections) and not any(answer.error_code for answer in answers):
                return answers
            await asyncio.sleep(_PAUSE_S)
        return None

    async def only_copies_on(self, node: NodeId) -> set[str]:
        """Topics with a partition that has no in-sync replica elsewhere; Kafka's internal topics aside."""
        return {
            topic.name
            for topics in (await self._every_topic()).values()
            for topic in topics
            for partition in topic.partitions
            if not topic.is_internal and node in partition.replica_nodes and set(partition.isr_nodes) <= {node}
        }

    async def _every_topic(self) -> Mapping[NodeId, Sequence[Any]]:
        async def of(connection: BrokerConnection) -> Sequence[Any]:
            answer = await connection.ask(_metadata(None), _METADATA_VERSION, timeout_s=_ASK_S)
            return [topic for topic in answer.topics if topic.error_code != _UNKNOWN_TOPIC and topic.name is not None]

        answers = await self._each(of)
        if not answers:
            raise HarnessError("no broker answers which topics there are")
        return answers

    async def look(self, topic: str, key: str) -> Mapping[NodeId, Looked | None]:
        """Each broker's view of the topic and of its setting `key`; None where the broker knows no such topic. Brokers
        that do not answer are missing. Raises HarnessError if none answers."""

        async def at(connection: BrokerConnection) -> Looked | None:
            version = await connection.highest_version(MetadataRequest.API_KEY, timeout_s=_LOOK_S) or 0
            request = _metadata([topic] if version >= _NAMES_SAFELY_FROM else None)
            answer = await connection.ask(request, _METADATA_VERSION, timeout_s=_LOOK_S)
            named = [each for each in answer.topics if each.name == topic and each.error_code != _UNKNOWN_TOPIC]
            if not named:
                return None
            mark = None
            if await connection.knows(DescribeConfigsRequest.API_KEY, timeout_s=_LOOK_S):
                mark = _described(
                    await connection.ask(_describing(_TOPIC_RESOURCE, topic, [key]), 4, timeout_s=_LOOK_S)
                ).get(key)
            return Looked(topic_id=known_id(named[0]), mark=mark)

        answers = await self._each(at)
        if not answers:
            raise HarnessError(f"no broker answers whether topic {topic!r} is there")
        return answers

    async def in_force(self, topic: str, keys: Sequence[str]) -> dict[str, str]:
        """Returns the topic's settings in force, inherited ones included; empty if no broker can report them (before
        0.11)."""
        try:
            return _described(await self._anybody(lambda: _describing(_TOPIC_RESOURCE, topic, keys), 4))
        except HarnessError:
            return {}

    async def of_brokers(self, keys: Sequence[str], *, shared: NodeId | None = None) -> dict[NodeId, dict[str, str]]:
        """Returns what each broker uses where a topic has no setting of its own, defaults included; nothing of a broker
        that cannot report it. shared: the id with which all of them answer, where they are front ends."""
        found = {}
        for node, connection in self._connections.items():
            name = str(node if shared is None else shared)
            try:
                answer = await connection.ask(_describing(_BROKER_RESOURCE, name, keys), 4, timeout_s=_ASK_S)
            except (OSError, TimeoutError):
                continue
            found[node] = _described(answer)
        return found

    async def delete(self, topic: OwnTopic) -> None:
        """Deletes the topic of that id, or the one of that name if it has no id. One that is gone already is deleted.

        Raises HarnessError if it remains after the retries: the controller may be moving, or waits for a replica.
        """
        why: str | None = "nobody answered"
        for _ in range(_ROUNDS):
            for connection in self._connections.values():
                why = await self._deleted_by(connection, topic)
                if why is None:
                    return
            await asyncio.sleep(_PAUSE_S)
        raise HarnessError(f"topic {topic.name!r} of this run could not be deleted ({why}); delete it by hand")

    async def delete_group(self, name: str) -> None:
        """One that is gone already is deleted. Raises HarnessError if it may still be there: a member that crashed is
        one until its session is over."""
        deadline = asyncio.get_running_loop().time() + _EMPTIES_S
        while True:
            codes = await self._each(lambda connection: self._group_deleted_by(connection, name))
            gone = set(codes.values()) <= {_NOT_COORDINATOR, _UNKNOWN_GROUP} and len(codes) == len(self._connections)
            if gone or 0 in codes.values():
                return
            if _NON_EMPTY_GROUP not in codes.values() or asyncio.get_running_loop().time() >= deadline:
                raise HarnessError(f"group {name!r} of this run could not be deleted (errors {codes}); do it by hand")
            await asyncio.sleep(_PAUSE_S)

    @staticmethod
    async def _group_deleted_by(connection: BrokerConnection, name: str) -> int:
        answer = await connection.ask(DeleteGroupsRequest(groups_names=[name]), 2, timeout_s=_ADMINISTER_S)
        return next((int(each.error_code) for each in answer.results), 0)

    async def _deleted_by(self, connection: BrokerConnection, topic: OwnTopic) -> str | None:
        """Returns why this broker did not delete it."""
        kinds = DeleteTopicsRequest
        if topic.topic_id is None:
            request, version = kinds(topic_names=[topic.name], timeout_ms=5000), _BY_NAME
        else:
            wanted = kinds.DeleteTopicState(name=None, topic_id=topic.topic_id)
            request, version = kinds(topics=[wanted], timeout_ms=5000), _BY_ID_FROM
        try:
            answer = await connection.ask(request, version, timeout_s=_ADMINISTER_S)
        except (OSError, TimeoutError) as error:
            return f"{type(error).__name__} {error}".rstrip()
        codes = [int(each.error_code) for each in answer.responses]
        if codes and codes[0] in (0, _UNKNOWN_TOPIC, _UNKNOWN_TOPIC_ID):
            return None
        lacks = [refusal(code, Lacking(operation="Delete", resource=f"Topic {topic.name}")) for code in codes]
        return next((each for each in lacks if each is not None), f"error {codes}")

    async def _each(self, ask: Callable[[BrokerConnection], Awaitable[Answer]]) -> dict[NodeId, Answer]:
        """What each broker answers, of those that do."""
        answers = await asyncio.gather(*(ask(each) for each in self._connections.values()), return_exceptions=True)
        found: dict[NodeId, Answer] = {}
        for node, answer in zip(self._connections, answers, strict=True):
            if isinstance(answer, BaseException):
                if not isinstance(answer, OSError | TimeoutError):
                    raise answer
            else:
                found[node] = answer
        return found

    async def _anybody(self, request: Any, version: int) -> Any:
        problem = "there is none"
        for node, connection in self._connections.items():
            try:
                return await connection.ask(request(), version, timeout_s=_ASK_S)
            except (OSError, TimeoutError) as error:
                problem = f"broker {node}: {type(error).__name__} {error}"
        raise HarnessError(f"no broker answers; last: {problem}")


def _describing(kind: int, name: str, keys: Sequence[str]) -> Any:
    kinds = DescribeConfigsRequest
    resource = kinds.DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=list(keys))
    return kinds(resources=[resource], include_synonyms=False, include_documentation=False)


def _described(answer: Any) -> dict[str, str]:
    """An error has no configs."""
    return {config.name: config.value for config in answer.results[0].configs if config.value is not None}
