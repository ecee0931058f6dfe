"""Metadata of topics requested by name and by id."""

import uuid
from typing import Any

import pytest

from reference_impl.core.identifiers import ErrorCode
from reference_impl.runtime.handlers.metadata import MetadataCache, MetadataHandler
from reference_impl.runtime.server import Caller
from reference_impl.wire.api_keys import ApiKey
from reference_impl.wire.messages import decode_request, decode_response, encode_request, encode_response, request_class

VERSION = 12
MetadataRequest, UpdateMetadataRequest = map(request_class, (ApiKey.METADATA, ApiKey.UPDATE_METADATA))
ORDERS, STRANGER = uuid.UUID(int=7), uuid.UUID(int=8)


@pytest.fixture
def handler() -> MetadataHandler:
    cache = MetadataCache()
    state = UpdateMetadataRequest.PartitionState(
        topic="orders",
        topic_id=ORDERS,
        partition=0,
        leader=1,
        leader_epoch=0,
        isr=[1],
        partition_epoch=0,
        replicas=[1],
        controller_epoch=1,
        is_new=False,
    )
    topic = UpdateMetadataRequest.Topic(topic="orders", topic_id=ORDERS, configs=[])
    cache.update(
        UpdateMetadataRequest(
            controller_id=1,
            controller_epoch=1,
            broker_epoch=1,
            is_full=True,
            live_brokers=[],
            partition_states=[state],
            topics=[topic],
            deleted_topics=[],
        )
    )
    return MetadataHandler(cache)


def asked(handler: MetadataHandler, *topics: tuple[str | None, uuid.UUID | None]) -> list[Any]:
    wanted = MetadataRequest.MetadataRequestTopic
    body = MetadataRequest(topics=[wanted(name=name, topic_id=topic_id) for name, topic_id in topics])
    request = decode_request(encode_request(ApiKey.METADATA, VERSION, 1, "client", body)[4:])
    answer = handler.answer(request, Caller(listener="CLIENT", client_id="client", peer="test"))
    return list(
        decode_response(ApiKey.METADATA, VERSION, encode_response(ApiKey.METADATA, VERSION, 1, answer)[4:])[1].topics
    )


@pytest.mark.parametrize("name", [None, ""])
def test_a_topic_is_found_by_its_id_whether_the_name_is_null_or_empty(
    handler: MetadataHandler, name: str | None
) -> None:
    known, unknown = asked(handler, (name, ORDERS), (name, STRANGER))
    assert (known.error_code, known.name, known.topic_id) == (ErrorCode.NONE, "orders", ORDERS)
    assert (unknown.error_code, unknown.topic_id) == (ErrorCode.UNKNOWN_TOPIC_ID, STRANGER)


def test_a_topic_is_found_by_its_name(handler: MetadataHandler) -> None:
    known, unknown, illegal = asked(handler, ("orders", None), ("absent", None), ("../x", None))
    assert (known.error_code, known.topic_id) == (ErrorCode.NONE, ORDERS)
    assert (illegal.error_code, illegal.name) == (ErrorCode.INVALID_TOPIC_EXCEPTION, "../x")
    assert (unknown.error_code, unknown.name) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "absent")
