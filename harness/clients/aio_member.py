"""aiokafka as a member of a group, and as a transactional producer, on its owner's loop.

Rebalances happen in the library's own tasks; the listener's events are kept until the owner takes them. It asks for
committed offsets in versions without the word "stable" (KIP-447), and sends offsets to a transaction without a
generation: neither is ever known of it. It asks again for ever, so every question has this adapter's time.

It overlooks the error that stands for a whole OffsetFetch (from version 2 on), as while the coordinator loads, takes it
that nothing was committed, and begins elsewhere (0.14). So the error is raised here, and the library asks again.

A coordinator answers who joins when the whole group has: that may take as long as a member is given for its polls, and
longer than any other request. So the requests of a rebalance have that time, and a poll that waits for one ends with
nothing. (The library has one time for all requests, and waits for a rebalance whatever time a poll was given.)

A processor's transactional id alone keeps it from doing a record twice, as before KIP-447. Its producer is opened
before it joins: by then its predecessor's transaction has ended, and its offsets are seen. A rebalance after that may
come before the offsets of its own last transaction are seen, so the client ends at its next poll.
"""

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import aiokafka
from aiokafka import errors
from aiokafka.client import ConnectionGroup

from harness.clients import answers as common
from harness.clients.aio import AioClient, theirs
from harness.clients.members import (
    MAX_POLL_INTERVAL_MS,
    Listener,
    Offsets,
    asked,
    consumer_settings,
    ended,
    producer_settings,
)
from harness.ports.cluster import ReadRecord, TopicPartition
from harness.ports.membership import GroupEvent, TransactionEnd

_OFFSET_FETCH = 9  # its API key
_OF_A_REBALANCE = frozenset({11, 14})  # JoinGroup and SyncGroup
_REBALANCE_S = MAX_POLL_INTERVAL_MS / 1000 + 5  # as Kafka's own consumer waits for its answers
_Result = TypeVar("_Result")


class RebalancedError(Exception):
    """What a member has read may be behind what it has committed."""


