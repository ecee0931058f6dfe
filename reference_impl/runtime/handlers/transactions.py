"""InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn and EndTxn: from Kafka's messages to the coordinator and back."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

from reference_impl.coordination.client import CoordinationError
from reference_impl.core.identifiers import GROUP_OFFSETS_TOPIC, INTERNAL_TOPICS, ErrorCode, TopicPartition
from reference_impl.core.transactions.transaction_data import NO_PRODUCER, InitAnswer, InitRequest, Speaker
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
from reference_impl.wire.plain_fields import TEXT_BYTES_MAX

PRODUCER_FENCED_SINCE = {
    ApiKey.INIT_PRODUCER_ID: 4,
    ApiKey.ADD_PARTITIONS_TO_TXN: 2,
    ApiKey.ADD_OFFSETS_TO_TXN: 2,
    ApiKey.END_TXN: 2,
}
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
        fresh_id = NO_PRODUCER
        if coordinator.error is ErrorCode.NONE and coordinator.needs_fresh_id(transactional_id):
            try:
                fresh_id = await self._producer_ids.allocate()
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

    # The transaction

    def add_partitions(self, request: Request, caller: Caller) -> Answer:
        body = request.body
        if request.api_version >= BROKERS_ONLY_SINCE[ApiKey.ADD_PARTITIONS_TO_TXN]:
            return self._verified(body)
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

    def _verified(self, body: Any) -> Any:
        """What another broker asks before it appends (R86). Nothing is added for it."""
        return AddPartitionsToTxnResponse(
            throttle_time_ms=0,
            error_code=ErrorCode.NONE,
            results_by_transaction=[
                TransactionResult(
                    transactional_id=each.transactional_id,
                    topic_results=_results(_keys_of(each), lambda key, each=each: self._verify(each, key)),  # type: ignore[misc]
                )
                for each in body.transactions
            ],
        )

    def _verify(self, wanted: Any, key: TopicPartition) -> ErrorCode:
        if not wanted.verify_only:
            return ErrorCode.INVALID_REQUEST
        error = _unfit(wanted.transactional_id)
        coordinator = error or self._coordinators.coordinator_of(wanted.transactional_id)
        if isinstance(coordinator, ErrorCode):
            return coordinator
        producer = Producer(wanted.producer_id, wanted.producer_epoch)
        return coordinator.verify(Speaker(wanted.transactional_id, producer), key)

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

    def end(self, request: Request, caller: Caller) -> Answer:
        body = request.body
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def answered(error: ErrorCode) -> None:
            answer_once(future, lambda: EndTxnResponse(throttle_time_ms=0, error_code=_in_version(error, request)))

        error = _unfit(body.transactional_id)
        coordinator = error or self._coordinators.coordinator_of(body.transactional_id)
        if isinstance(coordinator, ErrorCode):
            answered(coordinator)
        else:
            speaker = Speaker(body.transactional_id, Producer(body.producer_id, body.producer_epoch))
            coordinator.end_transaction(speaker, is_commit=body.committed, answer=answered)
        return future


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
