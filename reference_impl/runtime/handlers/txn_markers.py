"""WriteTxnMarkers: the end of transactions in the partitions that this broker leads, answered when it is replicated.

In a partition of __consumer_offsets the group's coordinator is told, too (docs/replication.md R70, R77).
"""

import asyncio
from typing import Any

from reference_impl.core.identifiers import GROUP_OFFSETS_TOPIC, ErrorCode, TopicPartition
from reference_impl.runtime.coordinators.groups import GroupCoordinators
from reference_impl.runtime.coordinators.waiting import answer_once
from reference_impl.runtime.replication.purgatory import Purgatory, Waiting
from reference_impl.runtime.replication.replica_manager import ReplicaManager
from reference_impl.runtime.server import Caller
from reference_impl.wire.api_keys import ApiKey
from reference_impl.wire.control_records import Marker
from reference_impl.wire.key_values import Producer
from reference_impl.wire.messages import Request, response_class

REPLICATED_WITHIN_MS = 1000  # then the coordinator tries again; markers of other transactions wait behind these

WriteTxnMarkersResponse = response_class(ApiKey.WRITE_TXN_MARKERS)
MarkerResult = WriteTxnMarkersResponse.WritableTxnMarkerResult
TopicResult = MarkerResult.WritableTxnMarkerTopicResult
PartitionResult = TopicResult.WritableTxnMarkerPartitionResult


class WriteTxnMarkersHandler:
    def __init__(self, replicas: ReplicaManager, groups: GroupCoordinators, purgatory: Purgatory) -> None:
        self._replicas = replicas
        self._groups = groups
        self._purgatory = purgatory

    async def answer(self, request: Request, caller: Caller) -> Any:
        begun = [(marker, self._begin(marker)) for marker in request.body.markers]
        return WriteTxnMarkersResponse(
            markers=[
                MarkerResult(producer_id=marker.producer_id, topics=await _settled(outcomes))
                for marker, outcomes in begun
            ]
        )

    def _begin(self, marker: Any) -> dict[TopicPartition, "asyncio.Future[ErrorCode]"]:
        producer = Producer(marker.producer_id, marker.producer_epoch)
        end = Marker(marker.transaction_result, marker.coordinator_epoch)
        return {
            key: self._write(key, producer, end)
            for topic in marker.topics
            for key in [TopicPartition(topic.name, number) for number in topic.partition_indexes]
        }

    def _write(self, key: TopicPartition, producer: Producer, marker: Marker) -> "asyncio.Future[ErrorCode]":
        if producer.producer_id < 0 or producer.producer_epoch < 0:
            return _known(ErrorCode.INVALID_REQUEST)
        if key.topic == GROUP_OFFSETS_TOPIC:
            return self._write_for_groups(key.partition, producer, marker)
        partition = self._replicas.partitions.get(key)
        if partition is None:
            return _known(self._replicas.error_when_absent(key))
        result = partition.append_marker(
            producer, marker, now_ms=self._replicas.now_ms(), wall_clock_ms=self._replicas.wall_clock_ms()
        )
        if result.error is not ErrorCode.NONE:
            return _known(result.error)

        def check() -> ErrorCode | None:
            return partition.produce_outcome(result.required_offset, result.leader_epoch)

        done = check()
        if done is not None:
            return _known(done)
        return self._purgatory.park(Waiting([key], check, lambda: ErrorCode.REQUEST_TIMED_OUT), REPLICATED_WITHIN_MS)

    def _write_for_groups(self, number: int, producer: Producer, marker: Marker) -> "asyncio.Future[ErrorCode]":
        loop = asyncio.get_running_loop()
        future: asyncio.Future[ErrorCode] = loop.create_future()
        timer = loop.call_later(REPLICATED_WITHIN_MS / 1000, answer_once, future, lambda: ErrorCode.REQUEST_TIMED_OUT)
        future.add_done_callback(lambda _: timer.cancel())
        self._groups.end_transaction(number, producer, marker, lambda error: answer_once(future, lambda: error))
        return future


def _known(error: ErrorCode) -> "asyncio.Future[ErrorCode]":
    future: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
    future.set_result(error)
    return future


async def _settled(outcomes: dict[TopicPartition, "asyncio.Future[ErrorCode]"]) -> list[Any]:
    by_topic: dict[str, list[Any]] = {}
    for key, outcome in outcomes.items():
        error = await outcome
        by_topic.setdefault(key.topic, []).append(PartitionResult(partition_index=key.partition, error_code=error))
    return [TopicResult(name=name, partitions=parts) for name, parts in by_topic.items()]
