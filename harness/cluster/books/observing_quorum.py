"""Observes a KRaft cluster: eligible leader replicas from every broker, the active controller from the quorum.

In KRaft mode Metadata names an arbitrary live broker as controller (KIP-595), so the controllers are asked for the
quorum's leader. Only one that believes itself the leader answers; of two, the one with the later epoch is right. Any
broker accepts administration requests and forwards them.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence

from kafka.protocol.admin import DescribeQuorumRequest, DescribeTopicPartitionsRequest

from harness.cluster.books.observing import LOOK_S, Observation
from harness.cluster.broker_requests import Connect
from harness.host.clock import Clock
from harness.ports.cluster import NodeId, PartitionState
from harness.scenario.topic_names import METADATA_TOPIC

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
