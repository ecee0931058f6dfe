"""Every supported message version can be encoded and decoded, and invalid bytes raise only MalformedRequest."""

import struct
import uuid
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.protocol.api_header import RequestHeader
from kafka.protocol.metadata import MetadataResponse

from reference_impl.wire.api_keys import ApiKey
from reference_impl.wire.messages import (
    INTERNAL_ONLY,
    SUPPORTED,
    MalformedRequest,
    MalformedResponse,
    Request,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
    request_class,
    response_class,
)

SERVED = [
    (key, version) for key, message in sorted({**SUPPORTED, **INTERNAL_ONLY}.items()) for version in message.versions
]


def request_in(frame: bytes) -> Request | None:
    """None if there is none, which MalformedRequest alone may say."""
    try:
        return decode_request(frame)
    except MalformedRequest:
        return None


def filled(schema: Any, version: int, data_class: Any = None) -> Any:
    """A message with something in every field of that version."""
    values = {}
    for field in schema.fields.values():
        if field.for_version_q(version):
            values[field.name] = _value(field, version)
    return (data_class or schema.data_class)(**values)


def _value(field: Any, version: int) -> Any:
    if field.is_struct_array():
        return [filled(field.array_of, version), filled(field.array_of, version)]
    if field.is_struct():
        return filled(field, version)
    if field.is_array():
        return [_plain(field.type_str[2:]), _plain(field.type_str[2:])]
    return _plain(field.type_str)


def _plain(type_name: str) -> Any:
    if type_name == "string":
        return "straße"
    if type_name in ("bytes", "records"):
        return b"\x00\x01bytes"
    if type_name == "uuid":
        return uuid.UUID(int=12345)
    return {"bool": True, "bitfield": {3, 5}, "float64": 1.5}.get(type_name, 5)


@pytest.mark.parametrize(("key", "version"), SERVED)
def test_a_full_request_comes_back_as_it_was_sent(key: int, version: int) -> None:
    sent = filled(request_class(key)._struct, version, request_class(key))
    frame = encode_request(key, version, 42, "client", sent)
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    request = decode_request(frame[4:])
    assert (request.api_key, request.api_version, request.correlation_id) == (key, version, 42)
    assert request.client_id == "client"
    assert request.body == sent


@pytest.mark.parametrize(("key", "version"), SERVED)
def test_a_full_response_comes_back_as_it_was_sent(key: int, version: int) -> None:
    sent = filled(response_class(key)._struct, version, response_class(key))
    if key == ApiKey.API_VERSIONS:
        sent.error_code = 0
    frame = encode_response(key, version, 43, sent)
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    correlation_id, body = decode_response(key, version, memoryview(frame)[4:])
    assert correlation_id == 43
    assert body == sent


@pytest.mark.parametrize(("key", "version"), SERVED)
def test_a_request_of_defaults_comes_back(key: int, version: int) -> None:
    frame = encode_request(key, version, 1, None, request_class(key)())
    request = decode_request(bytearray(frame[4:]))
    assert request.client_id is None
    decode_response(key, version, encode_response(key, version, 1, response_class(key)())[4:])


@pytest.mark.parametrize(("key", "version"), SERVED)
def test_our_headers_are_those_kafka_python_writes(key: int, version: int) -> None:
    message = request_class(key)()
    message.API_VERSION = version
    message.with_header(correlation_id=9, client_id="me")
    assert encode_request(key, version, 9, "me", message) == message.encode(header=True, framed=True)
    answer = response_class(key)()
    ours = encode_response(key, version, 9, answer)
    answer.API_VERSION = version
    answer.with_header(correlation_id=9)
    assert ours == answer.encode(header=True, framed=True)


@pytest.mark.parametrize(("key", "version"), SERVED)
def test_a_request_cut_short_is_malformed_wherever_it_is_cut(key: int, version: int) -> None:
    sent = filled(request_class(key)._struct, version, request_class(key))
    frame = encode_request(key, version, 42, "client", sent)[4:]
    for size in range(len(frame)):
        with pytest.raises(MalformedRequest):
            decode_request(frame[:size])


@pytest.mark.parametrize(("key", "version"), SERVED)
def test_a_response_cut_short_is_malformed_wherever_it_is_cut(key: int, version: int) -> None:
    frame = encode_response(key, version, 42, response_class(key)())[4:]
    for size in range(len(frame)):
        with pytest.raises(MalformedResponse):
            decode_response(key, version, frame[:size])


@settings(max_examples=300)
@given(st.sampled_from(SERVED), st.binary(max_size=120))
def test_no_body_raises_anything_but_malformed_request(served: tuple[int, int], body: bytes) -> None:
    key, version = served
    header = RequestHeader(request_api_key=key, request_api_version=version, correlation_id=1, client_id="x")
    flexible = request_class(key).flexible_version_q(version)
    frame = bytes(header.encode(flexible=flexible)) + body
    found = request_in(frame)
    assert found is None or (found.api_key, found.api_version, found.client_id) == (key, version, "x")


