"""For each row the answers that break it, one field at a time: a row that takes a lie for the truth asks nothing."""

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kafka.protocol.admin import CreateTopicsRequest, DeleteGroupsRequest, DeleteTopicsRequest, DescribeConfigsRequest
from kafka.protocol.consumer import (
    FetchRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    ListOffsetsRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    OffsetForLeaderEpochRequest,
    SyncGroupRequest,
)
from kafka.protocol.metadata import ApiVersionsRequest, FindCoordinatorRequest, MetadataRequest
from kafka.protocol.producer import (
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    ProduceRequest,
    TxnOffsetCommitRequest,
)

from tests.harness.conform.falsifying import Exchange, Lie

Alter = Callable[[Exchange], None]


def sets(**fields: Any) -> Alter:
    """In the answer itself."""

    def alter(exchange: Exchange) -> None:
        for name, value in fields.items():
            setattr(exchange.answer, name, value)

    return alter


def of_partition(**fields: Any) -> Alter:
    """Of every partition of a produce, fetch, list, commit or epoch answer; a value may be made of the old one."""

    def alter(exchange: Exchange) -> None:
        for partition in partitions(exchange.answer):
            for name, value in fields.items():
                setattr(partition, name, value(getattr(partition, name)) if callable(value) else value)

    return alter


def partitions(answer: Any) -> list[Any]:
    found = []
    for group in [answer, *(getattr(answer, "groups", None) or ())]:
        for topic in getattr(group, "responses", None) or getattr(group, "topics", None) or ():
            found += getattr(topic, "partition_responses", None) or topic.partitions
    return found


def only_if(condition: Callable[[Exchange], bool], alter: Alter) -> Alter:
    def altered(exchange: Exchange) -> None:
        if condition(exchange):
            alter(exchange)

    return altered


def from_number(number: int, alter: Alter) -> Alter:
    return only_if(lambda exchange: exchange.number >= number, alter)


def in_version(version: int, alter: Alter) -> Alter:
    return only_if(lambda exchange: exchange.version == version, alter)


def failed(exchange: Exchange) -> bool:
    return any(each.error_code for each in partitions(exchange.answer))


def _api(key: int, lowest: int, highest: int) -> Alter:
    def alter(exchange: Exchange) -> None:
        others = [each for each in exchange.answer.api_keys if each.api_key != key]
        kind = type(exchange.answer).ApiVersion
        exchange.answer.api_keys = [*others, kind(api_key=key, min_version=lowest, max_version=highest)]

    return alter


def _without_api(*keys: int) -> Alter:
    def alter(exchange: Exchange) -> None:
        exchange.answer.api_keys = [each for each in exchange.answer.api_keys if each.api_key not in keys]

    return alter


def _doubled_api(exchange: Exchange) -> None:
    exchange.answer.api_keys = [*exchange.answer.api_keys, exchange.answer.api_keys[0]]


def _other_correlation(frame: bytes, number: int) -> bytes:
    (correlation,) = struct.unpack_from(">i", frame)
    return struct.pack(">i", correlation + 1) + frame[4:] if number >= 3 else frame


def _no_error(frame: bytes, number: int) -> bytes:
    return frame[:4] + bytes(2) + frame[6:]


def of_topic(**fields: Any) -> Alter:
    """Of the topics in metadata, creations and deletions."""

    def alter(exchange: Exchange) -> None:
        for topic in getattr(exchange.answer, "topics", None) or getattr(exchange.answer, "responses", None) or ():
            for name, value in fields.items():
                setattr(topic, name, value)

    return alter


def _named(part: str, alter: Alter) -> Alter:
    """Only if a topic of the request has this in its name."""
    return only_if(lambda exchange: any(part in (each.name or "") for each in exchange.request.topics or ()), alter)


def _setting(value: str) -> Alter:
    def alter(exchange: Exchange) -> None:
        for config in exchange.answer.results[0].configs:
            config.value = value

    return alter


