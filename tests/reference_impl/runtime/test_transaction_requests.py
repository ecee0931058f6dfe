"""Requests about transactions that name nothing real: each is answered with its error, and changes nothing."""

from types import SimpleNamespace
from typing import Any

import pytest

from reference_impl.core.identifiers import (
    GROUP_OFFSETS_TOPIC,
    TRANSACTIONS_TOPIC,
    ErrorCode,
    TopicPartition,
)
from reference_impl.runtime.coordinators.verification import TransactionVerifier
from reference_impl.runtime.handlers.group_offsets import GroupOffsetsHandler
from reference_impl.runtime.handlers.producer_ids import ProducerIds
from reference_impl.runtime.handlers.transactions import TransactionsHandler, _in_version
from reference_impl.runtime.handlers.txn_markers import WriteTxnMarkersHandler
from reference_impl.runtime.replication.purgatory import Purgatory
from reference_impl.runtime.server import Caller
from reference_impl.wire.api_keys import ApiKey
from reference_impl.wire.messages import Request, request_class
from reference_impl.wire.record_fields import TEXT_BYTES_MAX
from tests.reference_impl.runtime.test_coordinators import World

CALLER = Caller(listener="CLIENT1", client_id="c", peer="here:1")
NEWEST = 3


def asked(api_key: ApiKey, body: Any, version: int = NEWEST) -> Request:
    return Request(api_key=api_key, api_version=version, correlation_id=1, client_id="c", body=body)


def handler(partitions: int = 3) -> tuple[TransactionsHandler, list[None]]:
    """With it: how often it had the topic of groups' offsets created."""
    world, created = World(partitions=partitions), list[None]()
    made = TransactionsHandler(
        world.transactions, world.coordinators, world.metadata, ProducerIds(1), lambda: created.append(None)
    )
    return made, created


@pytest.mark.parametrize("name", ["", "x" * (TEXT_BYTES_MAX + 1)])
async def test_an_id_that_no_record_can_hold_is_refused(name: str) -> None:
    made, _ = handler()
    end = request_class(ApiKey.END_TXN)(transactional_id=name, producer_id=1, producer_epoch=0, committed=True)
    assert (await made.end(asked(ApiKey.END_TXN, end), CALLER)).error_code == ErrorCode.INVALID_REQUEST
    init = request_class(ApiKey.INIT_PRODUCER_ID)(
        transactional_id=name, transaction_timeout_ms=1000, producer_id=-1, producer_epoch=-1
    )
    assert (await made.init(asked(ApiKey.INIT_PRODUCER_ID, init), CALLER)).error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(("producer_id", "producer_epoch"), [(7, -1), (-1, 0)])
@pytest.mark.parametrize("name", ["writer", None])
async def test_a_producer_names_its_id_and_its_epoch_or_neither(
    name: str | None, producer_id: int, producer_epoch: int
) -> None:
    made, _ = handler()
    init = request_class(ApiKey.INIT_PRODUCER_ID)(
        transactional_id=name,
        transaction_timeout_ms=1000,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
    )
    assert (await made.init(asked(ApiKey.INIT_PRODUCER_ID, init), CALLER)).error_code == ErrorCode.INVALID_REQUEST


async def test_a_group_without_a_name_has_no_offsets_in_transactions_and_none_to_delete() -> None:
    world = World(partitions=3)
    verifier = TransactionVerifier(world.metadata, world._ask_broker)
    made = GroupOffsetsHandler(world.coordinators, world.metadata, verifier, lambda: 0)
    kind = request_class(ApiKey.TXN_OFFSET_COMMIT)
    topic = kind.TxnOffsetCommitRequestTopic
    offset = topic.TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=5)
    body = kind(
        transactional_id="writer",
        group_id="",
        producer_id=7,
        producer_epoch=0,
        topics=[topic(name=TRANSACTIONS_TOPIC, partitions=[offset])],
    )
    answer = await made.commit_in_transaction(asked(ApiKey.TXN_OFFSET_COMMIT, body), CALLER)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.INVALID_GROUP_ID
    delete = request_class(ApiKey.OFFSET_DELETE)(group_id="", topics=[])
    assert (await made.delete(asked(ApiKey.OFFSET_DELETE, delete, 0), CALLER)).error_code == ErrorCode.INVALID_GROUP_ID


def added(*topics: str) -> Request:
    kind = request_class(ApiKey.ADD_PARTITIONS_TO_TXN)
    body = kind(
        v3_and_below_transactional_id="writer",
        v3_and_below_producer_id=1,
        v3_and_below_producer_epoch=0,
        v3_and_below_topics=[kind.AddPartitionsToTxnTopic(name=topic, partitions=[0]) for topic in topics],
    )
    return asked(ApiKey.ADD_PARTITIONS_TO_TXN, body)


async def test_with_a_partition_that_is_not_there_none_is_added() -> None:
    made, _ = handler()
    answer = made.add_partitions(added("no-such", TRANSACTIONS_TOPIC, GROUP_OFFSETS_TOPIC), CALLER)
    errors = [topic.results_by_partition[0].partition_error_code for topic in answer.results_by_topic_v3_and_below]
    assert errors == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
    ]


async def test_a_producer_may_ask_for_a_group_before_any_consumer_did() -> None:
    made, created = handler(partitions=0)
    kind = request_class(ApiKey.ADD_OFFSETS_TO_TXN)
    body = kind(transactional_id="writer", producer_id=1, producer_epoch=0, group_id="readers")
    answer = made.add_offsets(asked(ApiKey.ADD_OFFSETS_TO_TXN, body), CALLER)
    assert answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert created == [None]
    nobody = kind(transactional_id="writer", producer_id=1, producer_epoch=0, group_id="")
    answer = made.add_offsets(asked(ApiKey.ADD_OFFSETS_TO_TXN, nobody), CALLER)
    assert answer.error_code == ErrorCode.INVALID_GROUP_ID


@pytest.mark.parametrize(("api_key", "since"), [(ApiKey.END_TXN, 2), (ApiKey.INIT_PRODUCER_ID, 4)])
def test_an_older_client_is_told_of_an_old_epoch(api_key: ApiKey, since: int) -> None:
    answered = [_in_version(ErrorCode.PRODUCER_FENCED, asked(api_key, None, version)) for version in (since - 1, since)]
    assert answered == [ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED]


@pytest.mark.parametrize(
    ("producer_id", "topic", "error"),
    [
        (-1, "orders", ErrorCode.INVALID_REQUEST),
        (7, "orders", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (7, GROUP_OFFSETS_TOPIC, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ],
)
async def test_a_marker_for_what_is_not_led_here_is_not_written(producer_id: int, topic: str, error: ErrorCode) -> None:
    def absent(_: TopicPartition) -> ErrorCode:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    replicas: Any = SimpleNamespace(partitions={}, error_when_absent=absent)
    kind = request_class(ApiKey.WRITE_TXN_MARKERS)
    marker = kind.WritableTxnMarker(
        producer_id=producer_id,
        producer_epoch=0,
        transaction_result=True,
        coordinator_epoch=0,
        topics=[kind.WritableTxnMarker.WritableTxnMarkerTopic(name=topic, partition_indexes=[0])],
    )
    made = WriteTxnMarkersHandler(replicas, World(partitions=3).coordinators, Purgatory())
    answer = await made.answer(asked(ApiKey.WRITE_TXN_MARKERS, kind(markers=[marker]), 1), CALLER)
    ((topics,),) = [each.topics for each in answer.markers]
    assert topics.partitions[0].error_code == error
