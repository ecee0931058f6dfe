"""confluent-kafka (librdkafka) as a member of a group, and as a transactional producer.

Rebalances are told inside poll(), in the library's thread; the listener's events are kept until the owner takes them.
The generation is read from the bytes that the library hands from a consumer to a producer (KIP-447): it has no other
word for it; of KIP-848's protocol it is the member's epoch. Whether it asked for stable offsets it does not say. A
commit of a transaction that ran out of time may be asked for again and nothing else: its outcome is unknown, and the
owner replaces the client.
"""

import struct
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import confluent_kafka
from confluent_kafka import OFFSET_INVALID, KafkaError, KafkaException

from harness.clients import answers as common
from harness.clients.confluent import ConfluentClient
from harness.clients.members import MAX_POLL_INTERVAL_MS, RETRY_BACKOFF_MS, Listener
from harness.clients.threaded_member import ThreadedMember
from harness.host.clock import SystemClock
from harness.ports.cluster import TopicPartition

_METADATA = struct.Struct("=7si")  # CGMDv2: (librdkafka's mark and its version), then the generation
_SEEK_AGAIN_S = 0.05


class ConfluentMember(ThreadedMember, ConfluentClient):
    """Implements GroupClient and, with a transactional id, TransactionalClient."""

    def _consumer_settings(self) -> dict[str, Any]:
        use = self._use
        classic = {
            "session.timeout.ms": use.session_timeout_ms,
            "heartbeat.interval.ms": max(100, use.session_timeout_ms // 6),
        }
        return {
            "group.id": use.group,
            "max.poll.interval.ms": max(MAX_POLL_INTERVAL_MS, use.session_timeout_ms),
            "retry.backoff.ms": RETRY_BACKOFF_MS,
            **({} if use.group_instance_id is None else {"group.instance.id": use.group_instance_id}),
            # With KIP-848 both times are the brokers' to say.
            **(classic if use.group_protocol == "classic" else {"group.protocol": use.group_protocol}),
        }

    def _producer_settings(self) -> dict[str, Any]:
        use = self._use
        if use.transactional_id is None:
            return {}
        return {
            "transactional.id": use.transactional_id,
            "transaction.timeout.ms": use.transaction_timeout_ms,
            # The library takes no longer ones than the transaction's.
            "message.timeout.ms": min(self._settings.delivery_timeout_ms, use.transaction_timeout_ms),
            "socket.timeout.ms": min(self._settings.request_timeout_ms, use.transaction_timeout_ms),
        }

    # -- the group ----------------------------------------------------------------------------------------------------

    def _subscribe(self, topics: Sequence[str]) -> None:
        self._listener = listener = Listener(self._membership, SystemClock())
        self._open_consumer().subscribe(
            list(topics),
            on_assign=_told(listener.on_partitions_assigned),
            on_revoke=_told(listener.on_partitions_revoked),
            on_lost=_told(listener.on_partitions_lost),
        )

    def _membership(self) -> tuple[int, str]:
        consumer = self._open_consumer()
        return _generation(consumer.consumer_group_metadata()), str(consumer.memberid() or "")

    def _commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """A generation that changed meanwhile is not known to have been in the request that was answered."""
        self._commit_generation, _ = before = self._membership()
        try:
            _raise_any(self._open_consumer().commit(offsets=_with_offsets(offsets), asynchronous=False))
        finally:
            if self._membership() != before:
                self._commit_generation = None

    def _committed(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int | None]:
        wanted = [confluent_kafka.TopicPartition(each.topic, each.partition) for each in partitions]
        answered = _raise_any(self._open_consumer().committed(wanted, timeout=self._read_timeout_ms / 1000))
        return {
            TopicPartition(topic=each.topic, partition=each.partition): (
                None if each.offset == OFFSET_INVALID else each.offset
            )
            for each in answered
        }

    def _seek(self, offsets: Mapping[TopicPartition, int]) -> None:
        """The library refuses it until it has asked for the committed offset of what was just assigned."""
        deadline = time.monotonic() + self._read_timeout_ms / 1000
        for place in _with_offsets(offsets):
            while True:
                try:
                    self._open_consumer().seek(place)
                    break
                except KafkaException as error:
                    if error.args[0].code() != KafkaError._STATE or time.monotonic() > deadline:
                        raise
                    time.sleep(_SEEK_AGAIN_S)

    # -- transactions -------------------------------------------------------------------------------------------------

    def _begin_transaction(self) -> None:
        if self._producer is None:
            producer = self._open_producer()
            producer.init_transactions(common.MAX_BLOCK_MS / 1000)  # raises then; the owner creates a new client
            self._producer = producer
        self._producer.begin_transaction()

    def _send_offsets(self, offsets: Mapping[TopicPartition, int]) -> None:
        metadata = self._open_consumer().consumer_group_metadata()
        self._commit_generation = _generation(metadata)
        self._producer.send_offsets_to_transaction(_with_offsets(offsets), metadata, self._read_timeout_ms / 1000)

    def _commit_transaction(self) -> None:
        try:
            self._producer.commit_transaction(self._settings.delivery_timeout_ms / 1000)
        except KafkaException as error:
            if error.args[0].code() == KafkaError._TIMED_OUT:
                raise TimeoutError from error
            raise

    def _abort_transaction(self) -> None:
        self._producer.abort_transaction(self._settings.delivery_timeout_ms / 1000)

    # -- the end ------------------------------------------------------------------------------------------------------

    async def crash(self) -> None:
        """Ends without a commit, an abort or leaving the group, which waits for the session timeout: a consumer that
        is not closed does not leave."""
        self._consumer = None
        await self.close()


def _told(hear: Callable[[Any], None]) -> Callable[[Any, Any], None]:
    return lambda _, partitions: hear(partitions)


def _generation(metadata: bytes) -> int:
    return int(_METADATA.unpack_from(metadata)[1])


def _with_offsets(offsets: Mapping[TopicPartition, int]) -> list[Any]:
    return [confluent_kafka.TopicPartition(each.topic, each.partition, offset) for each, offset in offsets.items()]


def _raise_any(answered: Any) -> Any:
    """What was answered, unless one of the partitions was answered with an error."""
    for each in answered:
        if each.error is not None:
            raise KafkaException(each.error)
    return answered