def _another_setting(exchange: Exchange) -> None:
    configs = exchange.answer.results[0].configs
    kind = type(exchange.answer).DescribeConfigsResult.DescribeConfigsResourceResult
    exchange.answer.results[0].configs = [*configs, kind(name="segment.bytes", value="1", config_source=5)]


def _dropped_record_bytes(exchange: Exchange) -> None:
    for partition in partitions(exchange.answer):
        partition.records = bytes(partition.records or b"")[:-1]


def _no_records(exchange: Exchange) -> None:
    for partition in partitions(exchange.answer):
        partition.records = b""


def _shifted(exchange: Exchange) -> None:
    """The records with other offsets: the first eight bytes of a batch are outside its checksum."""
    for partition in partitions(exchange.answer):
        content = bytearray(partition.records or b"")
        if content:
            content[7] += 1
            partition.records = bytes(content)


def _doubled_records(exchange: Exchange) -> None:
    """As if the last batch stood there twice."""
    for partition in partitions(exchange.answer):
        content = bytes(partition.records or b"")
        if content:
            (length,) = struct.unpack_from(">i", content, 8)
            partition.records = content + content[: 12 + length]


def _without_aborted(exchange: Exchange) -> None:
    for partition in partitions(exchange.answer):
        partition.aborted_transactions = []


def _controller(exchange: Exchange) -> None:
    if exchange.version >= 1 and exchange.request.topics == []:
        exchange.answer.controller_id = 77


def _fewer_brokers(exchange: Exchange) -> None:
    if exchange.version == 3:
        exchange.answer.brokers = exchange.answer.brokers[1:]


def _coordinator_77(exchange: Exchange) -> None:
    exchange.answer.node_id = 77
    for each in exchange.answer.coordinators or ():
        each.node_id = 77


def _by_timestamp(timestamp: int, **fields: Any) -> Alter:
    def asks(exchange: Exchange) -> bool:
        return bool(exchange.request.topics[0].partitions[0].timestamp == timestamp)

    return only_if(asks, of_partition(**fields))


def _by_time(**fields: Any) -> Alter:
    def asks(exchange: Exchange) -> bool:
        return bool(exchange.request.topics[0].partitions[0].timestamp >= 0)

    return only_if(asks, of_partition(**fields))


def _committed_readers(alter: Alter) -> Alter:
    return only_if(lambda exchange: exchange.request.isolation_level == 1, alter)


def _assignment(exchange: Exchange) -> None:
    exchange.answer.assignment = b"somebody else's"


def _error(code: int, *, instead_of: Sequence[int] | None = None) -> Alter:
    def alter(exchange: Exchange) -> None:
        if instead_of is None or exchange.answer.error_code in instead_of:
            exchange.answer.error_code = code

    return alter


def _of_transaction(alter: Callable[[Any], None]) -> Alter:
    def altered(exchange: Exchange) -> None:
        for topic in exchange.answer.results_by_topic_v3_and_below:
            for partition in topic.results_by_partition:
                alter(partition)

    return altered


def _taken(partition: Any) -> None:
    partition.partition_error_code = 0


def _deleted_groups(code: int, instead_of: int) -> Alter:
    def alter(exchange: Exchange) -> None:
        for result in exchange.answer.results:
            if result.error_code == instead_of:
                result.error_code = code

    return alter


def _stays(exchange: Exchange) -> None:
    for member in exchange.answer.members:
        member.error_code = 0


def _left(exchange: Exchange) -> None:
    exchange.answer.error_code = 25
    for member in exchange.answer.members or ():
        member.error_code = 25


LATEST, EARLIEST, YOUNGEST = -1, -2, -3
_versions = ApiVersionsRequest
_refused_is_taken = only_if(failed, of_partition(error_code=0, base_offset=1))

