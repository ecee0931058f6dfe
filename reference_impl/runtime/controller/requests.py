"""The brokers' requests to the controller, AlterPartition (56) and ControlledShutdown (7): from request
body to answer."""

import uuid
from typing import Any

from reference_impl.core.identifiers import ErrorCode, TopicPartition
from reference_impl.core.state import IsrProposal, PartitionState
from reference_impl.runtime.controller.controller_term import ControllerTerm
from reference_impl.wire.api_keys import ApiKey
from reference_impl.wire.messages import response_class

MEMBER_EPOCHS_SINCE = 3  # KIP-903; version 2 identifies topics by id only
UNKNOWN_BROKER_EPOCH = -1

AlterPartitionResponse = response_class(ApiKey.ALTER_PARTITION)
ControlledShutdownResponse = response_class(ApiKey.CONTROLLED_SHUTDOWN)
TopicData = AlterPartitionResponse.TopicData
PartitionData = TopicData.PartitionData


async def alter_partition(term: ControllerTerm, body: Any, api_version: int) -> Any:
    """Topics are identified by id, so that the leader of a deleted topic cannot change its successor."""
    names: dict[uuid.UUID, str] = {}
    proposals: list[tuple[IsrProposal, int]] = []
    for topic in body.topics:
        known = term.state.topic_named_by(topic.topic_id)
        if known is None:
            continue
        names[topic.topic_id] = known.name
        proposals += [_proposal(known.name, partition, api_version) for partition in topic.partitions]
    outcomes = await term.alter_partition(body.broker_id, body.broker_epoch, proposals)
    if isinstance(outcomes, ErrorCode):
        return alter_partition_refused(outcomes)
    answered = []
    for topic in body.topics:
        name = names.get(topic.topic_id)
        results: list[PartitionState | ErrorCode] = [
            ErrorCode.UNKNOWN_TOPIC_ID if name is None else outcomes[TopicPartition(name, partition.partition_index)]
            for partition in topic.partitions
        ]
        partitions = [
            _partition_answer(partition.partition_index, result)
            for partition, result in zip(topic.partitions, results, strict=True)
        ]
        answered.append(TopicData(topic_id=topic.topic_id, partitions=partitions))
    return AlterPartitionResponse(throttle_time_ms=0, error_code=ErrorCode.NONE, topics=answered)


def _proposal(topic: str, partition: Any, api_version: int) -> tuple[IsrProposal, int]:
    if api_version >= MEMBER_EPOCHS_SINCE:
        isr = tuple((member.broker_id, member.broker_epoch) for member in partition.new_isr_with_epochs)
    else:
        isr = tuple((member, UNKNOWN_BROKER_EPOCH) for member in partition.new_isr)
    proposal = IsrProposal(
        topic_partition=TopicPartition(topic, partition.partition_index),
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        isr=isr,
    )
    return proposal, partition.leader_recovery_state


def _partition_answer(partition: int, result: PartitionState | ErrorCode) -> Any:
    if isinstance(result, ErrorCode):
        return PartitionData(
            partition_index=partition,
            error_code=result,
            leader_id=-1,
            leader_epoch=-1,
            isr=[],
            leader_recovery_state=0,
            partition_epoch=-1,
        )
    return PartitionData(
        partition_index=partition,
        error_code=ErrorCode.NONE,
        leader_id=result.leader,
        leader_epoch=result.leader_epoch,
        isr=list(result.isr),
        leader_recovery_state=0,
        partition_epoch=result.partition_epoch,
    )


def alter_partition_refused(error: ErrorCode) -> Any:
    return AlterPartitionResponse(throttle_time_ms=0, error_code=error, topics=[])


async def controlled_shutdown(term: ControllerTerm, body: Any) -> Any:
    outcome = await term.controlled_shutdown(body.broker_id, body.broker_epoch)
    if isinstance(outcome, ErrorCode):
        return controlled_shutdown_refused(outcome)
    entry = ControlledShutdownResponse.fields["remaining_partitions"].data_class
    remaining = [entry(topic=key.topic, partition=key.partition) for key in outcome]
    return ControlledShutdownResponse(error_code=ErrorCode.NONE, remaining_partitions=remaining)


def controlled_shutdown_refused(error: ErrorCode) -> Any:
    return ControlledShutdownResponse(error_code=error, remaining_partitions=[])
