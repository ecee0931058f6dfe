"""Observing a KRaft cluster: eligible leader replicas from every broker, the active controller from the quorum itself.

Metadata names some live broker as controller there (KIP-595), so the controllers are asked who leads the quorum. Only
one that takes itself for the leader answers; of two, the one with the later epoch is right. Any broker takes
administration and passes it on.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence

from kafka.protocol.admin import DescribeQuorumRequest, DescribeTopicPartitionsRequest

from harness.clock import Clock
from harness.cluster.broker_requests import BrokerConnection
from harness.cluster.observing import LOOK_S, Observation
from harness.interfaces import NodeId, PartitionState

_METADATA_TOPIC = "__cluster_metadata"
_PARTITIONS_AT_ONCE = 2000


class QuorumObservation(Observation):
    """`controllers`: the quorum's voters by their own addresses."""

    def __init__(
        self,
        addresses: Mapping[NodeId, tuple[str, int]],
        *,
        controllers: Mapping[NodeId, tuple[str, int]],
        is_running: Callable[[NodeId], bool],
        clock: Clock,
    ) -> None:
        super().__init__(addresses, is_running=is_running, clock=clock)
        self._quorum = {node: BrokerConnection(*address) for node, address in controllers.items()}

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
        """The epoch and the id of the leader that a controller takes itself for; None when it is no leader."""
        answer = await self._quorum[node].ask(_whose_quorum(), 1, timeout_s=LOOK_S)
        told = [partition for topic in answer.topics for partition in topic.partitions]
        if not told or told[0].error_code:  # others answer that they are not the leader, with 0 for its id
            return None
        return int(told[0].leader_epoch), int(told[0].leader_id)

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


def _whose_quorum() -> DescribeQuorumRequest:
    kinds = DescribeQuorumRequest
    partition = kinds.TopicData.PartitionData(partition_index=0)
    return kinds(topics=[kinds.TopicData(topic_name=_METADATA_TOPIC, partitions=[partition])])
