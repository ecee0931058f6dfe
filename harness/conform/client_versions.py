"""Which versions of each API clients send: the lowest and the highest that each library has code for.

Taken from the libraries' sources, of the release that is named. `kafka-chaos` is what the harness itself sends beside
its clients. A library chooses the highest version that the broker has too (KIP-35), so one in common is enough.
"""

from collections.abc import Mapping
from typing import Any

from kafka.protocol.admin import (
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DescribeConfigsRequest,
    DescribeQuorumRequest,
    ElectLeadersRequest,
    IncrementalAlterConfigsRequest,
)
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
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    ProduceRequest,
    TxnOffsetCommitRequest,
)

Sent = Mapping[Any, tuple[int, int]]

# Without these nothing can be written or read.
BASIC = (ApiVersionsRequest, MetadataRequest, ProduceRequest, FetchRequest, ListOffsetsRequest)
GROUPS = (JoinGroupRequest, SyncGroupRequest, HeartbeatRequest, LeaveGroupRequest)
OFFSETS = (OffsetCommitRequest, OffsetFetchRequest)
TRANSACTIONS = (AddPartitionsToTxnRequest, EndTxnRequest)
TRANSACTED_OFFSETS = (AddOffsetsToTxnRequest, TxnOffsetCommitRequest)
# Who offers one of a line offers all of it: a client finds out only within its group or transaction.
WHOLE = (GROUPS, OFFSETS, TRANSACTIONS, TRANSACTED_OFFSETS)

KAFKA_PYTHON: Sent = {  # 3.0.12
    ApiVersionsRequest: (0, 4),
    MetadataRequest: (0, 13),
    ProduceRequest: (0, 9),
    FetchRequest: (0, 12),
    ListOffsetsRequest: (0, 11),
    OffsetForLeaderEpochRequest: (0, 4),
    InitProducerIdRequest: (0, 4),
    FindCoordinatorRequest: (0, 6),
    JoinGroupRequest: (0, 7),
    SyncGroupRequest: (0, 5),
    HeartbeatRequest: (0, 4),
    LeaveGroupRequest: (0, 5),
    OffsetCommitRequest: (0, 8),
    OffsetFetchRequest: (0, 8),
    AddPartitionsToTxnRequest: (0, 3),
    AddOffsetsToTxnRequest: (0, 3),
    EndTxnRequest: (0, 3),
    TxnOffsetCommitRequest: (0, 3),
    CreateTopicsRequest: (0, 7),
    DeleteTopicsRequest: (0, 6),
    DescribeConfigsRequest: (0, 4),
}
LIBRDKAFKA: Sent = {  # 2.16.1
    ApiVersionsRequest: (0, 3),
    MetadataRequest: (0, 13),
    ProduceRequest: (0, 10),
    FetchRequest: (0, 16),
    ListOffsetsRequest: (0, 7),
    OffsetForLeaderEpochRequest: (2, 2),
    InitProducerIdRequest: (0, 4),
    FindCoordinatorRequest: (0, 2),
    JoinGroupRequest: (0, 5),
    SyncGroupRequest: (0, 3),
    HeartbeatRequest: (0, 3),
    LeaveGroupRequest: (0, 1),
    OffsetCommitRequest: (0, 9),
    OffsetFetchRequest: (0, 9),
    AddPartitionsToTxnRequest: (0, 0),
    AddOffsetsToTxnRequest: (0, 0),
    EndTxnRequest: (0, 1),
    TxnOffsetCommitRequest: (0, 3),
    CreateTopicsRequest: (0, 4),
    DeleteTopicsRequest: (0, 4),
    DescribeConfigsRequest: (0, 1),
}
AIOKAFKA: Sent = {  # 0.14.0
    ApiVersionsRequest: (0, 2),
    MetadataRequest: (0, 5),
    ProduceRequest: (0, 8),
    FetchRequest: (0, 11),
    ListOffsetsRequest: (0, 5),
    InitProducerIdRequest: (0, 0),
    FindCoordinatorRequest: (0, 1),
    JoinGroupRequest: (0, 5),
    SyncGroupRequest: (0, 3),
    HeartbeatRequest: (0, 1),
    LeaveGroupRequest: (0, 1),
    OffsetCommitRequest: (0, 3),
    OffsetFetchRequest: (0, 3),
    AddPartitionsToTxnRequest: (0, 0),
    AddOffsetsToTxnRequest: (0, 0),
    EndTxnRequest: (0, 0),
    TxnOffsetCommitRequest: (0, 0),
    CreateTopicsRequest: (0, 3),
    DeleteTopicsRequest: (0, 3),
    DescribeConfigsRequest: (0, 2),
}
KAFKA_CHAOS: Sent = {
    ApiVersionsRequest: (0, 0),
    MetadataRequest: (0, 12),
    ProduceRequest: (0, 7),
    FetchRequest: (0, 12),
    OffsetForLeaderEpochRequest: (0, 3),
    CreateTopicsRequest: (0, 7),
    DeleteTopicsRequest: (0, 6),
    DescribeConfigsRequest: (0, 4),
    IncrementalAlterConfigsRequest: (0, 1),
    ElectLeadersRequest: (0, 2),
    DescribeQuorumRequest: (0, 0),
}
CLIENTS: Mapping[str, Sent] = {
    "kafka-python": KAFKA_PYTHON,
    "librdkafka": LIBRDKAFKA,
    "aiokafka": AIOKAFKA,
    "kafka-chaos": KAFKA_CHAOS,
}
