"""Encodes and decodes requests and responses with kafka-python's protocol classes, and uses nothing else of
kafka-python.

That package is internal to kafka-python, so only this module knows it (pyproject pins the version); other modules get
their message classes by API key. The broker's own messages and Apache Kafka's AlterPartition are JSON schemas beside
this file. Headers are parsed here, byte by byte, because kafka-python would copy the whole frame.

One class serves all versions of a message. Fields that a version lacks have their defaults. The zero UUID becomes None.
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any, NamedTuple

from kafka.protocol import admin, consumer, metadata, producer, sasl

from reference_impl.wire import inter_broker
from reference_impl.wire.api_keys import ApiKey
from reference_impl.wire.nullability import refuse_missing_values


class Message(NamedTuple):
    """A request, its answer, and the versions that are spoken."""

    request: Any
    response: Any
    lowest: int
    highest: int

    @property
    def versions(self) -> range:
        return range(self.lowest, self.highest + 1)


def _message(module: ModuleType, name: str, lowest: int, highest: int) -> Message:
    return Message(getattr(module, f"{name}Request"), getattr(module, f"{name}Response"), lowest, highest)


# What clients are offered.
SUPPORTED: Mapping[int, Message] = {
    ApiKey.PRODUCE: _message(producer, "Produce", 3, 12),  # 13 has topic ids
    ApiKey.FETCH: _message(consumer, "Fetch", 4, 12),  # 13 has topic ids
    ApiKey.LIST_OFFSETS: _message(consumer, "ListOffsets", 1, 8),
    ApiKey.METADATA: _message(metadata, "Metadata", 0, 12),
    ApiKey.OFFSET_COMMIT: _message(consumer, "OffsetCommit", 2, 9),  # 10 has topic ids
    ApiKey.OFFSET_FETCH: _message(consumer, "OffsetFetch", 1, 9),
    ApiKey.FIND_COORDINATOR: _message(metadata, "FindCoordinator", 0, 5),
    ApiKey.JOIN_GROUP: _message(consumer, "JoinGroup", 0, 9),
    ApiKey.HEARTBEAT: _message(consumer, "Heartbeat", 0, 4),
    ApiKey.LEAVE_GROUP: _message(consumer, "LeaveGroup", 0, 5),
    ApiKey.SYNC_GROUP: _message(consumer, "SyncGroup", 0, 5),
    ApiKey.DESCRIBE_GROUPS: _message(admin, "DescribeGroups", 0, 5),
    ApiKey.LIST_GROUPS: _message(admin, "ListGroups", 0, 5),
    ApiKey.API_VERSIONS: _message(metadata, "ApiVersions", 0, 4),
    ApiKey.CREATE_TOPICS: _message(admin, "CreateTopics", 2, 7),
    ApiKey.DELETE_TOPICS: _message(admin, "DeleteTopics", 1, 6),
    ApiKey.DELETE_RECORDS: _message(admin, "DeleteRecords", 0, 2),
    ApiKey.INIT_PRODUCER_ID: _message(producer, "InitProducerId", 0, 5),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: _message(consumer, "OffsetForLeaderEpoch", 2, 4),
    ApiKey.ADD_PARTITIONS_TO_TXN: _message(producer, "AddPartitionsToTxn", 0, 5),  # from 4 on: of brokers
    ApiKey.ADD_OFFSETS_TO_TXN: _message(producer, "AddOffsetsToTxn", 0, 4),
    ApiKey.END_TXN: _message(producer, "EndTxn", 0, 5),
    ApiKey.WRITE_TXN_MARKERS: _message(producer, "WriteTxnMarkers", 1, 1),
    ApiKey.TXN_OFFSET_COMMIT: _message(producer, "TxnOffsetCommit", 0, 5),
    ApiKey.DESCRIBE_CONFIGS: _message(admin, "DescribeConfigs", 1, 4),
    ApiKey.CREATE_PARTITIONS: _message(admin, "CreatePartitions", 0, 3),
    ApiKey.DELETE_GROUPS: _message(admin, "DeleteGroups", 0, 2),
    ApiKey.ELECT_LEADERS: _message(admin, "ElectLeaders", 0, 2),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _message(admin, "IncrementalAlterConfigs", 0, 1),
    ApiKey.OFFSET_DELETE: _message(consumer, "OffsetDelete", 0, 0),
    ApiKey.DESCRIBE_CLUSTER: _message(admin, "DescribeCluster", 0, 1),
    ApiKey.DESCRIBE_PRODUCERS: _message(admin, "DescribeProducers", 0, 0),
    ApiKey.DESCRIBE_TRANSACTIONS: _message(admin, "DescribeTransactions", 0, 0),
    ApiKey.LIST_TRANSACTIONS: _message(admin, "ListTransactions", 0, 1),
}
# What brokers say to each other, on the inter-broker listener alone.
INTERNAL_ONLY: Mapping[int, Message] = {
    ApiKey.LEADER_AND_ISR: _message(inter_broker, "LeaderAndIsr", 0, 0),
    ApiKey.STOP_REPLICA: _message(inter_broker, "StopReplica", 0, 0),
    ApiKey.UPDATE_METADATA: _message(inter_broker, "UpdateMetadata", 0, 0),
    ApiKey.CONTROLLED_SHUTDOWN: _message(inter_broker, "ControlledShutdown", 0, 0),
    ApiKey.SASL_AUTHENTICATE: _message(sasl, "SaslAuthenticate", 2, 2),
    ApiKey.ALTER_PARTITION: _message(inter_broker, "AlterPartition", 2, 3),
}
_MESSAGES: Mapping[int, Message] = {**SUPPORTED, **INTERNAL_ONLY}

_REQUEST_HEADER = struct.Struct(">hhih")  # API key, version, correlation id, length of the client id
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_EMPTY_TAGS = b"\x00"
_MAX_TAGS = 1024

# What the generated decoders raise on invalid bytes.
_DECODING_ERRORS = (
    struct.error,
    ValueError,
    IndexError,
    KeyError,
    TypeError,
    OverflowError,
    AssertionError,
    MemoryError,
)


class MalformedMessage(ValueError):
    """The bytes are not a valid message of the expected type."""


class MalformedRequest(MalformedMessage):
    """An invalid request; as in Kafka the connection is closed without an answer."""


class MalformedResponse(MalformedMessage):
    pass


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body: Any
    """An instance of request_class(api_key); for ApiVersions of a version we do not know, one with defaults."""


def request_class(api_key: int) -> Any:
    return _MESSAGES[api_key].request


def response_class(api_key: int) -> Any:
    return _MESSAGES[api_key].response


def is_supported(api_key: int, api_version: int) -> bool:
    """Whether this broker speaks this version, with clients or with brokers."""
    message = _MESSAGES.get(api_key)
    return message is not None and api_version in message.versions


def decode_request(frame: bytes | bytearray | memoryview) -> Request:
    """Decodes the request in a frame (without its size). Raises only MalformedRequest.

    An unsupported version raises it too, except for ApiVersions: a client learns the supported versions with that
    request, and its answer is in version 0 (KIP-511).
    """
    data = memoryview(frame).toreadonly()
    try:
        api_key, api_version, correlation_id, client_id_length = _REQUEST_HEADER.unpack_from(data)
        client_id, position = _decode_client_id(data, client_id_length)
    except (struct.error, ValueError) as error:
        raise MalformedRequest(f"request header: {error}") from error
    known = is_supported(api_key, api_version)
    if not known and api_key != ApiKey.API_VERSIONS:
        raise MalformedRequest(f"API key {api_key} version {api_version} is not served")
    message_class = request_class(api_key)
    if known:
        try:
            if message_class.flexible_version_q(api_version):
                position = _skip_tags(data, position)
            body = _decode_body(message_class, api_version, data, position)
            refuse_missing_values(body, api_version)
        except _DECODING_ERRORS as error:
            raise MalformedRequest(f"{message_class.name} version {api_version}: {error!r}") from error
    else:
        body = message_class()
    return Request(
        api_key=api_key,
        api_version=api_version,
        correlation_id=correlation_id,
        client_id=client_id,
        body=body,
    )


def encode_response(request_api_key: int, api_version: int, correlation_id: int, body: Any) -> bytes:
    """Returns the framed answer; in version 0 for an ApiVersions request of an unsupported version (KIP-511)."""
    if request_api_key == ApiKey.API_VERSIONS and not is_supported(request_api_key, api_version):
        api_version = 0
    tags = _EMPTY_TAGS if _has_flexible_response_header(request_api_key, api_version) else b""
    content = body.encode(version=api_version)
    size = _INT32.size + len(tags) + len(content)
    return b"".join((_INT32.pack(size), _INT32.pack(correlation_id), tags, content))


def encode_request(api_key: int, api_version: int, correlation_id: int, client_id: str | None, body: Any) -> bytes:
    """Returns the framed request."""
    name = b"" if client_id is None else client_id.encode()
    length = -1 if client_id is None else len(name)
    # Even in the flexible header the client id is an ordinary string, so that every broker can read it (KIP-482).
    tags = _EMPTY_TAGS if request_class(api_key).flexible_version_q(api_version) else b""
    content = body.encode(version=api_version)
    size = _REQUEST_HEADER.size + len(name) + len(tags) + len(content)
    header = _REQUEST_HEADER.pack(api_key, api_version, correlation_id, length)
    return b"".join((_INT32.pack(size), header, name, tags, content))


def decode_response(api_key: int, api_version: int, frame: bytes | bytearray | memoryview) -> tuple[int, Any]:
    """Returns (correlation id, body) of an answer to a request of that key and version. Raises MalformedResponse."""
    data = memoryview(frame).toreadonly()
    message_class = response_class(api_key)
    try:
        correlation_id: int = _INT32.unpack_from(data)[0]
        position = _INT32.size
        if _has_flexible_response_header(api_key, api_version):
            position = _skip_tags(data, position)
        if api_key == ApiKey.API_VERSIONS and _INT16.unpack_from(data, position)[0] != 0:
            api_version = 0  # an error comes in version 0, whatever was requested (KIP-511)
        return correlation_id, _decode_body(message_class, api_version, data, position)
    except _DECODING_ERRORS as error:
        raise MalformedResponse(f"{message_class.name} version {api_version}: {error!r}") from error


def _has_flexible_response_header(api_key: int, api_version: int) -> bool:
    # A client does not know the header version before ApiVersions, so its answer has the oldest header (KIP-511).
    return api_key != ApiKey.API_VERSIONS and bool(response_class(api_key).flexible_version_q(api_version))


def _decode_client_id(data: memoryview, length: int) -> tuple[str | None, int]:
    start = _REQUEST_HEADER.size
    if length == -1:
        return None, start
    if length < 0 or start + length > len(data):
        raise ValueError(f"client id of {length} bytes in a frame of {len(data)}")
    return str(data[start : start + length], "utf-8"), start + length


def _decode_body(message_class: Any, api_version: int, data: memoryview, position: int) -> Any:
    flexible = message_class.flexible_version_q(api_version)
    decode = message_class._struct.compiled_decode_from(
        api_version, compact=flexible, tagged=flexible, data_class=message_class
    )
    body, end = decode(data, position)
    # The generated code slices: a field that claims more bytes than there are becomes shorter instead of failing.
    if end > len(data):
        raise ValueError(f"the message needs {end} bytes, the frame has {len(data)}")
    return body


def _skip_tags(data: memoryview, position: int) -> int:
    """Skips a header's tagged fields; none is known here."""
    count, position = _unsigned_varint(data, position)
    if count > _MAX_TAGS:
        raise ValueError(f"{count} tagged fields in a header")
    for _ in range(count):
        _, position = _unsigned_varint(data, position)
        size, position = _unsigned_varint(data, position)
        position += size
    return position


def _unsigned_varint(data: memoryview, position: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 35, 7):
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    raise ValueError("varint of more than 5 bytes")
