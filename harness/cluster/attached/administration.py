"""Requests about an existing cluster: its brokers, its topics, the settings in force for them."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from kafka.protocol.admin import DeleteTopicsRequest, DescribeConfigsRequest, DescribeQuorumRequest
from kafka.protocol.metadata import MetadataRequest

from harness.cluster.broker_requests import BrokerConnection
from harness.errors import HarnessError
from harness.ports.cluster import NodeId

ADDRESS = tuple[str, int]
_ASK_S = 5.0
_ADMINISTER_S = 8.0
_ROUNDS, _PAUSE_S = 4, 0.5
_TOPIC_RESOURCE, _BROKER_RESOURCE = 2, 4
_GONE = (0, 3)  # deleted, or it never existed


def address_of(text: str, place: str) -> ADDRESS:
    """Parses "host:port". Raises HarnessError that names `place`."""
    host, colon, port = text.strip().rpartition(":")
    if not colon or not host or not port.isdigit():
        raise HarnessError(f'{place}: {text!r} is no address; write "host:port"')
    return host.strip("[]"), int(port)


async def brokers_by(bootstrap: Sequence[ADDRESS]) -> dict[NodeId, ADDRESS]:
    """Returns the registered brokers from the first address that answers. Raises HarnessError if none does."""
    answers = []
    for host, port in bootstrap:
        connection = BrokerConnection(host, port)
        try:
            answer = await connection.ask(_metadata([]), 9, timeout_s=_ASK_S)
        except (OSError, TimeoutError) as error:
            answers.append(f"{host}:{port} {type(error).__name__} {error}".rstrip())
            continue
        finally:
            connection.close()
        if answer.brokers:
            return {NodeId(each.node_id): (each.host, each.port) for each in answer.brokers}
        # the broker has just started, or cannot reach the controller
        answers.append(f"{host}:{port} knows of no broker yet")
    raise HarnessError(f"no broker answers at the bootstrap addresses ({'; '.join(answers)}); is the cluster up?")


def _metadata(topics: Sequence[str] | None) -> Any:
    """`topics` None: all topics. Naming a topic could create it if the cluster creates topics automatically."""
    wanted = None if topics is None else [MetadataRequest.MetadataRequestTopic(name=topic) for topic in topics]
    return MetadataRequest(topics=wanted, allow_auto_topic_creation=False)


class Administration:
    """Sends requests to any broker that answers; requests that only the controller executes are tried on each."""

    def __init__(self, addresses: Mapping[NodeId, ADDRESS]) -> None:
        self._connections = {node: BrokerConnection(*address) for node, address in addresses.items()}

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()

    async def has_quorum(self) -> bool:
        """True if the cluster stores its metadata in a KRaft quorum instead of ZooKeeper."""
        for connection in self._connections.values():
            try:
                return await connection.knows(DescribeQuorumRequest.API_KEY, timeout_s=_ASK_S)
            except (OSError, TimeoutError):
                continue
        return False

    async def topics(self) -> list[str]:
        answer = await self._anybody(lambda: _metadata(None), 9)
        return [topic.name for topic in answer.topics]

    async def in_force(self, topic: str, keys: Sequence[str]) -> dict[str, str]:
        """Returns the topic's settings in force, inherited ones included; empty if no broker can report them (before
        0.11)."""
        try:
            return _described(await self._anybody(lambda: _describing(_TOPIC_RESOURCE, topic, keys), 4))
        except HarnessError:
            return {}

    async def of_brokers(self, keys: Sequence[str]) -> dict[NodeId, dict[str, str]]:
        """Returns what each broker uses where a topic has no setting of its own, defaults included; nothing of a broker
        that cannot report it."""
        found = {}
        for node, connection in self._connections.items():
            try:
                answer = await connection.ask(_describing(_BROKER_RESOURCE, str(node), keys), 4, timeout_s=_ASK_S)
            except (OSError, TimeoutError):
                continue
            found[node] = _described(answer)
        return found

    async def delete(self, topics: Sequence[str]) -> None:
        """Deletes topics. Raises HarnessError if some remain after the retries: the controller may be moving, or waits
        for a replica."""
        left = dict.fromkeys(topics, "nobody answered")
        for _ in range(_ROUNDS):
            for connection in self._connections.values():
                left = await self._deleted_by(connection, list(left))
                if not left:
                    return
            await asyncio.sleep(_PAUSE_S)
        remaining = ", ".join(f"{name} ({why})" for name, why in left.items())
        raise HarnessError(f"topics of this run could not be deleted: {remaining}; delete them by hand")

    async def _deleted_by(self, connection: BrokerConnection, topics: list[str]) -> dict[str, str]:
        """Returns the topics that this broker did not delete, with the error of each."""
        request = DeleteTopicsRequest(topic_names=topics, timeout_ms=5000)
        try:
            answer = await connection.ask(request, 5, timeout_s=_ADMINISTER_S)
        except (OSError, TimeoutError) as error:
            return dict.fromkeys(topics, f"{type(error).__name__} {error}".rstrip())
        codes = {each.name: int(each.error_code) for each in answer.responses}
        return {name: f"error {codes.get(name)}" for name in topics if codes.get(name) not in _GONE}

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
