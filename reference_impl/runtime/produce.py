"""Produce: append at the leader, then answer at once (acks=1), never (acks=0), or when the high watermark has passed
every partition's records (acks=all, replication.md 1.5). Records are never decoded here."""

from dataclasses import dataclass
from typing import Any

from reference_impl.core.identifiers import UNKNOWN_OFFSET, ErrorCode, TopicPartition
from reference_impl.core.partition import Partition
from reference_impl.runtime.purgatory import Purgatory, Waiting
from reference_impl.runtime.replica_manager import ReplicaManager
from reference_impl.runtime.server import NO_ANSWER, Answer, Caller, CloseConnection
from reference_impl.wire.messages import Request, response_class

ProduceResponse = response_class(0)
TopicResponse = ProduceResponse.TopicProduceResponse
PartitionResponse = TopicResponse.PartitionProduceResponse

ACKS_ALL = -1


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
    def __init__(self, replicas: ReplicaManager, purgatory: Purgatory) -> None:
        self._replicas = replicas
        self._purgatory = purgatory

    def answer(self, request: Request, caller: Caller) -> Answer:
        body = request.body
        outcomes = [
            self._append(TopicPartition(topic.name, data.index), data.records, body.acks)
            for topic in body.topic_data
            for data in topic.partition_data
        ]
        if body.acks == 0:
            failed = next((outcome for outcome in outcomes if outcome.error), None)
            if failed is not None and failed.error is not None:
                raise CloseConnection(f"acks=0 produce to {failed.topic_partition} failed: {failed.error.name}")
            return NO_ANSWER
        waiting_for = [outcome.topic_partition for outcome in outcomes if outcome.error is None]
        if not waiting_for or _all_settled(outcomes):
            return _response(outcomes)

        def expire() -> Any:
            for outcome in outcomes:
                if outcome.error is None:
                    outcome.error = ErrorCode.REQUEST_TIMED_OUT
            return _response(outcomes)

        def check() -> Any | None:
            return _response(outcomes) if _all_settled(outcomes) else None

        return self._purgatory.park(Waiting(waiting_for, check, expire), body.timeout_ms)

    def _append(self, topic_partition: TopicPartition, records: Any, acks: int) -> _Outcome:
        partition = self._replicas.partitions.get(topic_partition)
        if partition is None:
            return _Outcome(topic_partition=topic_partition, error=self._replicas.error_when_absent(topic_partition))
        result = partition.append(
            bytearray(records or b""),
            acks=acks,
            now_ms=self._replicas.now_ms(),
            wall_clock_ms=self._replicas.wall_clock_ms(),
        )
        if result.error:
            return _Outcome(topic_partition=topic_partition, error=result.error)
        assert partition.state is not None
        return _Outcome(
            topic_partition=topic_partition,
            error=None if acks == ACKS_ALL else ErrorCode.NONE,
            base_offset=result.base_offset,
            log_start_offset=partition.log.log_start_offset,
            partition=partition,
            required_offset=result.required_offset,
            leader_epoch=partition.state.leader_epoch,
            log_append_time_ms=result.log_append_time_ms,
        )


def _all_settled(outcomes: list[_Outcome]) -> bool:
    settled = True
    for outcome in outcomes:
        if outcome.error is None and outcome.partition is not None:
            outcome.error = outcome.partition.produce_outcome(outcome.required_offset, outcome.leader_epoch)
            settled = settled and outcome.error is not None
    return settled


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