OF_THE_LOG: Mapping[str, Sequence[Lie]] = {
    "api-versions": [
        Lie(api=_versions, alter=_doubled_api, breaks="APIs told more than once"),
        Lie(api=_versions, alter=_api(3, 9, 2), breaks="a range that has no version"),
        Lie(api=_versions, alter=in_version(2, _without_api(0)), breaks="version 2, the APIs"),
        Lie(api=_versions, alter=_without_api(18), breaks="ApiVersions itself"),
    ],
    "api-versions-unknown-version": [Lie(api=_versions, frame=_no_error, breaks="error")],
    "unknown-version": [Lie(api=_versions, alter=from_number(3, sets(error_code=35)), breaks="the next request")],
    "pipelined-requests": [Lie(api=_versions, frame=_other_correlation, breaks="correlation ids")],
    "versions-for-kafka-python": [Lie(api=_versions, alter=_api(0, 90, 99), breaks="Produce")],
    "versions-for-librdkafka": [Lie(api=_versions, alter=_api(1, 90, 99), breaks="Fetch")],
    "versions-for-aiokafka": [Lie(api=_versions, alter=_api(3, 6, 12), breaks="Metadata")],
    "versions-for-kafka-chaos": [Lie(api=_versions, alter=_without_api(0), breaks="Produce")],
    "whole-features": [Lie(api=_versions, alter=_without_api(14), breaks="JoinGroup, SyncGroup")],
    "metadata": [
        Lie(api=MetadataRequest, alter=_controller, breaks="controller"),
        Lie(api=MetadataRequest, alter=_fewer_brokers, breaks="different lists of brokers"),
    ],
    "brokers-answer": [Lie(api=_versions, alter=from_number(3, _without_api(0)), breaks="Produce and Fetch")],
    "metadata-unknown-topic": [
        Lie(api=MetadataRequest, alter=of_topic(error_code=0), breaks="error"),
        Lie(
            api=MetadataRequest,
            alter=of_topic(name="x"),
            breaks="name",
        ),
    ],
    "create-topic": [
        Lie(api=CreateTopicsRequest, alter=of_topic(error_code=42), breaks="error"),
        Lie(api=CreateTopicsRequest, alter=of_topic(num_partitions=1), breaks="partitions"),
        Lie(api=CreateTopicsRequest, alter=of_topic(replication_factor=1), breaks="replicas"),
        Lie(api=CreateTopicsRequest, alter=of_topic(topic_id=None), breaks="the topic's id"),
    ],
    "create-topic-twice": [Lie(api=CreateTopicsRequest, alter=of_topic(error_code=0), breaks="the second creation")],
    "create-topic-refused": [
        Lie(api=CreateTopicsRequest, alter=_named(part, of_topic(error_code=0)), breaks=what)
        for part, what in (("a/b", "slash"), ("none", "no partition"), ("many", "replicas"), ("odd", "a setting"))
    ],
    "create-topic-tried": [Lie(api=MetadataRequest, alter=of_topic(error_code=0), breaks="the topic afterwards")],
    "topic-settings": [
        Lie(api=DescribeConfigsRequest, alter=_setting("1"), breaks="retention.ms"),
        Lie(api=DescribeConfigsRequest, alter=_another_setting, breaks="not asked for"),
    ],
    "delete-topic": [Lie(api=DeleteTopicsRequest, alter=of_topic(error_code=0), breaks="again")],
    "produce": [
        Lie(api=ProduceRequest, alter=of_partition(base_offset=lambda offset: offset + 1), breaks="base_offset"),
        Lie(api=ProduceRequest, alter=of_partition(log_append_time_ms=0), breaks="log_append_time_ms"),
        Lie(api=ProduceRequest, alter=of_partition(log_start_offset=-1), breaks="log_start_offset"),
        Lie(api=ProduceRequest, alter=of_partition(index=1), breaks="partition"),
        Lie(api=ProduceRequest, alter=of_partition(error_code=2), breaks="error"),
        Lie(api=FetchRequest, alter=_doubled_records, breaks="records in the log"),
    ],
    "produce-append-time": [
        Lie(
            api=ProduceRequest,
            alter=of_partition(log_append_time_ms=lambda ms: ms * 1_000_000),
            breaks="log_append",
        ),
        Lie(
            api=ProduceRequest,
            alter=of_partition(log_append_time_ms=lambda ms: ms + 1),
            breaks="timestamp",
        ),
    ],
    "produce-acks-1": [Lie(api=ProduceRequest, alter=of_partition(base_offset=-1), breaks="base_offset")],
    "produce-acks-0": [Lie(api=FetchRequest, alter=_shifted, breaks="records in the log")],
    "produce-wrong-acks": [
        Lie(api=ProduceRequest, alter=_refused_is_taken, breaks="acks=2, error"),
        Lie(api=ListOffsetsRequest, alter=_by_timestamp(LATEST, offset=2), breaks="the log's end afterwards"),
    ],
    "produce-damaged-batch": [Lie(api=ProduceRequest, alter=_refused_is_taken, breaks="error")],
    "produce-refused-fields": [
        Lie(api=ProduceRequest, alter=of_partition(base_offset=0), breaks="base_offset"),
        Lie(api=ProduceRequest, alter=of_partition(log_append_time_ms=0), breaks="log_append_time_ms"),
        Lie(api=ProduceRequest, alter=of_partition(log_start_offset=0), breaks="log_start_offset"),
    ],
    "produce-too-large": [Lie(api=ProduceRequest, alter=_refused_is_taken, breaks="error")],
    "produce-unknown-partition": [
        Lie(api=ProduceRequest, alter=_refused_is_taken, breaks="a topic that nobody made, error"),
    ],
    "produce-not-leader": [Lie(api=ProduceRequest, alter=_refused_is_taken, breaks="error")],
    "producer-ids": [
        Lie(api=InitProducerIdRequest, alter=sets(producer_id=5), breaks="given twice"),
        Lie(api=InitProducerIdRequest, alter=sets(producer_epoch=3), breaks="producer_epoch"),
        Lie(api=InitProducerIdRequest, alter=sets(producer_id=-1), breaks="producer_id"),
    ],
    "duplicate-batch": [
        Lie(api=ProduceRequest, alter=from_number(5, of_partition(base_offset=99)), breaks="again, base_offset"),
        Lie(api=ProduceRequest, alter=from_number(5, of_partition(error_code=45)), breaks="again, error"),
        Lie(api=FetchRequest, alter=_doubled_records, breaks="records in the log"),
    ],
    "out-of-order-sequence": [Lie(api=ProduceRequest, alter=_refused_is_taken, breaks="leaves others out")],
    "old-producer-epoch": [Lie(api=ProduceRequest, alter=_refused_is_taken, breaks="a batch of the old epoch")],
    "fetch": [
        Lie(api=FetchRequest, alter=_dropped_record_bytes, breaks="records"),
        Lie(api=FetchRequest, alter=_shifted, breaks="records"),
        Lie(api=FetchRequest, alter=of_partition(high_watermark=5), breaks="high_watermark"),
        Lie(api=FetchRequest, alter=of_partition(last_stable_offset=-1), breaks="last_stable_offset"),
        Lie(api=FetchRequest, alter=of_partition(log_start_offset=-1), breaks="log_start_offset"),
    ],
    "fetch-out-of-range": [Lie(api=FetchRequest, alter=of_partition(error_code=0), breaks="beyond the end")],
    "fetch-large-batch": [Lie(api=FetchRequest, alter=_no_records, breaks="limit of 1 byte")],
    "read-unknown-topic": [
        Lie(api=FetchRequest, alter=of_partition(error_code=0), breaks="fetching"),
        Lie(api=ListOffsetsRequest, alter=only_if(failed, of_partition(error_code=0)), breaks="its end"),
    ],
    "list-offsets": [
        Lie(api=ListOffsetsRequest, alter=_by_timestamp(LATEST, offset=lambda end: end - 1), breaks="latest"),
        Lie(api=ListOffsetsRequest, alter=_by_timestamp(EARLIEST, offset=1), breaks="earliest"),
    ],
    "list-offsets-by-time": [
        Lie(api=ListOffsetsRequest, alter=_by_time(offset=0), breaks="the time of 3, offset"),
        Lie(api=ListOffsetsRequest, alter=_by_time(timestamp=-1), breaks="timestamp"),
    ],
    "list-offsets-youngest": [Lie(api=ListOffsetsRequest, alter=_by_timestamp(YOUNGEST, offset=2), breaks="offset")],
    "newer-leader-epoch": [
        Lie(api=FetchRequest, alter=of_partition(error_code=0), breaks="fetching with a newer one"),
        Lie(api=ListOffsetsRequest, alter=of_partition(error_code=0), breaks="the end with a newer one"),
    ],
    "epoch-end": [
        Lie(api=OffsetForLeaderEpochRequest, alter=of_partition(end_offset=lambda end: end + 1), breaks="end_offset")
    ],
}

