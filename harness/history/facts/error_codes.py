"""Kafka's error codes that clients are answered: the name of each in the protocol, and what it means.

A code decides nothing by its meaning: what an answer leaves open is said by the clients' table of outcomes.
"""

from collections.abc import Mapping
from dataclasses import dataclass

CORRUPT_MESSAGE, UNKNOWN_TOPIC, NOT_LEADER, REQUEST_TIMED_OUT = 2, 3, 6, 7
NOT_ENOUGH_REPLICAS, NOT_ENOUGH_REPLICAS_AFTER_APPEND = 19, 20
OUT_OF_ORDER_SEQUENCE_NUMBER, DUPLICATE_SEQUENCE_NUMBER = 45, 46
STORAGE_ERROR, UNKNOWN_PRODUCER_ID = 56, 59
INVALID_PRODUCER_EPOCH, PRODUCER_FENCED = 47, 90
# What is refused of one producer for what the brokers know of it, or do not.
OF_THE_PRODUCER = frozenset(
    {
        OUT_OF_ORDER_SEQUENCE_NUMBER,
        DUPLICATE_SEQUENCE_NUMBER,
        INVALID_PRODUCER_EPOCH,
        48,
        49,
        51,
        UNKNOWN_PRODUCER_ID,
        PRODUCER_FENCED,
    }
)
# What a client gets over that looks for the leader anew and asks again.
OF_THE_MOMENT = frozenset(
    {UNKNOWN_TOPIC, 5, NOT_LEADER, REQUEST_TIMED_OUT, 8, 9, 13, NOT_ENOUGH_REPLICAS, NOT_ENOUGH_REPLICAS_AFTER_APPEND}
)
# What a topic's or a cluster's rules refuse of whoever asks: sizes, formats, rights, quotas.
OF_A_RULE = frozenset({10, 17, 18, 21, 29, 30, 31, 32, 33, 35, 43, 44, 53, 76, 87, 89})


@dataclass(frozen=True, kw_only=True)
class ErrorCode:
    code: int
    name: str
    meaning: str = ""

    def __str__(self) -> str:
        return f"{self.name} ({self.code})"


def error_code(code: int) -> ErrorCode:
    """Of a code that is not in the table, only the number is known."""
    known = _CODES.get(code)
    return (
        ErrorCode(code=code, name="error") if known is None else ErrorCode(code=code, name=known[0], meaning=known[1])
    )


