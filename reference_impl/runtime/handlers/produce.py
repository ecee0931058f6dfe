"""Produce: append at the leader, then answer at once (acks=1), never (acks=0), or when the high watermark has passed
every partition's records (acks=all, docs/replication.md R9).

If a topic's settings require decoded records, decoding comes first, away from the event loop; batches are still
appended in the order of their arrival.
"""

import asyncio
from collections.abc import Awaitable, Coroutine, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from reference_impl.core.identifiers import INTERNAL_TOPICS, UNKNOWN_OFFSET, ErrorCode, TopicPartition
from reference_impl.core.partition import Partition
from reference_impl.core.partition_data import Origin
from reference_impl.runtime.coordinators.verification import TransactionVerifier, Verifying
from reference_impl.runtime.decoding import Decoding, Turn, Turns
from reference_impl.runtime.replication.purgatory import Purgatory, Waiting
from reference_impl.runtime.replication.replica_manager import ReplicaManager
from reference_impl.runtime.server import NO_ANSWER, Answer, Caller, CloseConnection
from reference_impl.wire.api_keys import ApiKey
from reference_impl.wire.compression import ZSTD
from reference_impl.wire.key_values import Producer
from reference_impl.wire.looks import Look, look_at
from reference_impl.wire.messages import Request, response_class
from reference_impl.wire.record_batches import HEADER_SIZE, BatchHeader, read_header

ProduceResponse = response_class(ApiKey.PRODUCE)
TopicResponse = ProduceResponse.TopicProduceResponse
PartitionResponse = TopicResponse.PartitionProduceResponse

ACKS_ALL = -1
ABORTABLE_SINCE, ADDS_SINCE = 11, 12  # KIP-890
ZSTD_SINCE = 7  # Produce version: an older client might read records that it cannot decompress (KIP-110)


@dataclass(kw_only=True, slots=True)
class _Outcome:
    """One partition's part of a produce request; error None while it waits for replication."""

    topic_partition: TopicPartition
    error: ErrorCode | None
    base_offset: int = UNKNOWN_OFFSET
    log_start_offset: int = UNKNOWN_OFFSET
    partition: Partition | None = None
    required_offset: int = UNKNOWN_OFFSET
    leader_epoch: int = -1
    log_append_time_ms: int = -1