class AioMember(AioClient):
    """Implements GroupClient and, with a transactional id, TransactionalClient."""

    _listener: Listener | None = None
    _coordinator: Any = None  # the library's side of the group, which may speak up once more while it is closed
    _commit_tried = False

    def _consumer_settings(self) -> dict[str, Any]:
        return consumer_settings(self._use)

    def _producer_settings(self) -> dict[str, Any]:
        return producer_settings(self._use)

    async def _open_consumer(self) -> Any:
        is_new = self._consumer is None
        consumer = await super()._open_consumer()
        if is_new:
            self._coordinator = consumer._coordinator
            _mind_the_group(self._coordinator)
        return consumer

    async def _in_time(self, work: Awaitable[_Result], timeout_s: float) -> _Result:
        async with asyncio.timeout(timeout_s):
            return await work

    # -- the group ----------------------------------------------------------------------------------------------------

    async def subscribe(self, topics: Sequence[str]) -> None:
        if self._use.transactional_id is not None:
            await self._transactional_producer()
        consumer = await self._open_consumer()
        self._listener = Listener(self._membership, self._clock)
        consumer.subscribe(topics=list(topics), listener=_heard_by(self._listener))

    def _membership(self) -> tuple[int, str]:
        return int(self._coordinator.generation), str(self._coordinator.member_id)

    async def poll(self, limit: int, *, timeout_s: float) -> Sequence[ReadRecord]:
        """Raises RebalancedError in a processor that was assigned partitions again."""
        try:
            records = await super().poll(limit, timeout_s=timeout_s)
        except TimeoutError:
            if self._consumer is None or not self._consumer._subscription.reassignment_in_progress:
                raise
            records = []
        if self._use.transactional_id is not None and self._listener is not None and self._listener.assigned > 1:
            raise RebalancedError("a processor without generations begins anew after a rebalance")
        return records

    def rebalances(self) -> Sequence[GroupEvent]:
        return [] if self._listener is None else self._listener.take()

    async def commit(self, offsets: Mapping[TopicPartition, int]) -> GroupEvent:
        """A generation that changed meanwhile is not known to have been in the request that was answered."""
        consumer = await self._open_consumer()
        wanted = {partition: offsets[ours] for partition, ours in theirs(list(offsets)).items()}

        async def call() -> None:
            await self._in_time(consumer.commit(wanted), self._read_s(0))

        before = self._membership()
        committed = await asked("committed", offsets, call, clock=self._clock, listener=self._listener)
        return replace(committed, generation=before[0] if self._membership() == before else None)

    async def committed(self, partitions: Sequence[TopicPartition]) -> GroupEvent:
        async def call() -> Offsets:
            consumer = await self._open_consumer()
            async with asyncio.timeout(self._read_s(0)):
                return {ours: await consumer.committed(partition) for partition, ours in theirs(partitions).items()}

        return await asked(
            "fetched",
            dict.fromkeys(partitions),
            call,
            clock=self._clock,
            listener=self._listener,
            stable=lambda: False,
        )

    async def seek(self, offsets: Mapping[TopicPartition, int]) -> GroupEvent:
        async def call() -> None:
            consumer = await self._open_consumer()
            for partition, ours in theirs(list(offsets)).items():
                consumer.seek(partition, offsets[ours])

        return await asked("seek", offsets, call, clock=self._clock, listener=self._listener)

    # -- transactions -------------------------------------------------------------------------------------------------

    async def begin_transaction(self) -> None:
        self._commit_tried = False
        producer = await self._transactional_producer()
        await self._in_time(producer.begin_transaction(), common.MAX_BLOCK_MS / 1000 + common.GRACE_S)

    async def _transactional_producer(self) -> Any:
        if self._producer is None:
            self._producer = await self._open_producer()  # which has its producer id when it is open
        return self._producer

    async def send_offsets(self, offsets: Mapping[TopicPartition, int]) -> GroupEvent:
        wanted = {
            partition: aiokafka.structs.OffsetAndMetadata(offsets[ours], "")
            for partition, ours in theirs(list(offsets)).items()
        }

        async def call() -> None:
            sending = self._producer.send_offsets_to_transaction(wanted, self._use.group)
            await self._in_time(sending, self._read_s(0))

        sent = await asked("committed", offsets, call, clock=self._clock, listener=self._listener)
        return replace(sent, generation=None)

    async def end_transaction(self, *, commit: bool) -> TransactionEnd:
        producer, tried_before = self._producer, self._commit_tried
        within_s = self._settings.delivery_timeout_ms / 1000 + common.GRACE_S
        self._commit_tried = tried_before or commit
        return await ended(
            (lambda: self._in_time(producer.commit_transaction(), within_s)) if commit else None,
            lambda: self._in_time(producer.abort_transaction(), within_s),
            tried_before=tried_before,
        )

    # -- the end ------------------------------------------------------------------------------------------------------

    async def crash(self) -> None:
        """Ends without a commit, an abort or leaving the group, which waits for the session timeout."""
        if self._consumer is not None:
            self._consumer._coordinator._maybe_leave_group = _say_nothing
        await self.close()


def _mind_the_group(coordinator: Any) -> None:
    send = coordinator._send_req

    async def heeding(request: Any) -> Any:
        if request.API_KEY in _OF_A_REBALANCE:
            return await _given_time(coordinator, send(request))
        answer = await send(request)
        if request.API_KEY == _OFFSET_FETCH and (code := getattr(answer, "error_code", 0)):
            error = errors.for_code(code)
            if error is errors.NotCoordinatorForGroupError:
                coordinator.coordinator_dead()  # so that another one is looked up
            raise error()
        return answer

    coordinator._send_req = heeding


async def _given_time(coordinator: Any, sent: Awaitable[_Result]) -> _Result:
    """The connection's time is that of its requests, and read when one is sent."""
    place = (coordinator.coordinator_id, ConnectionGroup.COORDINATION)
    is_ready = coordinator.coordinator_id is not None and await coordinator._client.ready(place[0], group=place[1])
    connection = coordinator._client._conns.get(place) if is_ready else None
    if connection is None:
        return await sent  # which fails, and says why
    usual_s, connection._request_timeout = connection._request_timeout, _REBALANCE_S
    try:
        return await sent
    finally:
        connection._request_timeout = usual_s


def _heard_by(listener: Listener) -> Any:
    class Heard(aiokafka.ConsumerRebalanceListener):  # type: ignore[misc]  # the library has no types
        def on_partitions_revoked(self, revoked: Any) -> None:
            listener.on_partitions_revoked(revoked)

        def on_partitions_assigned(self, assigned: Any) -> None:
            listener.on_partitions_assigned(assigned)

    return Heard()


async def _say_nothing() -> None:
    return None
