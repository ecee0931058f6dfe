"""ListOffsets and OffsetForLeaderEpoch: where a partition's log begins, ends, and ended for an epoch."""

from typing import Any

from reference_impl.core.identifiers import UNDEFINED_EPOCH, UNKNOWN_OFFSET, ErrorCode, TopicPartition
from reference_impl.runtime.replica_manager import ReplicaManager
from reference_impl.runtime.server import Caller
from reference_impl.wire.messages import Request, response_class

ListOffsetsResponse = response_class(2)
OffsetForLeaderEpochResponse = response_class(23)
ListedPartition = ListOffsetsResponse.ListOffsetsTopicResponse.ListOffsetsPartitionResponse
EndOffset = OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult.EpochEndOffset

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL = -1, -2, -3, -4
SPECIAL_SINCE = {LATEST: 1, EARLIEST: 1, MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8}  # the request's version

Found = tuple[ErrorCode, int, int, int]  # error, offset, timestamp, leader epoch

NOT_SERVED: Found = (ErrorCode.UNSUPPORTED_VERSION, UNKNOWN_OFFSET, -1, UNDEFINED_EPOCH)


class OffsetsHandler:
    def __init__(self, replicas: ReplicaManager) -> None:
        self._replicas = replicas

    def list_offsets(self, request: Request, caller: Caller) -> Any:
        body = request.body
        topics = []
        for topic in body.topics:
            partitions = []
            for wanted in topic.partitions:
                key = TopicPartition(topic.name, wanted.partition_index)
                if wanted.timestamp < 0 and request.api_version < SPECIAL_SINCE.get(wanted.timestamp, 1 << 15):
                    error, offset, timestamp, epoch = NOT_SERVED
                else:
                    error, offset, timestamp, epoch = self._find(key, wanted, is_replica=body.replica_id >= 0)
                partitions.append(
                    ListedPartition(
                        partition_index=key.partition,
                        error_code=error,
                        timestamp=timestamp,
                        offset=offset,
                        leader_epoch=epoch,
                    )
                )
            topics.append(ListOffsetsResponse.ListOffsetsTopicResponse(name=topic.name, partitions=partitions))
        return ListOffsetsResponse(throttle_time_ms=0, topics=topics)

    def _find(self, key: TopicPartition, wanted: Any, *, is_replica: bool) -> Found:
        partition = self._replicas.partitions.get(key)
        if partition is None:
            return self._replicas.error_when_absent(key), UNKNOWN_OFFSET, -1, UNDEFINED_EPOCH
        current_epoch = wanted.current_leader_epoch
        if wanted.timestamp in (EARLIEST, EARLIEST_LOCAL):
            error, offset, epoch = partition.earliest_offset(current_leader_epoch=current_epoch)
            return error, offset, -1, epoch
        # A replica asks how far the log goes, committed or not (1.7, after OFFSET_OUT_OF_RANGE).
        if wanted.timestamp == LATEST:
            error, offset, epoch = partition.latest_offset(current_leader_epoch=current_epoch, for_replica=is_replica)
            return error, offset, -1, epoch
        if wanted.timestamp == MAX_TIMESTAMP:
            error, found = partition.offset_of_max_timestamp(current_leader_epoch=current_epoch, for_replica=is_replica)
        else:
            error, found = partition.offset_for_time(
                wanted.timestamp, current_leader_epoch=current_epoch, for_replica=is_replica
            )
        return error, found.offset, found.timestamp, found.leader_epoch

    def offset_for_leader_epoch(self, request: Request, caller: Caller) -> Any:
        topics = []
        for topic in request.body.topics:
            partitions = []
            for wanted in topic.partitions:
                key = TopicPartition(topic.topic, wanted.partition)
                error, end_offset, epoch = self._end_offset(key, wanted)
                partitions.append(
                    EndOffset(error_code=error, partition=key.partition, leader_epoch=epoch, end_offset=end_offset)
                )
            topics.append(
                OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult(topic=topic.topic, partitions=partitions)
            )
        return OffsetForLeaderEpochResponse(throttle_time_ms=0, topics=topics)

    def _end_offset(self, key: TopicPartition, wanted: Any) -> tuple[ErrorCode, int, int]:
        partition = self._replicas.partitions.get(key)
        if partition is None:
            return self._replicas.error_when_absent(key), UNKNOWN_OFFSET, UNDEFINED_EPOCH
        return partition.end_offset_for_epoch(wanted.leader_epoch, current_leader_epoch=wanted.current_leader_epoch)
