"""Asks a transaction's coordinator whether a partition belongs to it, or to add it, before its first record there is
appended.

A record that was on its way when its transaction ended would begin another one, which nobody ever ends (KIP-890;
docs/replication.md R86, R88).
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum, auto

from reference_impl.core.identifiers import NO_LEADER, TRANSACTIONS_TOPIC, ErrorCode, TopicPartition
from reference_impl.core.partition import Partition
from reference_impl.core.placement import coordinating_partition
from reference_impl.runtime.connections import PeerUnreachable
from reference_impl.runtime.coordinators.markers import AskBroker
from reference_impl.runtime.handlers.metadata import MetadataCache
from reference_impl.wire.api_keys import ApiKey
from reference_impl.wire.key_values import Producer
from reference_impl.wire.messages import request_class

VERIFYING_VERSION = 5
ADDED_WITHIN_S = 0.1  # the transaction before may still be ending: then the coordinator is asked again, as by Kafka
ADD_AGAIN_AFTER_S = 0.02

AddPartitionsToTxnRequest = request_class(ApiKey.ADD_PARTITIONS_TO_TXN)
OfTransaction = AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction
OfTopic = OfTransaction.AddPartitionsToTxnTopic

# What is only not known now; whoever asks comes again.
_FOR_NOW = frozenset(
    (
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    )
)
_ERROR_FOR_CLIENTS: Mapping[ErrorCode, ErrorCode] = {ErrorCode.PRODUCER_FENCED: ErrorCode.INVALID_PRODUCER_EPOCH}


class Verifying(Enum):
    """What a producer's request wants, by its version."""

    VERIFY = auto()
    VERIFY_OR_ABORT = auto()  # it knows TRANSACTION_ABORTABLE
    ADD = auto()  # its transactions have an epoch each (R88)

    @classmethod
    def of(cls, version: int, *, aborts_since: int, adds_since: int) -> "Verifying":
        if version >= adds_since:
            return cls.ADD
        return cls.VERIFY_OR_ABORT if version >= aborts_since else cls.VERIFY

    def error_for_client(self, error: ErrorCode, for_now: ErrorCode) -> ErrorCode:
        if error in _FOR_NOW:
            return for_now
        if error is ErrorCode.INVALID_TXN_STATE and self is not Verifying.VERIFY:
            return ErrorCode.TRANSACTION_ABORTABLE
        return _ERROR_FOR_CLIENTS.get(error, error)


class TransactionVerifier:
    def __init__(self, metadata: MetadataCache, ask: AskBroker) -> None:
        self._metadata = metadata
        self._ask = ask

    async def refusals(
        self,
        partitions: Iterable[Partition],
        transactional_id: str,
        producer: Producer,
        *,
        wants: Verifying,
        for_now: ErrorCode,
    ) -> dict[TopicPartition, ErrorCode]:
        """Where the producer may not append now, though these partitions' leader is asked. `for_now` is the error after
        which its client tries again."""
        adds = wants is Verifying.ADD
        guards = {
            partition: guard
            for partition in dict.fromkeys(partitions)  # a request may name one twice
            if (guard := partition.begin_verification(producer, adds=adds)) is not None
        }
        if not guards:
            return {}
        keys = [partition.topic_partition for partition in guards]
        answers = await (self._added if adds else self._verified)(transactional_id, producer, keys)
        refused = {}
        for partition, guard in guards.items():  # all at once: no marker comes in between
            error = answers.get(partition.topic_partition, ErrorCode.COORDINATOR_NOT_AVAILABLE)
            is_refused = error is not ErrorCode.NONE
            may_append = partition.end_verification(producer, guard, is_refused=is_refused)
            if is_refused:
                refused[partition.topic_partition] = wants.error_for_client(error, for_now)
            elif not may_append and not adds:  # a marker came; one of an own epoch is told by its epoch
                refused[partition.topic_partition] = ErrorCode.INVALID_TXN_STATE
        return refused

    async def _verified(
        self, transactional_id: str, producer: Producer, keys: Sequence[TopicPartition]
    ) -> Mapping[TopicPartition, ErrorCode]:
        return await self._asked(transactional_id, producer, keys, adds=False)

    async def _added(
        self, transactional_id: str, producer: Producer, keys: Sequence[TopicPartition]
    ) -> Mapping[TopicPartition, ErrorCode]:
        loop = asyncio.get_running_loop()
        ends_s = loop.time() + ADDED_WITHIN_S
        while True:
            answers = await self._asked(transactional_id, producer, keys, adds=True)
            if ErrorCode.CONCURRENT_TRANSACTIONS not in answers.values() or loop.time() >= ends_s:
                return answers
            await asyncio.sleep(ADD_AGAIN_AFTER_S)

    async def _asked(
        self, transactional_id: str, producer: Producer, keys: Sequence[TopicPartition], *, adds: bool
    ) -> Mapping[TopicPartition, ErrorCode]:
        """Nothing if the coordinator cannot be asked."""
        leader = self._coordinator(transactional_id)
        if leader == NO_LEADER:
            return {}
        by_topic: dict[str, list[int]] = {}
        for key in keys:
            by_topic.setdefault(key.topic, []).append(key.partition)
        wanted = OfTransaction(
            transactional_id=transactional_id,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            verify_only=not adds,
            topics=[OfTopic(name=name, partitions=numbers) for name, numbers in by_topic.items()],
        )
        body = AddPartitionsToTxnRequest(transactions=[wanted])
        try:
            answer = await self._ask(leader, ApiKey.ADD_PARTITIONS_TO_TXN, VERIFYING_VERSION, body)
        except PeerUnreachable:
            return {}
        return {
            TopicPartition(topic.name, part.partition_index): ErrorCode(part.partition_error_code)
            for transaction in answer.results_by_transaction
            for topic in transaction.topic_results
            for part in topic.results_by_partition
        }

    def _coordinator(self, transactional_id: str) -> int:
        count = len(self._metadata.partitions(TRANSACTIONS_TOPIC))
        if not count:
            return NO_LEADER
        state = self._metadata.state(
            TopicPartition(TRANSACTIONS_TOPIC, coordinating_partition(transactional_id, count))
        )
        return NO_LEADER if state is None else state.leader