_CODES: Mapping[int, tuple[str, str]] = {
    -1: ("UNKNOWN_SERVER_ERROR", "the broker met an error that it has no code for"),
    1: ("OFFSET_OUT_OF_RANGE", "the log does not have the offset"),
    CORRUPT_MESSAGE: ("CORRUPT_MESSAGE", "the batch did not arrive as it was sent, or breaks the broker's rules"),
    UNKNOWN_TOPIC: ("UNKNOWN_TOPIC_OR_PARTITION", "the broker has no such partition"),
    5: ("LEADER_NOT_AVAILABLE", "the partition has no leader"),
    NOT_LEADER: ("NOT_LEADER_OR_FOLLOWER", "the broker that was asked does not lead the partition, or not any more"),
    REQUEST_TIMED_OUT: (
        "REQUEST_TIMED_OUT",
        "not every in-sync replica had the batch in time, or no answer came in time",
    ),
    8: ("BROKER_NOT_AVAILABLE", "the broker is not there"),
    9: ("REPLICA_NOT_AVAILABLE", "the broker has no replica of the partition"),
    10: ("MESSAGE_TOO_LARGE", "the batch is larger than the topic takes (max.message.bytes)"),
    12: ("OFFSET_METADATA_TOO_LARGE", "the words beside a committed offset are longer than the broker takes"),
    13: ("NETWORK_EXCEPTION", "the connection ended before the answer"),
    14: ("COORDINATOR_LOAD_IN_PROGRESS", "the coordinator is reading what it has to know"),
    15: ("COORDINATOR_NOT_AVAILABLE", "the coordinator is not there"),
    16: ("NOT_COORDINATOR", "the broker that was asked is not the coordinator, or not any more"),
    17: ("INVALID_TOPIC_EXCEPTION", "nobody may write to a topic of that name"),
    18: ("RECORD_LIST_TOO_LARGE", "the batch is larger than a segment of the log"),
    NOT_ENOUGH_REPLICAS: ("NOT_ENOUGH_REPLICAS", "fewer replicas are in sync than min.insync.replicas demands"),
    NOT_ENOUGH_REPLICAS_AFTER_APPEND: (
        "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
        "the batch was written, and then fewer replicas were in sync than min.insync.replicas demands",
    ),
    21: ("INVALID_REQUIRED_ACKS", "the broker does not take this value of acks"),
    22: ("ILLEGAL_GENERATION", "the group has another generation than the member knows"),
    23: ("INCONSISTENT_GROUP_PROTOCOL", "the other members have no protocol in common with this one"),
    24: ("INVALID_GROUP_ID", "a group cannot have that name"),
    25: ("UNKNOWN_MEMBER_ID", "the group has no such member, or not any more"),
    26: ("INVALID_SESSION_TIMEOUT", "the session is shorter or longer than the broker takes"),
    27: ("REBALANCE_IN_PROGRESS", "the group is about to begin another generation: its members join again"),
    29: ("TOPIC_AUTHORIZATION_FAILED", "the client may not write to the topic"),
    30: ("GROUP_AUTHORIZATION_FAILED", "the client may not use the group"),
    31: ("CLUSTER_AUTHORIZATION_FAILED", "the client may not do so in this cluster"),
    32: ("INVALID_TIMESTAMP", "the record's timestamp is out of the range that the topic takes"),
    33: ("UNSUPPORTED_SASL_MECHANISM", "the broker does not take this kind of login"),
    35: ("UNSUPPORTED_VERSION", "the broker does not know this version of the request"),
    36: ("TOPIC_ALREADY_EXISTS", "there is a topic of that name"),
    37: ("INVALID_PARTITIONS", "a topic cannot have that number of partitions"),
    38: ("INVALID_REPLICATION_FACTOR", "there are not as many brokers as replicas were wanted"),
    40: ("INVALID_CONFIG", "there is no such setting, or it cannot have that value"),
    41: ("NOT_CONTROLLER", "the broker that was asked is not the controller"),
    42: ("INVALID_REQUEST", "the request contradicts itself, or lacks something"),
    43: ("UNSUPPORTED_FOR_MESSAGE_FORMAT", "the topic's message format is too old for it"),
    44: ("POLICY_VIOLATION", "a policy of the cluster forbids it"),
    OUT_OF_ORDER_SEQUENCE_NUMBER: (
        "OUT_OF_ORDER_SEQUENCE_NUMBER",
        "the batch does not follow the last one that the leader knows of this producer",
    ),
    DUPLICATE_SEQUENCE_NUMBER: (
        "DUPLICATE_SEQUENCE_NUMBER",
        "the leader has the batch already, and does not know its offset any more",
    ),
    INVALID_PRODUCER_EPOCH: ("INVALID_PRODUCER_EPOCH", "another producer took over the id of this one"),
    48: ("INVALID_TXN_STATE", "the transaction is in no state for this"),
    49: ("INVALID_PRODUCER_ID_MAPPING", "the producer id is not that of the transactional id any more"),
    50: ("INVALID_TRANSACTION_TIMEOUT", "the transaction's timeout is longer than the brokers allow"),
    51: ("CONCURRENT_TRANSACTIONS", "the transaction before is not complete yet"),
    53: ("TRANSACTIONAL_ID_AUTHORIZATION_FAILED", "the client may not use the transactional id"),
    STORAGE_ERROR: ("KAFKA_STORAGE_ERROR", "the broker cannot use the disk of the log"),
    UNKNOWN_PRODUCER_ID: (
        "UNKNOWN_PRODUCER_ID",
        "the leader knows nothing of this producer, or not any more: until Kafka 2.4 (KIP-360) its state went with the "
        "last of its records",
    ),
    68: ("NON_EMPTY_GROUP", "the group has members"),
    69: ("GROUP_ID_NOT_FOUND", "there is no such group"),
    73: ("TOPIC_DELETION_DISABLED", "the broker is set to delete no topics"),
    74: ("FENCED_LEADER_EPOCH", "the client knows an older leader epoch than the broker"),
    75: ("UNKNOWN_LEADER_EPOCH", "the client knows a newer leader epoch than the broker"),
    76: ("UNSUPPORTED_COMPRESSION_TYPE", "the broker does not take this compression"),
    78: ("OFFSET_NOT_AVAILABLE", "a new leader does not know yet how far its log is committed"),
    79: ("MEMBER_ID_REQUIRED", "a member joins with the id that this answer gives it"),
    87: ("INVALID_RECORD", "the broker's rules refuse the record"),
    88: ("UNSTABLE_OFFSET_COMMIT", "a transaction that committed an offset is not complete yet"),
    89: ("THROTTLING_QUOTA_EXCEEDED", "the client's quota is used up"),
    PRODUCER_FENCED: ("PRODUCER_FENCED", "a newer producer has the transactional id"),
    100: ("UNKNOWN_TOPIC_ID", "the broker knows no topic of this id"),
    120: ("TRANSACTION_ABORTABLE", "the transaction has to be aborted, and may be tried again"),
}
