"""Sends the leaders' ISR proposals to the controller: one AlterPartition request in flight per broker, retried for
ever.

The metadata names the controller. Without its answer nothing changes: an isolated leader keeps its ISR, and acks=all
waits (KIP-497).
"""

import asyncio
import logging
from typing import Any

from reference_impl.core.identifiers import ErrorCode
from reference_impl.core.partition import Partition
from reference_impl.core.state import IsrProposal, PartitionState
from reference_impl.runtime.connections import PeerUnreachable
from reference_impl.runtime.controller.link import ControllerLink
from reference_impl.runtime.replication.replica_manager import ReplicaManager
from reference_impl.wire.api_keys import ApiKey
from reference_impl.wire.messages import request_class

logger = logging.getLogger(__name__)

ALTER_PARTITION_VERSION = 3
RETRY_BACKOFF_MS = 100

AlterPartitionRequest = request_class(ApiKey.ALTER_PARTITION)
TopicData = AlterPartitionRequest.TopicData
PartitionData = TopicData.PartitionData
BrokerState = PartitionData.BrokerState

Proposals = list[tuple[Partition, IsrProposal]]


class IsrProposalSender:
    def __init__(self, replicas: ReplicaManager, controller: ControllerLink, *, broker_id: int) -> None:
        self._replicas = replicas
        self._controller = controller
        self._broker_id = broker_id

    async def run(self) -> None:
        while True:
            await self._replicas.isr_may_change.wait()
            self._replicas.isr_may_change.clear()
            proposals = self._replicas.isr_proposals()
            if not proposals:
                continue
            if not await self._propose(proposals):
                await asyncio.sleep(RETRY_BACKOFF_MS / 1000)
                self._replicas.isr_may_change.set()

    async def _propose(self, proposals: Proposals) -> bool:
        """True if every proposal got a final answer."""
        try:
            response = await self._controller.ask(
                ApiKey.ALTER_PARTITION, ALTER_PARTITION_VERSION, self._request(proposals)
            )
        except PeerUnreachable as error:
            logger.info("AlterPartition to controller: %s; trying again", error)
            self._answer_all(proposals, ErrorCode.REQUEST_TIMED_OUT)
            return False
        if response.error_code:
            logger.info("AlterPartition refused: error %d; trying again", response.error_code)
            self._answer_all(proposals, ErrorCode(response.error_code))
            return False
        answers = {
            (topic.topic_id, partition.partition_index): partition
            for topic in response.topics
            for partition in topic.partitions
        }
        complete = True
        for partition, proposal in proposals:
            topic_partition = proposal.topic_partition
            answer = answers.get((self._replicas.topic_id(topic_partition), topic_partition.partition))
            outcome = ErrorCode.UNKNOWN_SERVER_ERROR if answer is None else ErrorCode(answer.error_code)
            state = None if outcome else _committed_state(partition, answer)
            logger.info("%s: isr %s: %s", topic_partition, [member for member, _ in proposal.isr], outcome.name)
            self._replicas.isr_answered(partition, proposal, outcome, state)
            complete = complete and outcome is ErrorCode.NONE
        return complete

    def _answer_all(self, proposals: Proposals, error: ErrorCode) -> None:
        # An error of the whole request does not decide any partition: send each proposal again.
        if error in (ErrorCode.INVALID_REQUEST, ErrorCode.FENCED_LEADER_EPOCH):
            error = ErrorCode.UNKNOWN_SERVER_ERROR
        for partition, proposal in proposals:
            self._replicas.isr_answered(partition, proposal, error, None)

    def _request(self, proposals: Proposals) -> Any:
        by_topic: dict[Any, list[Any]] = {}
        for _, proposal in proposals:
            members = [BrokerState(broker_id=member, broker_epoch=epoch) for member, epoch in proposal.isr]
            topic_id = self._replicas.topic_id(proposal.topic_partition)
            by_topic.setdefault(topic_id, []).append(
                PartitionData(
                    partition_index=proposal.topic_partition.partition,
                    leader_epoch=proposal.leader_epoch,
                    new_isr_with_epochs=members,
                    leader_recovery_state=0,
                    partition_epoch=proposal.partition_epoch,
                )
            )
        topics = [TopicData(topic_id=topic_id, partitions=parts) for topic_id, parts in by_topic.items()]
        return AlterPartitionRequest(broker_id=self._broker_id, broker_epoch=self._replicas.broker_epoch, topics=topics)


def _committed_state(partition: Partition, answer: Any) -> PartitionState | None:
    if partition.state is None:
        return None
    return PartitionState(
        topic_partition=partition.topic_partition,
        replicas=partition.state.replicas,
        leader=answer.leader_id,
        isr=tuple(answer.isr),
        leader_epoch=answer.leader_epoch,
        partition_epoch=answer.partition_epoch,
        controller_epoch=partition.state.controller_epoch,
    )
