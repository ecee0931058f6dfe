"""kafka-python as a member of a group, and as a transactional producer.

Rebalances happen inside poll(), in the library's thread; the listener's events are kept until the owner takes them. If
an answer with committed offsets comes too late for one poll, the library (3.0) keeps it for the next one that requests
the same partitions, even generations later: a member would then start behind offsets that others have committed since.
So these cached offsets are deleted whenever partitions are assigned. kafka-python 3.0 ends transactions with EndTxn up
to version 3: the epoch stays the same from one transaction to the next (the protocol before KIP-890), and only the
client knows the begin.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from kafka import ConsumerRebalanceListener, OffsetAndMetadata
from kafka import TopicPartition as KafkaTopicPartition

from harness.clients.kafka_python import OFFSET_FETCH, KafkaPythonClient, theirs
from harness.clients.members import Listener, consumer_settings, producer_settings
from harness.clients.threaded_member import ThreadedMember
from harness.host.clock import SystemClock
from harness.ports.cluster import TopicPartition

STABLE_SINCE = 7  # the version of OffsetFetch

ConsumerRebalanceListener.register(Listener)


class KafkaPythonMember(ThreadedMember, KafkaPythonClient):
    """Implements GroupClient and, with a transactional id, TransactionalClient."""

    def _consumer_settings(self) -> dict[str, Any]:
        return consumer_settings(self._use)

    def _producer_settings(self) -> dict[str, Any]:
        return producer_settings(self._use)

    # -- the group ----------------------------------------

    def _subscribe(self, topics: Sequence[str]) -> None:
        consumer = self._open_consumer()

        def membership() -> tuple[int, str]:
            known = consumer.group_metadata()
            return known.generation_id, known.member_id

        self._listener = Listener(membership, SystemClock(), consumer._coordinator._offset_fetch_futures.clear)
        consumer.subscribe(topics=list(topics), listener=self._listener)

    def _commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """The library builds each attempt's request with the generation of that moment: one that changed meanwhile is
        not known to have been in the request that was answered."""
        consumer = self._open_consumer()
        self._commit_generation = before = consumer.group_metadata().generation_id
        try:
            consumer.commit(_with_metadata(offsets), timeout_ms=self._read_timeout_ms)
        finally:
            if consumer.group_metadata().generation_id != before:
                self._commit_generation = None

    def _committed(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int | None]:
        consumer = self._open_consumer()
        return {
            ours: consumer.committed(partition, timeout_ms=self._read_timeout_ms)
            for partition, ours in theirs(partitions).items()
        }

    def _seek(self, offsets: Mapping[TopicPartition, int]) -> None:
        for partition, offset in offsets.items():
            self._open_consumer().seek(KafkaTopicPartition(partition.topic, partition.partition), offset)

    def _asks_for_stable_offsets(self) -> bool | None:
        """Whether the last fetch of committed offsets did (KIP-447); the library does with read_committed."""
        version = self._log.last_version(OFFSET_FETCH)
        return None if version is None else self._use.isolation == "read_committed" and version >= STABLE_SINCE

    # -- transactions -------------------------------------

    def _begin_transaction(self) -> None:
        if self._producer is None:
            producer = self._open_producer()
            self._producer = producer
            producer.init_transactions()  # raises after max_block_ms; the owner then creates a new client
        self._producer.begin_transaction()

    def _send_offsets(self, offsets: Mapping[TopicPartition, int]) -> None:
        membership = self._open_consumer().group_metadata()
        self._commit_generation = membership.generation_id
        self._producer.send_offsets_to_transaction(_with_metadata(offsets), membership)

    def _commit_transaction(self) -> None:
        self._producer.commit_transaction()

    def _abort_transaction(self) -> None:
        self._producer.abort_transaction()

    # -- the end ------------------------------------------

    async def crash(self) -> None:
        """Ends without a commit, an abort or leaving the group, which waits for the session timeout."""
        if self._consumer is not None:
            self._consumer._coordinator.maybe_leave_group = _say_nothing
        if self._producer is not None:
            self._producer._sender.force_close()
        await self.close()

    def _abandon(self) -> None:
        """A hanging call prevents the consumer from being closed: without heartbeats the group continues without it."""
        if self._consumer is not None:
            self._consumer._coordinator._heartbeat_closed = True
        super()._abandon()


def _with_metadata(offsets: Mapping[TopicPartition, int]) -> dict[Any, Any]:
    return {
        KafkaTopicPartition(partition.topic, partition.partition): OffsetAndMetadata(offset, "", -1)
        for partition, offset in offsets.items()
    }


def _say_nothing(*_: Any, **__: Any) -> None:
    return None
