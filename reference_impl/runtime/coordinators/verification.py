"""Asks a transaction's coordinator whether a partition belongs to it, before its first record there is appended.

A record that was on its way when its transaction ended would begin another one, which nobody ever ends (KIP-890;
docs/replication.md R86).
"""

from collections.abc import Iterable, Mapping, Sequence

from reference_impl.core.identifiers import NO_LEADER, TRANSACTIONS_TOPIC, ErrorCode, TopicPartition
from reference_impl.core.partition import Partition
from reference_impl.core.placement import coordinating_partition
from reference_impl.runtime.connections import PeerUnreachable
from reference_impl.runtime.coordinators.markers import AskBroker
from reference_impl.runtime.handlers.metadata import MetadataCache
from reference_impl.wire.api_keys import ApiKey
from reference_impl.wire.key_values import Producer
from reference_impl.wire.messages import request_class

VERIFYING_VERSION = 4

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
_AS_TOLD: Mapping[ErrorCode, ErrorCode] = {ErrorCode.PRODUCER_FENCED: ErrorCode.INVALID_PRODUCER_EPOCH}


class TransactionVerifier:
    def __init__(self, metadata: MetadataCache, ask: AskBroker) -> None:
        self._metadata = metadata
        self._ask = ask

    async def refusals(
        self, partitions: Iterable[Partition], transactional_id: str, producer: Producer, *, for_now: ErrorCode
    ) -> dict[TopicPartition, ErrorCode]:
        """Where the producer may not append now, though these partitions' leader is asked. `for_now` is the error after
        which its client tries again."""
        guards = {
            partition: guard
            for partition in dict.fromkeys(partitions)  # a request may name one twice
            if (guard := partition.begin_verification(producer.producer_id)) is not None
        }
        if not guards:
            return {}
        keys = [partition.topic_partition for partition in guards]
        told = await self._asked(transactional_id, producer, keys)
        refused = {}
        for partition, guard in guards.items():  # all at once: no marker comes in between
            error = told.get(partition.topic_partition, ErrorCode.COORDINATOR_NOT_AVAILABLE)
            is_refused = error is not ErrorCode.NONE
            may_append = partition.end_verification(producer.producer_id, guard, is_refused=is_refused)
            if not may_append:
                error = error if is_refused else ErrorCode.INVALID_TXN_STATE
                refused[partition.topic_partition] = for_now if error in _FOR_NOW else _AS_TOLD.get(error, error)
        return refused

    async def _asked(
        self, transactional_id: str, producer: Producer, keys: Sequence[TopicPartition]
    ) -> Mapping[TopicPartition, ErrorCode]:
        """Nothing if the coordinator cannot be asked."""
        leader = self._coordinator(transactional_id)
        if leader == NO_LEADER:
            return {}
        wanted = OfTransaction(
            transactional_id=transactional_id,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            verify_only=True,
            topics=[OfTopic(name=key.topic, partitions=[key.partition]) for key in keys],
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
