"""ListOffsets and OffsetForLeaderEpoch: where a partition's log begins, ends, and ended for an epoch.

A lookup by time takes two steps: the core finds the batch by its header, then decoding finds the record in it; decoding
does not block the event loop.
"""

import logging
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Any, NamedTuple

from reference_impl.core.identifiers import UNDEFINED_EPOCH, UNKNOWN_OFFSET, ErrorCode, TopicPartition
from reference_impl.core.partition import Partition
from reference_impl.runtime.decoding import Decoding
from reference_impl.runtime.handlers.fetch import READ_COMMITTED
from reference_impl.runtime.replication.replica_manager import ReplicaManager
from reference_impl.runtime.server import Answer, Caller
from reference_impl.wire.api_keys import ApiKey
from reference_impl.wire.compression import UnreadableRecords
from reference_impl.wire.messages import Request, response_class
from reference_impl.wire.record_batches import read_header
from reference_impl.wire.record_timestamps import TimedOffset, first_at_or_after, youngest

logger = logging.getLogger(__name__)

ListOffsetsResponse = response_class(ApiKey.LIST_OFFSETS)
OffsetForLeaderEpochResponse = response_class(ApiKey.OFFSET_FOR_LEADER_EPOCH)
ListedPartition = ListOffsetsResponse.ListOffsetsTopicResponse.ListOffsetsPartitionResponse
EndOffset = OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult.EpochEndOffset

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL = -1, -2, -3, -4
SPECIAL_SINCE = {LATEST: 1, EARLIEST: 1, MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8}  # the request's version

Found = tuple[ErrorCode, int, int, int]  # error, offset, timestamp, leader epoch

NOWHERE = (UNKNOWN_OFFSET, -1, UNDEFINED_EPOCH)
NOT_SERVED: Found = (ErrorCode.UNSUPPORTED_VERSION, *NOWHERE)


class _Reader(NamedTuple):
    """Who asks: the isolation level says what a consumer may read."""

    is_replica: bool
    reads_committed: bool

    @classmethod
    def of(cls, request: Request) -> "_Reader":
        return cls(request.body.replica_id >= 0, request.body.isolation_level == READ_COMMITTED)


class OffsetsHandler:
    def __init__(self, replicas: ReplicaManager, decoding: Decoding) -> None:
        self._replicas = replicas
        self._decoding = decoding

    def list_offsets(self, request: Request, caller: Caller) -> Answer | Awaitable[Answer]:
        """Answers at once unless the request asks for a timestamp."""
        wanted = [
            (TopicPartition(topic.name, partition.partition_index), partition)
            for topic in request.body.topics
            for partition in topic.partitions
        ]
        if any(_is_by_time(partition.timestamp) for _, partition in wanted):
            return self._list_by_time(request, wanted)
        return _listed((key, self._find(key, partition, request)) for key, partition in wanted)

    async def _list_by_time(self, request: Request, wanted: list[tuple[TopicPartition, Any]]) -> Any:
        return _listed(
            [
                (
                    key,
                    await self._find_by_time(key, partition, _Reader.of(request))
                    if _is_by_time(partition.timestamp) and _is_served(partition.timestamp, request.api_version)
                    else self._find(key, partition, request),
                )
                for key, partition in wanted
            ]
        )

    def _find(self, key: TopicPartition, wanted: Any, request: Request) -> Found:
        """Finds the log's begin or end."""
        if not _is_served(wanted.timestamp, request.api_version):
            return NOT_SERVED
        partition = self._replicas.partitions.get(key)
        if partition is None:
            return self._replicas.error_when_absent(key), *NOWHERE
        current_epoch = wanted.current_leader_epoch
        if wanted.timestamp in (EARLIEST, EARLIEST_LOCAL):
            error, offset, epoch = partition.earliest_offset(current_leader_epoch=current_epoch)
        else:
            # A replica asks for the log end, committed or not (R23, after OFFSET_OUT_OF_RANGE).
            reader = _Reader.of(request)
            error, offset, epoch = partition.latest_offset(
                current_leader_epoch=current_epoch,
                for_replica=reader.is_replica,
                read_committed=reader.reads_committed,
            )
        return error, offset, -1, epoch

    async def _find_by_time(self, key: TopicPartition, wanted: Any, reader: "_Reader") -> Found:
        """The core names the batch to decode by its header; if no record of it fits, the search continues with the next
        batch."""
        from_offset = 0
        while True:
            partition = self._replicas.partitions.get(key)
            if partition is None:
                return self._replicas.error_when_absent(key), *NOWHERE
            from_offset = max(from_offset, partition.log.log_start_offset)
            error, batch = _batch_to_look_into(partition, wanted, from_offset, reader)
            if batch is None:
                return error, *NOWHERE
            header = read_header(batch, 0)
            try:
                found = await self._decoding.run(_look_for(wanted.timestamp, batch, from_offset))
            except UnreadableRecords as unreadable:
                logger.warning("%s: the batch at offset %d has no times: %s", key, header.base_offset, unreadable)
                return ErrorCode.UNKNOWN_SERVER_ERROR, *NOWHERE
            if found is not None:
                return ErrorCode.NONE, found.offset, found.timestamp, found.leader_epoch
            if wanted.timestamp == MAX_TIMESTAMP:
                return ErrorCode.NONE, *NOWHERE
            from_offset = header.next_offset

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


def _is_by_time(timestamp: int) -> bool:
    return timestamp >= 0 or timestamp == MAX_TIMESTAMP


def _is_served(timestamp: int, api_version: int) -> bool:
    return timestamp >= 0 or api_version >= SPECIAL_SINCE.get(timestamp, 1 << 15)


def _batch_to_look_into(
    partition: Partition, wanted: Any, from_offset: int, reader: _Reader
) -> tuple[ErrorCode, bytes | None]:
    current_epoch = wanted.current_leader_epoch
    if wanted.timestamp == MAX_TIMESTAMP:
        return partition.batch_of_max_timestamp(
            current_leader_epoch=current_epoch, for_replica=reader.is_replica, read_committed=reader.reads_committed
        )
    return partition.batch_for_time(
        wanted.timestamp,
        current_leader_epoch=current_epoch,
        for_replica=reader.is_replica,
        read_committed=reader.reads_committed,
        from_offset=from_offset,
    )


def _look_for(timestamp: int, batch: bytes, from_offset: int) -> Callable[[], TimedOffset | None]:
    if timestamp == MAX_TIMESTAMP:
        return partial(youngest, batch, from_offset=from_offset)
    return partial(first_at_or_after, batch, timestamp, from_offset=from_offset)


def _listed(found: Iterable[tuple[TopicPartition, Found]]) -> Any:
    by_topic: dict[str, list[Any]] = {}
    for key, (error, offset, timestamp, epoch) in found:
        by_topic.setdefault(key.topic, []).append(
            ListedPartition(
                partition_index=key.partition,
                error_code=error,
                timestamp=timestamp,
                offset=offset,
                leader_epoch=epoch,
            )
        )
    topics = [
        ListOffsetsResponse.ListOffsetsTopicResponse(name=topic, partitions=parts) for topic, parts in by_topic.items()
    ]
    return ListOffsetsResponse(throttle_time_ms=0, topics=topics)
