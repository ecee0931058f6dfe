"""Has the leaders of a transaction's partitions write its markers, again and again until each is replicated.

All markers that wait for one leader go in one request (WriteTxnMarkers), one request to a leader at a time. Implements
core.transactions.transaction_data.MarkerWriter (docs/replication.md R74).
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple

from reference_impl.core.identifiers import NO_LEADER, TRANSACTIONS_TOPIC, ErrorCode, TopicPartition
from reference_impl.core.transactions.transaction_data import TransactionMarkers
from reference_impl.runtime.connections import PeerUnreachable
from reference_impl.runtime.coordinators.waiting import answer_once
from reference_impl.runtime.handlers.metadata import MetadataCache
from reference_impl.wire.api_keys import ApiKey
from reference_impl.wire.messages import request_class

logger = logging.getLogger(__name__)

WRITE_TXN_MARKERS_VERSION = 1
RETRY_S = 0.05
# Somebody newer is at work: this coordinator's term is over, or the transaction's end was written by its successor.
FENCED = frozenset((ErrorCode.TRANSACTION_COORDINATOR_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH))

WriteTxnMarkersRequest = request_class(ApiKey.WRITE_TXN_MARKERS)
WritableTxnMarker = WriteTxnMarkersRequest.WritableTxnMarker
MarkerTopic = WritableTxnMarker.WritableTxnMarkerTopic

Outcomes = Mapping[TopicPartition, ErrorCode]
AskBroker = Callable[[int, int, int, Any], Awaitable[Any]]
"""Broker, API key, version and body; the answer's body. Raises PeerUnreachable."""


class _Job(NamedTuple):
    markers: TransactionMarkers  # those of one leader
    outcome: "asyncio.Future[Outcomes]"


class MarkerSender:
    def __init__(self, metadata: MetadataCache, ask: AskBroker) -> None:
        self._metadata = metadata
        self._ask = ask
        self._waiting: dict[int, list[_Job]] = {}  # by leader
        self._sending: dict[int, asyncio.Task[None]] = {}

    def of_term(self) -> "TermMarkers":
        return TermMarkers(self)

    def stop(self) -> None:
        for task in self._sending.values():
            task.cancel()

    async def write_all(self, markers: TransactionMarkers, written: Callable[[Iterable[TopicPartition]], None]) -> None:
        left = set(markers.partitions)
        while left:
            gone = {key for key in left if self._is_deleted(key)}
            outcomes = await self._try(markers, left - gone)
            fenced = [f"{key}: {error.name}" for key, error in outcomes.items() if error in FENCED]
            if fenced:
                logger.warning("markers of %.100r are left to a successor: %s", markers.transactional_id, fenced[0])
                return
            done = gone | {key for key, error in outcomes.items() if not error}
            if done:
                left -= done
                written(done)
            if left:
                await asyncio.sleep(RETRY_S)

    def _is_deleted(self, key: TopicPartition) -> bool:
        """A topic that the controller does not tell of, though it tells of the coordinators' own."""
        return self._metadata.state(key) is None and bool(self._metadata.partitions(TRANSACTIONS_TOPIC))

    async def _try(self, markers: TransactionMarkers, left: set[TopicPartition]) -> Outcomes:
        by_leader: dict[int, set[TopicPartition]] = {}
        for key in left:
            state = self._metadata.state(key)
            if state is not None and state.leader != NO_LEADER:
                by_leader.setdefault(state.leader, set()).add(key)
        asked = [
            self._queue(leader, markers._replace(partitions=frozenset(keys))) for leader, keys in by_leader.items()
        ]
        outcomes: dict[TopicPartition, ErrorCode] = {}
        for answer in asked:
            outcomes |= await answer
        return outcomes

    def _queue(self, leader: int, markers: TransactionMarkers) -> "asyncio.Future[Outcomes]":
        job = _Job(markers, asyncio.get_running_loop().create_future())
        self._waiting.setdefault(leader, []).append(job)
        if leader not in self._sending:
            self._sending[leader] = asyncio.ensure_future(self._send(leader))
        return job.outcome

    async def _send(self, leader: int) -> None:
        try:
            while jobs := self._waiting.pop(leader, []):
                outcomes: dict[int, Outcomes] = {}
                try:
                    outcomes = await self._send_once(leader, [job for job in jobs if not job.outcome.done()])
                finally:  # whatever happened, who waits tries again
                    for job in jobs:
                        answer_once(job.outcome, partial(outcomes.get, job.markers.producer.producer_id, {}))
        finally:
            del self._sending[leader]  # at once: who comes next begins anew

    async def _send_once(self, leader: int, jobs: list[_Job]) -> dict[int, Outcomes]:
        """By producer id: a producer has one transaction at a time."""
        if not jobs:
            return {}
        body = WriteTxnMarkersRequest(markers=[_writable(job.markers) for job in jobs])
        try:
            answer = await self._ask(leader, ApiKey.WRITE_TXN_MARKERS, WRITE_TXN_MARKERS_VERSION, body)
        except PeerUnreachable as error:
            logger.info("markers for leader %d: %s", leader, error)
            return {}
        return {
            result.producer_id: {
                TopicPartition(topic.name, each.partition_index): ErrorCode(each.error_code)
                for topic in result.topics
                for each in topic.partitions
            }
            for result in answer.markers
        }


class TermMarkers:
    """Those of one term of a coordinator."""

    def __init__(self, sender: MarkerSender) -> None:
        self._sender = sender
        self._tasks: set[asyncio.Task[None]] = set()

    def write(self, markers: TransactionMarkers, written: Callable[[Iterable[TopicPartition]], None]) -> None:
        task = asyncio.ensure_future(self._sender.write_all(markers, written))
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            logger.error("writing markers failed; the next coordinator will write them", exc_info=error)

    def stop(self) -> None:
        for task in self._tasks:
            task.cancel()


def _writable(markers: TransactionMarkers) -> Any:
    by_topic: dict[str, list[int]] = {}
    for key in sorted(markers.partitions):
        by_topic.setdefault(key.topic, []).append(key.partition)
    return WritableTxnMarker(
        producer_id=markers.producer.producer_id,
        producer_epoch=markers.producer.producer_epoch,
        transaction_result=markers.marker.is_commit,
        topics=[MarkerTopic(name=name, partition_indexes=numbers) for name, numbers in by_topic.items()],
        coordinator_epoch=markers.marker.coordinator_epoch,
    )
