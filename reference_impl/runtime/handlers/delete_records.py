"""DeleteRecords: the leader's log starts later, and who asked is answered when no live replica starts before that.

Followers learn of it with their next fetch, as of any start of their leader's log, and tell their own with the fetch
after it (docs/replication.md R78). The leader's new start is on its disk before the answer.
"""

import asyncio
from typing import Any

from reference_impl.core.identifiers import INTERNAL_TOPICS, UNKNOWN_OFFSET, ErrorCode, TopicPartition
from reference_impl.runtime.replication.purgatory import Purgatory, Waiting
from reference_impl.runtime.replication.replica_manager import ReplicaManager
from reference_impl.runtime.server import Caller
from reference_impl.wire.api_keys import ApiKey
from reference_impl.wire.messages import Request, response_class

DeleteRecordsResponse = response_class(ApiKey.DELETE_RECORDS)
TopicResult = DeleteRecordsResponse.DeleteRecordsTopicResult
PartitionResult = TopicResult.DeleteRecordsPartitionResult

Outcome = tuple[ErrorCode, int]  # error, low watermark


class DeleteRecordsHandler:
    def __init__(self, replicas: ReplicaManager, purgatory: Purgatory) -> None:
        self._replicas = replicas
        self._purgatory = purgatory

    async def answer(self, request: Request, caller: Caller) -> Any:
        begun = [
            (key, self._begin(key, wanted.offset, request.body.timeout_ms))
            for topic in request.body.topics
            for wanted in topic.partitions
            for key in [TopicPartition(topic.name, wanted.partition_index)]
        ]
        await self._replicas.checkpoint_log_starts()
        by_topic: dict[str, list[Any]] = {}
        for key, outcome in begun:
            error, low_watermark = await outcome
            by_topic.setdefault(key.topic, []).append(
                PartitionResult(partition_index=key.partition, low_watermark=low_watermark, error_code=error)
            )
        topics = [TopicResult(name=topic, partitions=partitions) for topic, partitions in by_topic.items()]
        return DeleteRecordsResponse(throttle_time_ms=0, topics=topics)

    def _begin(self, key: TopicPartition, before_offset: int, timeout_ms: int) -> "asyncio.Future[Outcome]":
        partition = self._replicas.partitions.get(key)
        if key.topic in INTERNAL_TOPICS:
            return _known((ErrorCode.INVALID_TOPIC_EXCEPTION, UNKNOWN_OFFSET))
        if partition is None:
            return _known((self._replicas.error_when_absent(key), UNKNOWN_OFFSET))
        error, offset = partition.delete_records(before_offset)
        if error is not ErrorCode.NONE:
            return _known((error, UNKNOWN_OFFSET))
        leader_epoch = partition.leader_epoch

        def check() -> Outcome | None:
            error, low_watermark = partition.records_deleted(offset, leader_epoch)
            return None if error is None else (error, low_watermark)

        def expired() -> Outcome:
            error, low_watermark = partition.records_deleted(offset, leader_epoch)
            return ErrorCode.REQUEST_TIMED_OUT if error is None else error, low_watermark

        done = check()
        return _known(done) if done is not None else self._purgatory.park(Waiting([key], check, expired), timeout_ms)


def _known(outcome: Outcome) -> "asyncio.Future[Outcome]":
    future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
    future.set_result(outcome)
    return future
