"""InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn and EndTxn: from Kafka's messages to the coordinator and back."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

from reference_impl.coordination.client import CoordinationError
from reference_impl.core.identifiers import GROUP_OFFSETS_TOPIC, INTERNAL_TOPICS, ErrorCode, TopicPartition
from reference_impl.core.transactions.coordinator import TransactionCoordinator
from reference_impl.core.transactions.transaction_data import NO_PRODUCER, EndRequest, InitAnswer, InitRequest, Speaker
from reference_impl.runtime.coordinators.groups import GroupCoordinators
from reference_impl.runtime.coordinators.transactions import TransactionCoordinators
from reference_impl.runtime.coordinators.waiting import answer_once
from reference_impl.runtime.handlers.api import BROKERS_ONLY_SINCE
from reference_impl.runtime.handlers.metadata import MetadataCache
from reference_impl.runtime.handlers.producer_ids import ProducerIds
from reference_impl.runtime.server import Answer, Caller
from reference_impl.wire.api_keys import ApiKey
from reference_impl.wire.key_values import Producer
from reference_impl.wire.messages import Request, response_class
from reference_impl.wire.record_fields import TEXT_BYTES_MAX

PRODUCER_FENCED_SINCE = {
    ApiKey.INIT_PRODUCER_ID: 4,
    ApiKey.ADD_PARTITIONS_TO_TXN: 2,
    ApiKey.ADD_OFFSETS_TO_TXN: 2,
    ApiKey.END_TXN: 2,
}
EPOCH_OF_EACH_SINCE = 5  # EndTxn, KIP-890
LAST_IDEMPOTENT_EPOCH = 0x7FFE

InitProducerIdResponse = response_class(ApiKey.INIT_PRODUCER_ID)
AddPartitionsToTxnResponse = response_class(ApiKey.ADD_PARTITIONS_TO_TXN)
TransactionResult = AddPartitionsToTxnResponse.AddPartitionsToTxnResult
TopicResult = AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult
PartitionResult = TopicResult.AddPartitionsToTxnPartitionResult
AddOffsetsToTxnResponse = response_class(ApiKey.ADD_OFFSETS_TO_TXN)
EndTxnResponse = response_class(ApiKey.END_TXN)


class TransactionsHandler:
    def __init__(
        self,
        coordinators: TransactionCoordinators,
        groups: GroupCoordinators,
        metadata: MetadataCache,
        producer_ids: ProducerIds,
        create_offsets_topic: Callable[[], None],
    ) -> None:
        self._coordinators = coordinators
        self._groups = groups
        self._metadata = metadata
        self._producer_ids = producer_ids
        self._create_offsets_topic = create_offsets_topic

    # InitProducerId

    async def init(self, request: Request, caller: Caller) -> Any:
        if (request.body.producer_id < 0) != (request.body.producer_epoch < 0):  # as in Kafka: both, or none
            return _initialised(InitAnswer(ErrorCode.INVALID_REQUEST), request)
        if request.body.transactional_id is None:
            return _initialised(await self._init_idempotent(request.body), request)
        return _initialised(await self._init_transactional(request.body), request)

    async def _init_idempotent(self, body: Any) -> InitAnswer:
        if body.producer_id >= 0 and 0 <= body.producer_epoch < LAST_IDEMPOTENT_EPOCH:
            # KIP-360: an idempotent producer that lost its state requests its next epoch.
            return InitAnswer(ErrorCode.NONE, body.producer_id, body.producer_epoch + 1)
        try:
            return InitAnswer(ErrorCode.NONE, await self._producer_ids.allocate(), 0)
        except CoordinationError:
            return InitAnswer(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    async def _init_transactional(self, body: Any) -> InitAnswer:
        transactional_id = body.transactional_id
        error = _unfit(transactional_id)
        coordinator = error or self._coordinators.coordinator_of(transactional_id)
        if isinstance(coordinator, ErrorCode):
            return InitAnswer(coordinator)
        try:
            fresh_id = await self._fresh_id(coordinator, transactional_id)
        except CoordinationError:
            return InitAnswer(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        future: asyncio.Future[InitAnswer] = asyncio.get_running_loop().create_future()
        asked = InitRequest(
            transactional_id=transactional_id,
            timeout_ms=body.transaction_timeout_ms,
            producer=Producer(body.producer_id, body.producer_epoch) if body.producer_id >= 0 else None,
        )
        coordinator.init(asked, fresh_id, lambda answer: answer_once(future, lambda: answer))
        return await future

    async def _fresh_id(self, coordinator: TransactionCoordinator, transactional_id: str) -> int:
        """If one is needed. Raises CoordinationError."""
        is_needed = coordinator.error is ErrorCode.NONE and coordinator.needs_fresh_id(transactional_id)
        return await self._producer_ids.allocate() if is_needed else NO_PRODUCER

    # The transaction

    def add_partitions(self, request: Request, caller: Caller) -> Answer:
        body = request.body
        if request.api_version >= BROKERS_ONLY_SINCE[ApiKey.ADD_PARTITIONS_TO_TXN]:
            return self._asked_by_leader(body)
        wanted = [
            TopicPartition(topic.name, number)
            for topic in body.v3_and_below_topics
            for number in dict.fromkeys(topic.partitions)
        ]
        producer = Producer(body.v3_and_below_producer_id, body.v3_and_below_producer_epoch)
        speaker = Speaker(body.v3_and_below_transactional_id, producer)
        unknown = {
            key: ErrorCode.INVALID_TOPIC_EXCEPTION
            if key.topic in INTERNAL_TOPICS
            else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            for key in wanted
            if key.topic in INTERNAL_TOPICS or self._metadata.state(key) is None
        }
        if unknown:  # as in Kafka: then nothing is added
            outcomes = {key: unknown.get(key, ErrorCode.OPERATION_NOT_ATTEMPTED) for key in wanted}
            return _added(wanted, outcomes.__getitem__)

        def made(error: ErrorCode) -> Any:
            return _added(wanted, lambda _: error)

        return self._add(request, speaker, wanted, made)

    async def _asked_by_leader(self, body: Any) -> Any:
        """What another broker asks before it appends (R86, R88)."""
        outcomes = await asyncio.gather(*(self._of_leader(each) for each in body.transactions))
        results = [
            TransactionResult(
                transactional_id=each.transactional_id, topic_results=_results(_keys_of(each), found.__getitem__)
            )
            for each, found in zip(body.transactions, outcomes, strict=True)
        ]
        return AddPartitionsToTxnResponse(throttle_time_ms=0, error_code=ErrorCode.NONE, results_by_transaction=results)

    async def _of_leader(self, wanted: Any) -> dict[TopicPartition, ErrorCode]:
        keys = _keys_of(wanted)
        error = _unfit(wanted.transactional_id)
        coordinator = error or self._coordinators.coordinator_of(wanted.transactional_id)
        if isinstance(coordinator, ErrorCode):
            return dict.fromkeys(keys, coordinator)
        speaker = Speaker(wanted.transactional_id, Producer(wanted.producer_id, wanted.producer_epoch))
        if wanted.verify_only:
            return {key: coordinator.verify(speaker, key) for key in keys}
        added: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
        coordinator.add_by_leader(speaker, keys, lambda error: answer_once(added, lambda: error))
        return dict.fromkeys(keys, await added)

    def add_offsets(self, request: Request, caller: Caller) -> Answer:
        body = request.body
        number = self._groups.partition_of(body.group_id)
        speaker = Speaker(body.transactional_id, Producer(body.producer_id, body.producer_epoch))

        def made(error: ErrorCode) -> Any:
            return AddOffsetsToTxnResponse(throttle_time_ms=0, error_code=error)

        if not body.group_id:
            return made(ErrorCode.INVALID_GROUP_ID)
        if number is None:  # a producer may ask before any consumer
            self._create_offsets_topic()
            return made(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return self._add(request, speaker, [TopicPartition(GROUP_OFFSETS_TOPIC, number)], made)

    def _add(
        self,
        request: Request,
        speaker: Speaker,
        wanted: Iterable[TopicPartition],
        made: Callable[[ErrorCode], Any],
    ) -> Answer:
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def answered(error: ErrorCode) -> None:
            answer_once(future, lambda: made(_in_version(error, request)))

        error = _unfit(speaker.transactional_id)
        coordinator = error or self._coordinators.coordinator_of(speaker.transactional_id)
        if isinstance(coordinator, ErrorCode):
            answered(coordinator)
        else:
            coordinator.add_partitions(speaker, wanted, answered)
        return future

    async def end(self, request: Request, caller: Caller) -> Any:
        answer = await self._end(request.body, has_own_epoch=request.api_version >= EPOCH_OF_EACH_SINCE)
        return EndTxnResponse(
            throttle_time_ms=0,
            error_code=_in_version(answer.error, request),
            producer_id=answer.producer_id,
            producer_epoch=answer.epoch,
        )

    async def _end(self, body: Any, *, has_own_epoch: bool) -> InitAnswer:
        error = _unfit(body.transactional_id)
        coordinator = error or self._coordinators.coordinator_of(body.transactional_id)
        if isinstance(coordinator, ErrorCode):
            return InitAnswer(coordinator)
        try:
            fresh_id = await self._fresh_id(coordinator, body.transactional_id) if has_own_epoch else NO_PRODUCER
        except CoordinationError:
            return InitAnswer(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        speaker = Speaker(body.transactional_id, Producer(body.producer_id, body.producer_epoch))
        asked = EndRequest(body.committed, has_own_epoch=has_own_epoch, fresh_id=fresh_id)
        future: asyncio.Future[InitAnswer] = asyncio.get_running_loop().create_future()
        coordinator.end_transaction(speaker, asked, lambda answer: answer_once(future, lambda: answer))
        return await future


def _unfit(transactional_id: str) -> ErrorCode:
    """No record can hold a longer one."""
    is_fit = 0 < len(transactional_id.encode()) <= TEXT_BYTES_MAX
    return ErrorCode.NONE if is_fit else ErrorCode.INVALID_REQUEST


def _in_version(error: ErrorCode, request: Request) -> ErrorCode:
    """KIP-588: an older client knows no PRODUCER_FENCED."""
    is_new = request.api_version >= PRODUCER_FENCED_SINCE[ApiKey(request.api_key)]
    return ErrorCode.INVALID_PRODUCER_EPOCH if error is ErrorCode.PRODUCER_FENCED and not is_new else error


def _initialised(answer: InitAnswer, request: Request) -> Any:
    return InitProducerIdResponse(
        throttle_time_ms=0,
        error_code=_in_version(answer.error, request),
        producer_id=answer.producer_id,
        producer_epoch=answer.epoch,
    )


def _keys_of(transaction: Any) -> list[TopicPartition]:
    return [TopicPartition(topic.name, number) for topic in transaction.topics for number in topic.partitions]


def _added(wanted: Iterable[TopicPartition], outcome: Callable[[TopicPartition], ErrorCode]) -> Any:
    return AddPartitionsToTxnResponse(throttle_time_ms=0, results_by_topic_v3_and_below=_results(wanted, outcome))


def _results(wanted: Iterable[TopicPartition], outcome: Callable[[TopicPartition], ErrorCode]) -> list[Any]:
    by_topic: dict[str, list[Any]] = {}
    for key in wanted:
        result = PartitionResult(partition_index=key.partition, partition_error_code=outcome(key))
        by_topic.setdefault(key.topic, []).append(result)
    return [TopicResult(name=name, results_by_partition=parts) for name, parts in by_topic.items()]