@settings(max_examples=300)
@given(st.sampled_from(SERVED), st.data())
def test_no_damaged_byte_raises_anything_but_malformed_request(served: tuple[int, int], data: st.DataObject) -> None:
    key, version = served
    sent = filled(request_class(key)._struct, version, request_class(key))
    frame = bytearray(encode_request(key, version, 42, "client", sent)[4:])
    position = data.draw(st.integers(0, len(frame) - 1))
    frame[position] = data.draw(st.integers(0, 255))
    found = request_in(bytes(frame))
    assert found is None or struct.pack(">hh", found.api_key, found.api_version) == frame[:4]


@given(st.binary(max_size=60))
def test_no_frame_raises_anything_but_malformed_request(frame: bytes) -> None:
    found = request_in(frame)
    assert found is None or struct.pack(">hh", found.api_key, found.api_version) == frame[:4]


def test_a_null_where_a_value_must_be_is_malformed() -> None:
    produce = request_class(ApiKey.PRODUCE)
    body = produce(acks=1, timeout_ms=1, topic_data=[produce.TopicProduceData(name=None, partition_data=[])])
    for version in (8, 9):
        with pytest.raises(MalformedRequest, match="name is null"):
            decode_request(encode_request(ApiKey.PRODUCE, version, 1, "x", body)[4:])
    with pytest.raises(MalformedRequest, match="topics is null"):
        decode_request(encode_request(ApiKey.FETCH, 11, 1, "x", request_class(ApiKey.FETCH)(topics=None))[4:])


def test_a_null_where_the_schema_allows_it_is_none() -> None:
    body = decode_request(
        encode_request(ApiKey.METADATA, 9, 1, "x", request_class(ApiKey.METADATA)(topics=None))[4:]
    ).body
    assert body.topics is None


def test_records_are_bytes_as_they_came() -> None:
    produce = request_class(ApiKey.PRODUCE)
    data = produce.TopicProduceData.PartitionProduceData(index=0, records=b"\x00raw")
    body = produce(acks=1, timeout_ms=1, topic_data=[produce.TopicProduceData(name="t", partition_data=[data])])
    decoded = decode_request(encode_request(ApiKey.PRODUCE, 9, 1, "x", body)[4:]).body
    assert bytes(decoded.topic_data[0].partition_data[0].records) == b"\x00raw"


@pytest.mark.parametrize(("key", "version"), [(0, 2), (0, 13), (1, 13), (8, 1), (500, 0), (-1, 0), (4, 1), (56, 1)])
def test_what_we_do_not_serve_is_malformed(key: int, version: int) -> None:
    with pytest.raises(MalformedRequest, match="not served"):
        decode_request(key.to_bytes(2, "big", signed=True) + version.to_bytes(2, "big") + bytes(20))


def test_api_versions_of_an_unknown_version_is_understood_and_answered_in_version_0() -> None:
    """KIP-511: by this request a client finds out what else it may ask."""
    frame = (18).to_bytes(2, "big") + (9).to_bytes(2, "big") + (7).to_bytes(4, "big") + b"\x00\x01x" + b"\x00whatever"
    request = decode_request(frame)
    assert (request.api_version, request.correlation_id, request.client_id) == (9, 7, "x")
    ranges = [response_class(ApiKey.API_VERSIONS).ApiVersion(api_key=18, min_version=0, max_version=4)]
    answer = response_class(ApiKey.API_VERSIONS)(error_code=35, api_keys=ranges)
    in_version_9, in_version_0 = (
        encode_response(ApiKey.API_VERSIONS, 9, 7, answer),
        encode_response(ApiKey.API_VERSIONS, 0, 7, answer),
    )
    assert in_version_9 == in_version_0
    _, body = decode_response(ApiKey.API_VERSIONS, 9, in_version_9[4:])
    assert body.error_code == 35
    assert (body.api_keys[0].api_key, body.api_keys[0].max_version) == (18, 4)


def test_the_response_header_of_api_versions_has_no_tags() -> None:
    frame = encode_response(ApiKey.API_VERSIONS, 4, 7, response_class(ApiKey.API_VERSIONS)(error_code=0))
    assert frame[4:10] == b"\x00\x00\x00\x07\x00\x00"


def test_unknown_tagged_fields_are_skipped() -> None:
    plain = encode_request(ApiKey.METADATA, 9, 5, "x", request_class(ApiKey.METADATA)(topics=None))[4:]
    header_size = 2 + 2 + 4 + 2 + 1
    tags = b"\x01\x63\x03abc"
    assert plain[header_size] == 0
    with_tags = plain[:header_size] + tags + plain[header_size + 1 : -1] + tags
    assert decode_request(with_tags).body.topics is None


def test_a_varint_without_end_is_malformed_at_once() -> None:
    header = encode_request(ApiKey.METADATA, 9, 5, "x", request_class(ApiKey.METADATA)())[4:15]
    with pytest.raises(MalformedRequest, match="varint"):
        decode_request(header + b"\xff" * 100)


def test_a_name_that_a_message_does_not_have_is_an_error_for_mypy_as_well() -> None:
    answer = MetadataResponse(topics=[])
    with pytest.raises(AttributeError):
        answer.topic  # type: ignore[attr-defined]  # noqa: B018  (strict mypy refuses this comment where it sees no error)
