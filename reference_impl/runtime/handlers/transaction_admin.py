"""ListTransactions, DescribeTransactions (KIP-664) of the coordinators here, and DescribeProducers of the leaders."""

from typing import Any

from reference_impl.core.identifiers import ErrorCode, TopicPartition
from reference_impl.core.transactions.transaction import Transaction, TransactionState
from reference_impl.runtime.coordinators.transactions import TransactionCoordinators
from reference_impl.runtime.replication.replica_manager import ReplicaManager
from reference_impl.runtime.server import Answer, Caller
from reference_impl.wire.api_keys import ApiKey
from reference_impl.wire.messages import Request, response_class

ListTransactionsResponse = response_class(ApiKey.LIST_TRANSACTIONS)
DescribeTransactionsResponse = response_class(ApiKey.DESCRIBE_TRANSACTIONS)
DescribedTransaction = DescribeTransactionsResponse.TransactionState
DescribeProducersResponse = response_class(ApiKey.DESCRIBE_PRODUCERS)
ProducersOfTopic = DescribeProducersResponse.TopicResponse
ProducersOfPartition = ProducersOfTopic.PartitionResponse

_STATES = {state.label for state in TransactionState}


class TransactionAdminHandler:
    def __init__(self, coordinators: TransactionCoordinators, replicas: ReplicaManager) -> None:
        self._coordinators = coordinators
        self._replicas = replicas

    def list(self, request: Request, caller: Caller) -> Answer:
        body = request.body
        wanted = set(body.state_filters)
        now_ms = self._replicas.wall_clock_ms()

        def is_wanted(each: Transaction) -> bool:
            open_for_ms = now_ms - each.started_ms
            return (
                (not wanted or each.state.label in wanted)
                and (not body.producer_id_filters or each.producer_id in body.producer_id_filters)
                and (body.duration_filter < 0 or (not each.state.has_ended and open_for_ms > body.duration_filter))
            )

        error, listed = ErrorCode.NONE, []
        for coordinator in self._coordinators.all():
            error = coordinator.error or error
            listed += [
                ListTransactionsResponse.TransactionState(
                    transactional_id=each.transactional_id,
                    producer_id=each.producer_id,
                    transaction_state=each.state.label,
                )
                for each in coordinator.transactions.values()
                if is_wanted(each)
            ]
        if error is not ErrorCode.NONE:
            listed = []
        return ListTransactionsResponse(
            throttle_time_ms=0,
            error_code=error,
            unknown_state_filters=sorted(wanted - _STATES),
            transaction_states=listed,
        )

    def describe(self, request: Request, caller: Caller) -> Answer:
        described = [self._described(name) for name in request.body.transactional_ids]
        return DescribeTransactionsResponse(throttle_time_ms=0, transaction_states=described)

    def _described(self, transactional_id: str) -> Any:
        coordinator = self._coordinators.coordinator_of(transactional_id)
        error = coordinator if isinstance(coordinator, ErrorCode) else coordinator.error
        known = None if isinstance(coordinator, ErrorCode) else coordinator.transactions.get(transactional_id)
        if not error and known is None:
            error = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        if error or known is None or isinstance(coordinator, ErrorCode):
            return DescribedTransaction(
                error_code=error,
                transactional_id=transactional_id,
                transaction_state="",
                transaction_timeout_ms=0,
                transaction_start_time_ms=-1,
                producer_id=-1,
                producer_epoch=-1,
                topics=[],
            )
        by_topic: dict[str, list[int]] = {}
        for key in sorted(coordinator.markers_left(known)):
            by_topic.setdefault(key.topic, []).append(key.partition)
        return DescribedTransaction(
            error_code=ErrorCode.NONE,
            transactional_id=transactional_id,
            transaction_state=known.state.label,
            transaction_timeout_ms=known.timeout_ms,
            transaction_start_time_ms=known.started_ms,
            producer_id=known.producer_id,
            producer_epoch=known.epoch,
            topics=[
                DescribedTransaction.TopicData(topic=topic, partitions=numbers) for topic, numbers in by_topic.items()
            ],
        )

    def describe_producers(self, request: Request, caller: Caller) -> Answer:
        topics = [
            ProducersOfTopic(
                name=topic.name,
                partitions=[self._producers(TopicPartition(topic.name, number)) for number in topic.partition_indexes],
            )
            for topic in request.body.topics
        ]
        return DescribeProducersResponse(throttle_time_ms=0, topics=topics)

    def _producers(self, key: TopicPartition) -> Any:
        partition = self._replicas.partitions.get(key)
        error = ErrorCode.NONE
        if partition is None:
            error = self._replicas.error_when_absent(key)
        elif not partition.is_leader:
            error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        if error is not ErrorCode.NONE or partition is None:
            return ProducersOfPartition(
                partition_index=key.partition, error_code=error, error_message=None, active_producers=[]
            )
        return ProducersOfPartition(
            partition_index=key.partition,
            error_code=error,
            error_message=None,
            active_producers=[
                ProducersOfPartition.ProducerState(
                    producer_id=each.producer_id,
                    producer_epoch=each.epoch,
                    last_sequence=each.last_sequence,
                    last_timestamp=each.timestamp,
                    coordinator_epoch=each.coordinator_epoch,
                    current_txn_start_offset=each.transaction_offset,
                )
                for each in partition.producers
            ],
        )
