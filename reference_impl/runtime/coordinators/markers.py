"""Has the leaders of a transaction's partitions write its markers, again and again until each is replicated.

All markers that wait for one leader go in one request (WriteTxnMarkers), one request to a leader at a time; no leader's
markers wait for another leader. Implements
core.transactions.transaction_data.MarkerWriter (docs/replication.md R74).
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple

from reference_impl.core.identifiers import NO_LEADER, ErrorCode, TopicPartition
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
Written = Callable[[Iterable[TopicPartition]], None]


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
        return TermMarkers(self, sent_before=self._metadata.updates)

    def stop(self) -> None:
        for task in self._sending.values():
            task.cancel()

    def split(self, markers: TransactionMarkers) -> list[TransactionMarkers]:
        """For each leader its own, as far as the leaders are known."""
        by_leader: dict[int, set[TopicPartition]] = {}
        for key in markers.partitions:
            by_leader.setdefault(self._leader(key), set()).add(key)
        return [markers._replace(partitions=frozenset(keys)) for keys in by_leader.values()]

    def _leader(self, key: TopicPartition) -> int:
        state = self._metadata.state(key)
        return NO_LEADER if state is None else state.leader

    def deleted(self, markers: TransactionMarkers, sent_before: int) -> set[TopicPartition]:
        """Those whose topic the controller did not tell of in an update after that many. Until a coordinator's term has
        seen one, what this broker knows may be older than the transaction."""
        if self._metadata.updates <= sent_before:
            return set()
        return {key for key in markers.partitions if self._metadata.state(key) is None}

    async def ask(self, markers: TransactionMarkers) -> Outcomes:
        """One try, of those of one leader."""
        leader = self._leader(min(markers.partitions))
        return {} if leader == NO_LEADER else await self._queue(leader, markers)

    def _queue(self, leader: int, markers: TransactionMarkers) -> "asyncio.Future[Outcomes]":
        job = _Job(markers, asyncio.get_running_loop().create_future())
        self._waiting.setdefault(leader, []).append(job)
        if leader not in self._sending:
            self._sending[leader] = asyncio.ensure_future(self._send(leader))
        return job.outcome

    async def _send(self, leader: int) -> None:
        try:
            while jobs := self._waiting.pop(leader, []):
                outcomes: Mapping[int, Outcomes] = {}
                try:
                    outcomes = await self._send_once(leader, [job for job in jobs if not job.outcome.done()])
                finally:  # whatever happened, who waits tries again
                    for job in jobs:
                        answer_once(job.outcome, partial(outcomes.get, job.markers.producer.producer_id, {}))
        finally:
            del self._sending[leader]  # at once: who comes next begins anew

    async def _send_once(self, leader: int, jobs: list[_Job]) -> Mapping[int, Outcomes]:
        """By producer id: a producer has one transaction at a time."""
        if not jobs:
            return {}
        body = WriteTxnMarkersRequest(markers=[_writable(job.markers) for job in jobs])
        try:
            answer = await self._ask(leader, ApiKey.WRITE_TXN_MARKERS, WRITE_TXN_MARKERS_VERSION, body)
        except PeerUnreachable as error:
            logger.info("markers for leader %d: %s", leader, error)
            return {}
        found: dict[int, dict[TopicPartition, ErrorCode]] = {}
        for result in answer.markers:
            for topic in result.topics:
                for each in topic.partitions:
                    key = TopicPartition(topic.name, each.partition_index)
                    found.setdefault(result.producer_id, {})[key] = ErrorCode(each.error_code)
        return found


class TermMarkers:
    """Those of one term of a coordinator."""

    def __init__(self, sender: MarkerSender, *, sent_before: int) -> None:
        """`sent_before`: the updates of the metadata when the term began."""
        self._sender = sender
        self._sent_before = sent_before
        self._tasks: set[asyncio.Task[None]] = set()

    def write(self, markers: TransactionMarkers, written: Written) -> None:
        for each in self._sender.split(markers):
            task = asyncio.ensure_future(self._write(each, written))
            self._tasks.add(task)
            task.add_done_callback(self._ended)

    async def _write(self, markers: TransactionMarkers, written: Written) -> None:
        """Of one leader; whoever has another one meanwhile goes on in a task of its own."""
        left = markers.partitions
        while left:
            markers, *others = self._sender.split(markers._replace(partitions=left))
            for each in others:
                self.write(each, written)
            gone = self._sender.deleted(markers, self._sent_before)
            outcomes = {} if gone else await self._sender.ask(markers)
            fenced = [f"{key}: {error.name}" for key, error in outcomes.items() if error in FENCED]
            if fenced:
                logger.warning("markers of %.100r are left to a successor: %s", markers.transactional_id, fenced[0])
                return
            done = gone | {key for key, error in outcomes.items() if not error}
            left = markers.partitions - done
            if done:
                written(done)
            if left:
                await asyncio.sleep(RETRY_S)

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
