"""Fetch, for consumers (up to the high watermark, or the last stable offset) and replicas (up to the log end).

A fetch is answered at once if there is enough data, an error or a divergence; otherwise it is parked until new data, a
change of role or the end of max_wait_ms. The progress of a replica is counted when its fetch arrives, never when a
parked one completes. A risen high watermark alone does not complete a parked replica fetch, so an idle follower's high
watermark lags (docs/replication.md R19). There are no fetch sessions: every answer has session id 0, "no session" for
every client.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from reference_impl.core.identifiers import ErrorCode, TopicPartition
from reference_impl.core.partition import Partition, ReadResult
from reference_impl.runtime.replication.purgatory import Purgatory, Waiting
from reference_impl.runtime.replication.replica_identity import identity_in
from reference_impl.runtime.replication.replica_manager import ReplicaManager
from reference_impl.runtime.server import Answer, Caller, CloseConnection
from reference_impl.wire.api_keys import ApiKey
from reference_impl.wire.messages import Request, response_class

FetchResponse = response_class(ApiKey.FETCH)
TopicResponse = FetchResponse.FetchableTopicResponse
PartitionData = TopicResponse.PartitionData
EpochEndOffset = PartitionData.EpochEndOffset
AbortedTransaction = PartitionData.AbortedTransaction

FETCH_SESSION_ID_NOT_FOUND = 70
READ_COMMITTED = 1
FETCH_MAX_BYTES = 55 * 1024 * 1024  # Kafka's default of fetch.max.bytes


@dataclass(frozen=True, kw_only=True, slots=True)
class _Wanted:
    topic_partition: TopicPartition
    fetch_offset: int
    max_bytes: int
    current_leader_epoch: int
    last_fetched_epoch: int
    log_start_offset: int  # of a replica


@dataclass(frozen=True, kw_only=True, slots=True)
class _Outcome:
    wanted: _Wanted
    error: ErrorCode
    result: ReadResult | None = None

    @property
    def size(self) -> int:
        return len(self.result.records) if self.result is not None else 0

    @property
    def urgent(self) -> bool:
        """The fetcher must get this answer now."""
        return bool(self.error) or (self.result is not None and self.result.diverging is not None)


class FetchHandler:
    def __init__(self, replicas: ReplicaManager, purgatory: Purgatory) -> None:
        self._replicas = replicas
        self._purgatory = purgatory

    def answer(self, request: Request, caller: Caller) -> Answer:
        body = request.body
        replica = self._replica(request, caller)
        if body.session_id:
            return FetchResponse(throttle_time_ms=0, error_code=FETCH_SESSION_ID_NOT_FOUND, session_id=0, responses=[])
        fetch = _Fetch(
            replicas=self._replicas,
            wanted=[
                _Wanted(
                    topic_partition=TopicPartition(topic.topic, partition.partition),
                    fetch_offset=partition.fetch_offset,
                    max_bytes=partition.partition_max_bytes,
                    current_leader_epoch=partition.current_leader_epoch,
                    last_fetched_epoch=partition.last_fetched_epoch,
                    log_start_offset=partition.log_start_offset,
                )
                for topic in body.topics
                for partition in topic.partitions
            ],
            replica=replica,
            min_bytes=body.min_bytes,
            max_bytes=min(body.max_bytes, FETCH_MAX_BYTES),
            read_committed=body.isolation_level == READ_COMMITTED,
        )
        early = self._replicas.about_to_lead(wanted.topic_partition for wanted in fetch.wanted) if replica else None
        return self._answer_when_leading(fetch, body, early) if early else self._answer(fetch, body)

    async def _answer_when_leading(self, fetch: "_Fetch", body: Any, early: set[asyncio.Future[None]]) -> Answer:
        """Delays the answer to a follower that learned of a new leader before the leader did; an error would make it
        back off much longer."""
        await asyncio.wait(early, timeout=body.max_wait_ms / 1000)
        answer = self._answer(fetch, body)
        return await answer if isinstance(answer, asyncio.Future) else answer

    def _answer(self, fetch: "_Fetch", body: Any) -> Answer:
        outcomes = fetch.read(account=True)
        if body.max_wait_ms <= 0 or not fetch.wanted or fetch.is_enough(outcomes):
            return fetch.response(outcomes)
        fetch.park_marks()
        keys = [wanted.topic_partition for wanted in fetch.wanted]
        waiting = Waiting(keys, fetch.answer_if_enough, lambda: fetch.response(fetch.read(account=False)))
        return self._purgatory.park(waiting, body.max_wait_ms)

    def _replica(self, request: Request, caller: Caller) -> tuple[int, int] | None:
        if request.body.replica_id < 0:
            return None
        identity = identity_in(caller.client_id)
        if identity is None or identity[0] != request.body.replica_id:
            raise CloseConnection(
                f"replica {request.body.replica_id} fetches as {caller.client_id!r}, without an epoch"
            )
        return identity


class _Fetch:
    """One fetch request: its reads, and whether they are enough."""

    def __init__(
        self,
        *,
        replicas: ReplicaManager,
        wanted: list[_Wanted],
        replica: tuple[int, int] | None,
        min_bytes: int,
        max_bytes: int,
        read_committed: bool,
    ) -> None:
        self.wanted = wanted
        self._replicas = replicas
        self._replica = replica
        self._min_bytes = min_bytes
        self._max_bytes = max_bytes
        self._read_committed = read_committed
        self._epochs: dict[TopicPartition, int] = {}

    def read(self, *, account: bool) -> list[_Outcome]:
        left = self._max_bytes
        outcomes = []
        for wanted in self.wanted:
            outcome = self._read_one(wanted, max_bytes=max(min(wanted.max_bytes, left), 0), account=account)
            if left <= 0 and outcome.result is not None:
                # No room is left for records of this partition, but its progress and errors still count.
                outcome = replace(outcome, result=replace(outcome.result, records=b""))
            left -= outcome.size
            outcomes.append(outcome)
        return outcomes

    def _read_one(self, wanted: _Wanted, *, max_bytes: int, account: bool) -> _Outcome:
        partition = self._replicas.partitions.get(wanted.topic_partition)
        if partition is None:
            error = self._replicas.error_when_absent(wanted.topic_partition)
            return _Outcome(wanted=wanted, error=error)
        result = self._read_partition(partition, wanted, max_bytes=max_bytes, account=account)
        return _Outcome(wanted=wanted, error=result.error, result=result)

    def _read_partition(self, partition: Partition, wanted: _Wanted, *, max_bytes: int, account: bool) -> ReadResult:
        if self._replica is None:
            return partition.read_for_consumer(
                wanted.fetch_offset,
                max_bytes=max_bytes,
                current_leader_epoch=wanted.current_leader_epoch,
                last_fetched_epoch=wanted.last_fetched_epoch,
                read_committed=self._read_committed,
            )
        if not account:
            return partition.reread_for_follower(
                *self._replica,
                wanted.fetch_offset,
                last_fetched_epoch=wanted.last_fetched_epoch,
                current_leader_epoch=wanted.current_leader_epoch,
                max_bytes=max_bytes,
            )
        result = partition.read_for_follower(
            *self._replica,
            wanted.fetch_offset,
            last_fetched_epoch=wanted.last_fetched_epoch,
            current_leader_epoch=wanted.current_leader_epoch,
            max_bytes=max_bytes,
            now_ms=self._replicas.now_ms(),
            log_start_offset=wanted.log_start_offset,
        )
        self._replicas.follower_fetched(partition)
        return result

    def is_enough(self, outcomes: Sequence[_Outcome]) -> bool:
        return sum(outcome.size for outcome in outcomes) >= self._min_bytes or any(map(_is_urgent, outcomes))

    def park_marks(self) -> None:
        for wanted in self.wanted:
            self._epochs[wanted.topic_partition] = self._epoch(wanted)

    def answer_if_enough(self) -> Any | None:
        """Reads again only if something changed that this fetch waits for."""
        if not any(map(self._has_news, self.wanted)):
            return None
        outcomes = self.read(account=False)
        return self.response(outcomes) if self.is_enough(outcomes) else None

    def _has_news(self, wanted: _Wanted) -> bool:
        partition = self._replicas.partitions.get(wanted.topic_partition)
        if partition is None or not partition.is_leader or self._epoch(wanted) != self._epochs[wanted.topic_partition]:
            return True
        if self._replica is not None:
            return partition.log.log_end_offset > wanted.fetch_offset
        return partition.readable_end(read_committed=self._read_committed) > wanted.fetch_offset

    def _epoch(self, wanted: _Wanted) -> int:
        partition = self._replicas.partitions.get(wanted.topic_partition)
        return partition.state.leader_epoch if partition is not None and partition.state is not None else -1

    def response(self, outcomes: Sequence[_Outcome]) -> Any:
        by_topic: dict[str, list[Any]] = {}
        for outcome in outcomes:
            data = self._partition_data(outcome)
            by_topic.setdefault(outcome.wanted.topic_partition.topic, []).append(data)
        responses = [TopicResponse(topic=topic, partitions=parts) for topic, parts in by_topic.items()]
        return FetchResponse(throttle_time_ms=0, error_code=0, session_id=0, responses=responses)

    def _partition_data(self, outcome: _Outcome) -> Any:
        result = outcome.result
        if outcome.error or result is None:
            return PartitionData(
                partition_index=outcome.wanted.topic_partition.partition,
                error_code=outcome.error,
                high_watermark=-1,
                last_stable_offset=-1,
                log_start_offset=-1,
                aborted_transactions=None,
                preferred_read_replica=-1,
                records=b"",
            )
        aborted = [
            AbortedTransaction(producer_id=each.producer_id, first_offset=each.first_offset) for each in result.aborted
        ]
        diverging = {}
        if result.diverging is not None:
            epoch, end_offset = result.diverging
            diverging["diverging_epoch"] = EpochEndOffset(epoch=epoch, end_offset=end_offset)
        return PartitionData(
            partition_index=outcome.wanted.topic_partition.partition,
            error_code=0,
            high_watermark=result.high_watermark,
            last_stable_offset=result.last_stable_offset,
            log_start_offset=result.log_start_offset,
            aborted_transactions=aborted if self._read_committed else None,
            preferred_read_replica=-1,
            records=result.records,
            **diverging,
        )


def _is_urgent(outcome: _Outcome) -> bool:
    return outcome.urgent