OF_GROUPS_AND_TRANSACTIONS: Mapping[str, Sequence[Lie]] = {
    "group-coordinator": [Lie(api=FindCoordinatorRequest, alter=_coordinator_77, breaks="the broker")],
    "group-join": [
        Lie(api=JoinGroupRequest, alter=sets(generation_id=-1), breaks="generation_id"),
        Lie(api=JoinGroupRequest, alter=sets(leader="somebody"), breaks="leader"),
        Lie(api=JoinGroupRequest, alter=sets(protocol_name="roundrobin"), breaks="protocol_name"),
        Lie(api=JoinGroupRequest, alter=_error(0, instead_of=[79]), breaks="without a member id"),
        Lie(api=SyncGroupRequest, alter=_assignment, breaks="sync, assignment"),
        Lie(api=HeartbeatRequest, alter=_error(22), breaks="heartbeat"),
    ],
    "group-versions": [
        Lie(
            api=JoinGroupRequest,
            alter=in_version(5, sets(generation_id=1)),
            breaks="JoinGroup",
        ),
        Lie(api=SyncGroupRequest, alter=_assignment, breaks="SyncGroup"),
        Lie(api=HeartbeatRequest, alter=in_version(0, _error(25)), breaks="Heartbeat"),
    ],
    "group-offsets": [
        Lie(api=OffsetFetchRequest, alter=of_partition(committed_offset=3), breaks="offset"),
        Lie(api=OffsetFetchRequest, alter=of_partition(metadata=""), breaks="metadata"),
        Lie(api=OffsetCommitRequest, alter=of_partition(error_code=12), breaks="OffsetCommit"),
    ],
    "group-old-generation": [
        Lie(api=OffsetCommitRequest, alter=of_partition(error_code=0), breaks="a commit of the one before"),
        Lie(api=HeartbeatRequest, alter=_error(0), breaks="a heartbeat"),
        Lie(api=SyncGroupRequest, alter=_error(0), breaks="a sync"),
        Lie(api=OffsetFetchRequest, alter=of_partition(committed_offset=9), breaks="the offset afterwards"),
    ],
    "group-unknown-member": [
        Lie(api=OffsetCommitRequest, alter=of_partition(error_code=0), breaks="a commit"),
        Lie(api=HeartbeatRequest, alter=_error(0), breaks="a heartbeat"),
        Lie(api=JoinGroupRequest, alter=_error(0, instead_of=[25]), breaks="joining again"),
        Lie(api=LeaveGroupRequest, alter=_stays, breaks="leaving"),
    ],
    "group-rebalance": [
        Lie(api=HeartbeatRequest, alter=_error(22, instead_of=[27]), breaks="the first member's heartbeat"),
        Lie(api=JoinGroupRequest, alter=sets(members=[]), breaks="members told to the leader"),
        Lie(api=SyncGroupRequest, alter=_assignment, breaks="assignment"),
    ],
    "group-leave": [
        Lie(api=HeartbeatRequest, alter=_error(0), breaks="a heartbeat afterwards"),
        Lie(api=LeaveGroupRequest, alter=_left, breaks="leaving"),
    ],
    "group-refused": [
        Lie(api=JoinGroupRequest, alter=_error(0, instead_of=[code]), breaks=what)
        for code, what in ((23, "a protocol"), (26, "a session"), (24, "a group without a name"))
    ],
    "group-without-members": [
        Lie(api=OffsetFetchRequest, alter=of_partition(committed_offset=-1), breaks="the offset")
    ],
    "group-deleted": [
        Lie(api=DeleteGroupsRequest, alter=_deleted_groups(0, instead_of=68), breaks="with a member"),
        Lie(api=DeleteGroupsRequest, alter=_deleted_groups(0, instead_of=69), breaks="again"),
        Lie(api=OffsetFetchRequest, alter=of_partition(committed_offset=5), breaks="the offset afterwards"),
    ],
    "group-not-coordinator": [Lie(api=HeartbeatRequest, alter=_error(0), breaks="a heartbeat")],
    "transactional-ids": [
        Lie(api=InitProducerIdRequest, alter=sets(producer_epoch=0), breaks="epoch"),
        Lie(api=InitProducerIdRequest, alter=sets(producer_id=-1), breaks="producer_id"),
    ],
    "open-transaction": [
        Lie(api=FetchRequest, alter=of_partition(last_stable_offset=4), breaks="last_stable_offset"),
        Lie(api=FetchRequest, alter=_no_records, breaks="open, read_uncommitted"),
        Lie(
            api=ListOffsetsRequest,
            alter=_committed_readers(_by_timestamp(LATEST, offset=4)),
            breaks="latest, read_committed",
        ),
    ],
    "committed-transaction": [
        Lie(api=FetchRequest, alter=_committed_readers(_no_records), breaks="committed, read_committed"),
        Lie(api=EndTxnRequest, alter=_error(48), breaks="the commit"),
        Lie(api=ListOffsetsRequest, alter=_committed_readers(of_partition(offset=1)), breaks="latest, read_committed"),
    ],
    "aborted-transaction": [Lie(api=FetchRequest, alter=_without_aborted, breaks="aborted, read_committed")],
    "fenced-producer": [
        Lie(api=ProduceRequest, alter=only_if(failed, of_partition(error_code=0)), breaks="next batch"),
        Lie(api=AddPartitionsToTxnRequest, alter=_of_transaction(_taken), breaks="adding a partition"),
        Lie(api=EndTxnRequest, alter=_error(0), breaks="its commit"),
        Lie(api=InitProducerIdRequest, alter=sets(producer_epoch=0), breaks="the second producer's epoch"),
        Lie(api=FetchRequest, alter=_without_aborted, breaks="the first one's transaction"),
    ],
    "transaction-offsets": [
        Lie(
            api=OffsetFetchRequest,
            alter=only_if(lambda each: each.number < 2, of_partition(committed_offset=5)),
            breaks="the offset before the abort",
        ),
        Lie(api=OffsetFetchRequest, alter=of_partition(error_code=0), breaks="fetching stable offsets meanwhile"),
        Lie(api=TxnOffsetCommitRequest, alter=of_partition(error_code=12), breaks="committing the offset"),
    ],
    "transaction-refused": [
        Lie(api=EndTxnRequest, alter=_error(0), breaks="a commit of nothing"),
        Lie(api=InitProducerIdRequest, alter=_error(0, instead_of=[50]), breaks="a timeout of 0"),
        Lie(api=AddPartitionsToTxnRequest, alter=_of_transaction(_taken), breaks="adding a topic"),
    ],
}