class ProduceHandler:
    def __init__(
        self, replicas: ReplicaManager, purgatory: Purgatory, decoding: Decoding, verifier: TransactionVerifier
    ) -> None:
        self._replicas = replicas
        self._purgatory = purgatory
        self._decoding = decoding
        self._verifier = verifier
        self._turns = Turns()
        self._producers = Turns()  # by transactional id, while one is verified
        self._looking: set[asyncio.Task[list[_Outcome]]] = set()

    def answer(self, request: Request, caller: Caller) -> Answer | Awaitable[Answer]:
        if self._must_verify(request):
            turn = self._producers.take([request.body.transactional_id])
            return self._answer_later(request, self._begin(self._append_verified(request, turn), turn))
        keys = [key for key, _ in _parts(request)]
        if not any(map(self._looks_inside, keys)) and not self._turns.is_taken(keys):
            return self._answer(request, self._append_all(request, {}, {}))
        turn = self._turns.take(keys)
        return self._answer_later(request, self._begin(self._append_in_turn(request, turn), turn))

    def _begin(self, appending: Coroutine[Any, Any, list[_Outcome]], turn: Turn) -> "asyncio.Task[list[_Outcome]]":
        task = asyncio.ensure_future(appending)
        task.add_done_callback(lambda _: turn.end())  # also if it was cancelled before it began
        task.add_done_callback(self._looking.discard)
        self._looking.add(task)
        return task

    def stop(self) -> None:
        """Refuses all further appends."""
        for looking in self._looking:
            looking.cancel()

    def _looks_inside(self, key: TopicPartition) -> bool:
        partition = self._replicas.partitions.get(key)
        return partition is not None and partition.is_leader and partition.settings.looks_inside

    async def _append_in_turn(self, request: Request, turn: Turn) -> list[_Outcome]:
        looks = await self._look(request)
        await turn.comes()
        return self._append_all(request, looks, {})

    async def _look(self, request: Request) -> dict[int, Look]:
        return {
            number: await self._decoding.run(partial(look_at, records))
            for number, (key, records) in enumerate(_parts(request))
            if records and self._looks_inside(key)
        }

    # Transactions

    def _must_verify(self, request: Request) -> bool:
        """Whatever waits before it is appended is verified after that: its transaction may have ended meanwhile."""
        transactional_id = request.body.transactional_id
        if transactional_id is None:
            return False
        if self._producers.is_taken([transactional_id]):
            return True
        if any(self._looks_inside(key) for key, _ in _parts(request)):
            return True
        parts = _transactional(request)
        return len(_producers(parts)) > 1 or any(self._is_unverified(request, key, header) for key, header in parts)

    def _is_unverified(self, request: Request, key: TopicPartition, header: BatchHeader) -> bool:
        partition = self._replicas.partitions.get(key)
        adds = _wants(request) is Verifying.ADD
        return partition is not None and partition.needs_verification(_producer(header), adds=adds)

    async def _append_verified(self, request: Request, turn: Turn) -> list[_Outcome]:
        """In the order of its producer's requests; nobody else's wait for a coordinator."""
        await turn.comes()
        looks = await self._look(request)
        return self._append_all(request, looks, await self._unverified(request))

    async def _unverified(self, request: Request) -> dict[TopicPartition, ErrorCode]:
        """R86: where the request's transaction may not write, and why."""
        parts = _transactional(request)
        producers = _producers(parts)
        if len(producers) > 1:
            return {key: ErrorCode.INVALID_PRODUCER_ID_MAPPING for key, _ in _parts(request)}
        unverified = [key for key, header in parts if self._is_unverified(request, key, header)]
        partitions = [self._replicas.partitions[key] for key in unverified]
        if not partitions:
            return {}
        return await self._verifier.refusals(
            partitions,
            request.body.transactional_id,
            producers.pop(),
            wants=_wants(request),
            for_now=ErrorCode.NOT_ENOUGH_REPLICAS,
        )

    async def _answer_later(self, request: Request, looking: "asyncio.Task[list[_Outcome]]") -> Answer:
        # A client that disconnects withdraws nothing: its batches are appended all the same.
        answer = self._answer(request, await asyncio.shield(looking))
        return await answer if isinstance(answer, asyncio.Future) else answer

    def _append_all(
        self, request: Request, looks: Mapping[int, Look], refused: Mapping[TopicPartition, ErrorCode]
    ) -> list[_Outcome]:
        return [
            _Outcome(topic_partition=key, error=refused[key])
            if key in refused
            else self._append(key, records, request, looks.get(number))
            for number, (key, records) in enumerate(_parts(request))
        ]

    def _answer(self, request: Request, outcomes: list[_Outcome]) -> Answer:
        body = request.body
        if body.acks == 0:
            failed = next((outcome for outcome in outcomes if outcome.error), None)
            if failed is not None and failed.error is not None:
                raise CloseConnection(f"acks=0 produce to {failed.topic_partition} failed: {failed.error.name}")
            return NO_ANSWER
        waiting_for = [outcome.topic_partition for outcome in outcomes if outcome.error is None]
        if not waiting_for or self._all_settled(outcomes):
            return _response(outcomes)

        def expire() -> Any:
            for outcome in outcomes:
                if outcome.error is None:
                    outcome.error = self._replicas.rules.after_timeout()
            return _response(outcomes)

        def check() -> Any | None:
            return _response(outcomes) if self._all_settled(outcomes) else None

        return self._purgatory.park(Waiting(waiting_for, check, expire), body.timeout_ms)

    def _all_settled(self, outcomes: list[_Outcome]) -> bool:
        settled = True
        for outcome in outcomes:
            if outcome.error is None and outcome.partition is not None:
                outcome.error = outcome.partition.produce_outcome(outcome.required_offset, outcome.leader_epoch)
                settled = settled and outcome.error is not None
                if outcome.error is ErrorCode.NONE:
                    self._replicas.acknowledged(outcome.topic_partition, outcome.required_offset)
        return settled

    def _append(self, topic_partition: TopicPartition, records: Any, request: Request, look: Look | None) -> _Outcome:
        if topic_partition.topic in INTERNAL_TOPICS:
            return _Outcome(topic_partition=topic_partition, error=ErrorCode.INVALID_TOPIC_EXCEPTION)
        partition = self._replicas.partitions.get(topic_partition)
        if partition is None:
            return _Outcome(topic_partition=topic_partition, error=self._replicas.error_when_absent(topic_partition))
        if request.api_version < ZSTD_SINCE and _is_zstd(records):
            return _Outcome(topic_partition=topic_partition, error=ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
        result = partition.append(
            bytearray(records or b""),
            acks=request.body.acks,
            now_ms=self._replicas.now_ms(),
            wall_clock_ms=self._replicas.wall_clock_ms(),
            look=look,
            origin=_origin(request),
        )
        if result.error:
            return _Outcome(topic_partition=topic_partition, error=result.error)
        assert partition.state is not None
        return _Outcome(
            topic_partition=topic_partition,
            error=None if request.body.acks == ACKS_ALL else ErrorCode.NONE,
            base_offset=result.base_offset,
            log_start_offset=partition.log.log_start_offset,
            partition=partition,
            required_offset=result.required_offset,
            leader_epoch=partition.state.leader_epoch,
            log_append_time_ms=result.log_append_time_ms,
        )


def _parts(request: Request) -> Iterator[tuple[TopicPartition, Any]]:
    for topic in request.body.topic_data:
        for data in topic.partition_data:
            yield TopicPartition(topic.name, data.index), data.records


def _transactional(request: Request) -> list[tuple[TopicPartition, BatchHeader]]:
    """The parts that a transaction writes."""
    headers = (
        (key, read_header(records, 0))
        for key, records in _parts(request)
        if records is not None and len(records) >= HEADER_SIZE
    )
    return [(key, header) for key, header in headers if header.is_transactional]


def _producer(header: BatchHeader) -> Producer:
    return Producer(header.producer_id, header.producer_epoch)


def _producers(parts: Iterable[tuple[TopicPartition, BatchHeader]]) -> set[Producer]:
    return {_producer(header) for _, header in parts}


def _wants(request: Request) -> Verifying:
    return Verifying.of(request.api_version, aborts_since=ABORTABLE_SINCE, adds_since=ADDS_SINCE)


def _origin(request: Request) -> Origin:
    if request.body.transactional_id is None:
        return Origin.CLIENT
    return Origin.ADDED if _wants(request) is Verifying.ADD else Origin.TRANSACTION


def _is_zstd(records: Any) -> bool:
    return records is not None and len(records) >= HEADER_SIZE and read_header(records, 0).compression == ZSTD


def _response(outcomes: list[_Outcome]) -> Any:
    by_topic: dict[str, list[Any]] = {}
    for outcome in outcomes:
        refused = outcome.error != ErrorCode.NONE
        by_topic.setdefault(outcome.topic_partition.topic, []).append(
            PartitionResponse(
                index=outcome.topic_partition.partition,
                error_code=outcome.error,
                base_offset=UNKNOWN_OFFSET if refused else outcome.base_offset,
                log_append_time_ms=-1 if refused else outcome.log_append_time_ms,
                log_start_offset=UNKNOWN_OFFSET if refused else outcome.log_start_offset,
                record_errors=[],
                error_message=None,
            )
        )
    responses = [TopicResponse(name=topic, partition_responses=parts) for topic, parts in by_topic.items()]
    return ProduceResponse(responses=responses, throttle_time_ms=0)
