"""OffsetCommit, TxnOffsetCommit, OffsetFetch and OffsetDelete: from Kafka's messages to the coordinator and back."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from reference_impl.core.groups.coordinator import FetchedOffsets, GroupCoordinator
from reference_impl.core.groups.group_data import Identity
from reference_impl.core.groups.offsets import Outcomes
from reference_impl.core.identifiers import UNKNOWN_OFFSET, ErrorCode, TopicPartition
from reference_impl.runtime.coordinators.groups import GroupCoordinators
from reference_impl.runtime.coordinators.verification import TransactionVerifier, Verifying
from reference_impl.runtime.coordinators.waiting import answer_once
from reference_impl.runtime.handlers.metadata import MetadataCache
from reference_impl.runtime.server import Answer, Caller
from reference_impl.wire.api_keys import ApiKey
from reference_impl.wire.group_records import NO_EPOCH, NO_TIME, CommittedOffset
from reference_impl.wire.key_values import Producer
from reference_impl.wire.messages import Request, response_class

TOP_LEVEL_ERROR_SINCE = 2  # OffsetFetch
GROUPS_SINCE = 8
ABORTABLE_SINCE, ADDS_SINCE = 4, 5  # TxnOffsetCommit, KIP-890

OffsetCommitResponse = response_class(ApiKey.OFFSET_COMMIT)
TxnOffsetCommitResponse = response_class(ApiKey.TXN_OFFSET_COMMIT)
OffsetFetchResponse = response_class(ApiKey.OFFSET_FETCH)
OffsetDeleteResponse = response_class(ApiKey.OFFSET_DELETE)

Commits = dict[TopicPartition, CommittedOffset]


class GroupOffsetsHandler:
    def __init__(
        self,
        coordinators: GroupCoordinators,
        metadata: MetadataCache,
        verifier: TransactionVerifier,
        wall_clock_ms: Callable[[], int],
    ) -> None:
        self._coordinators = coordinators
        self._metadata = metadata
        self._verifier = verifier
        self._wall_clock_ms = wall_clock_ms

    def commit(self, request: Request, caller: Caller) -> Answer:
        body = request.body
        identity = Identity(
            member_id=body.member_id,
            instance_id=body.group_instance_id,
            generation=body.generation_id_or_member_epoch,
        )

        def begin(coordinator: GroupCoordinator, known: Commits, answered: Callable[[Outcomes], None]) -> None:
            coordinator.commit(body.group_id, identity, known, answered)

        coordinator = self._coordinators.coordinator_of(body.group_id)
        return self._commit(coordinator, self._commits(body, body.retention_time_ms), OffsetCommitResponse, begin)

    async def commit_in_transaction(self, request: Request, caller: Caller) -> Any:
        body = request.body
        identity = Identity(member_id=body.member_id, instance_id=body.group_instance_id, generation=body.generation_id)
        producer = Producer(body.producer_id, body.producer_epoch)

        def begin(coordinator: GroupCoordinator, known: Commits, answered: Callable[[Outcomes], None]) -> None:
            if producer.producer_id < 0 or producer.producer_epoch < 0:
                answered(dict.fromkeys(known, ErrorCode.INVALID_PRODUCER_ID_MAPPING))
            else:
                coordinator.commit_in_transaction(body.group_id, identity, producer, known, answered)

        coordinator = self._coordinators.coordinator_of_members(body.group_id)
        partition = None if isinstance(coordinator, ErrorCode) else self._coordinators.led(body.group_id)
        if partition is not None:
            refused = await self._verifier.refusals(
                [partition],
                body.transactional_id,
                producer,
                wants=Verifying.of(request.api_version, aborts_since=ABORTABLE_SINCE, adds_since=ADDS_SINCE),
                for_now=ErrorCode.COORDINATOR_NOT_AVAILABLE,
            )
            # The coordinator may be another one by now.
            error = refused.get(partition.topic_partition)
            coordinator = self._coordinators.coordinator_of_members(body.group_id) if error is None else error
        return await self._commit(coordinator, self._commits(body, NO_TIME), TxnOffsetCommitResponse, begin)

    def _commit(
        self,
        coordinator: GroupCoordinator | ErrorCode,
        wanted: Commits,
        response: Any,
        begin: Callable[[GroupCoordinator, Commits, Callable[[Outcomes], None]], None],
    ) -> "asyncio.Future[Any]":
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        known = {key: value for key, value in wanted.items() if self._metadata.state(key) is not None}
        unknown: Outcomes = {key: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION for key in wanted if key not in known}

        def answered(outcomes: Outcomes) -> None:
            answer_once(future, lambda: _committed(response, wanted, {**outcomes, **unknown}))

        if isinstance(coordinator, ErrorCode):
            answered(dict.fromkeys(wanted, coordinator))
        elif not known:
            answered({})
        else:
            begin(coordinator, known, answered)
        return future

    def _commits(self, body: Any, keeps_ms: int) -> Commits:
        return {
            TopicPartition(topic.name, each.partition_index): CommittedOffset(
                offset=each.committed_offset,
                leader_epoch=each.committed_leader_epoch,
                metadata=each.committed_metadata or "",
                expires_ms=NO_TIME if keeps_ms < 0 else min(self._wall_clock_ms() + keeps_ms, 2**63 - 1),
            )
            for topic in body.topics
            for each in topic.partitions
        }

    def fetch(self, request: Request, caller: Caller) -> Answer:
        body, version = request.body, request.api_version
        if version >= GROUPS_SINCE:
            groups = [self._fetched_group(group, require_stable=body.require_stable) for group in body.groups]
            return OffsetFetchResponse(throttle_time_ms=0, groups=groups)
        wanted = None if body.topics is None else _keys(body.topics)
        fetched = self._fetch(body.group_id, wanted, require_stable=body.require_stable)
        of_partition = OffsetFetchResponse.OffsetFetchResponseTopic.OffsetFetchResponsePartition
        inside = fetched.error if version < TOP_LEVEL_ERROR_SINCE else ErrorCode.NONE
        topics = [
            OffsetFetchResponse.OffsetFetchResponseTopic(name=name, partitions=parts)
            for name, parts in _fetched(of_partition, fetched, wanted, inside).items()
        ]
        return OffsetFetchResponse(throttle_time_ms=0, error_code=fetched.error, topics=topics)

    def _fetched_group(self, group: Any, *, require_stable: bool) -> Any:
        of_group = OffsetFetchResponse.OffsetFetchResponseGroup
        of_topic = of_group.OffsetFetchResponseTopics
        wanted = None if group.topics is None else _keys(group.topics)
        fetched = self._fetch(group.group_id, wanted, require_stable=require_stable)
        found = _fetched(of_topic.OffsetFetchResponsePartitions, fetched, wanted, ErrorCode.NONE)
        topics = [of_topic(name=name, partitions=parts) for name, parts in found.items()]
        return of_group(group_id=group.group_id, topics=topics, error_code=fetched.error)

    def _fetch(self, group_id: str, wanted: Sequence[TopicPartition] | None, *, require_stable: bool) -> FetchedOffsets:
        """KIP-447: who does not ask for stable offsets is told what was committed last."""
        coordinator = self._coordinators.coordinator_of(group_id)
        if isinstance(coordinator, ErrorCode):
            return FetchedOffsets(error=coordinator, offsets={})
        fetched = coordinator.fetch(group_id, wanted)
        return fetched if require_stable else replace(fetched, unstable=frozenset())

    def delete(self, request: Request, caller: Caller) -> Answer:
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        body = request.body
        wanted = [
            TopicPartition(topic.name, each.partition_index) for topic in body.topics for each in topic.partitions
        ]

        def answered(error: ErrorCode, outcomes: Outcomes) -> None:
            answer_once(future, lambda: _deleted(error, outcomes))

        coordinator = self._coordinators.coordinator_of_members(body.group_id)
        if isinstance(coordinator, ErrorCode):
            answered(coordinator, {})
        else:
            coordinator.remove_offsets(body.group_id, wanted, answered)
        return future


def _keys(topics: Iterable[Any]) -> list[TopicPartition]:
    return [TopicPartition(topic.name, number) for topic in topics for number in topic.partition_indexes]


def _by_topic(keys: Iterable[TopicPartition], entry: Callable[[TopicPartition], Any]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for key in keys:
        found.setdefault(key.topic, []).append(entry(key))
    return found


def _committed(response: Any, wanted: Commits, outcomes: Outcomes) -> Any:
    topic = response.fields["topics"].data_class
    partition = topic.fields["partitions"].data_class
    found = _by_topic(wanted, lambda key: partition(partition_index=key.partition, error_code=outcomes[key]))
    topics = [topic(name=name, partitions=parts) for name, parts in found.items()]
    return response(throttle_time_ms=0, topics=topics)


def _fetched(
    entry: Any, fetched: FetchedOffsets, wanted: Sequence[TopicPartition] | None, error: ErrorCode
) -> dict[str, list[Any]]:
    """`error`: that of each partition. Where the answer as a whole has one, it names no partition, as Kafka's."""
    if fetched.error is not error:
        return {}

    def made(key: TopicPartition) -> Any:
        is_stable = key not in fetched.unstable
        value = fetched.offsets.get(key) if is_stable else None
        return entry(
            partition_index=key.partition,
            committed_offset=UNKNOWN_OFFSET if value is None else value.offset,
            committed_leader_epoch=NO_EPOCH if value is None else value.leader_epoch,
            metadata="" if value is None else value.metadata,
            error_code=error if is_stable else ErrorCode.UNSTABLE_OFFSET_COMMIT,
        )

    return _by_topic(fetched.offsets if wanted is None else dict.fromkeys(wanted), made)


def _deleted(error: ErrorCode, outcomes: Outcomes) -> Any:
    topic = OffsetDeleteResponse.OffsetDeleteResponseTopic
    found = _by_topic(
        outcomes,
        lambda key: topic.OffsetDeleteResponsePartition(partition_index=key.partition, error_code=outcomes[key]),
    )
    topics = [topic(name=name, partitions=parts) for name, parts in found.items()]
    return OffsetDeleteResponse(error_code=error, throttle_time_ms=0, topics=topics)
