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
    # What clients of a run are seldom answered, in the order of the codes.
    4: ("INVALID_FETCH_SIZE", "a fetch cannot ask for that many bytes"),
    11: ("STALE_CONTROLLER_EPOCH", "the request came from a controller that was replaced"),
    28: ("INVALID_COMMIT_OFFSET_SIZE", "the committed offset is larger than the broker takes with its words"),
    34: ("ILLEGAL_SASL_STATE", "the login is at another step than the request"),
    39: ("INVALID_REPLICA_ASSIGNMENT", "the replicas cannot be placed so"),
    52: ("TRANSACTION_COORDINATOR_FENCED", "another broker coordinates the transaction by now"),
    54: ("SECURITY_DISABLED", "the cluster has no authorizer"),
    55: ("OPERATION_NOT_ATTEMPTED", "another part of the request failed, so this one was not tried"),
    57: ("LOG_DIR_NOT_FOUND", "the broker has no such log directory"),
    58: ("SASL_AUTHENTICATION_FAILED", "the login was refused"),
    60: ("REASSIGNMENT_IN_PROGRESS", "the partition's replicas are being moved"),
    61: ("DELEGATION_TOKEN_AUTH_DISABLED", "the cluster takes no delegation tokens"),
    62: ("DELEGATION_TOKEN_NOT_FOUND", "there is no such delegation token"),
    63: ("DELEGATION_TOKEN_OWNER_MISMATCH", "the delegation token is another user's"),
    64: ("DELEGATION_TOKEN_REQUEST_NOT_ALLOWED", "delegation tokens cannot be asked for over such a connection"),
    65: ("DELEGATION_TOKEN_AUTHORIZATION_FAILED", "the client may not use the delegation token"),
    66: ("DELEGATION_TOKEN_EXPIRED", "the delegation token's time is over"),
    67: ("INVALID_PRINCIPAL_TYPE", "the cluster knows no such kind of user"),
    70: ("FETCH_SESSION_ID_NOT_FOUND", "the broker does not know the fetch session, or not any more"),
    71: ("INVALID_FETCH_SESSION_EPOCH", "the fetch session is at another step than the request"),
    72: ("LISTENER_NOT_FOUND", "the leader has no listener of that name"),
    77: ("STALE_BROKER_EPOCH", "the broker has registered anew since"),
    80: ("PREFERRED_LEADER_NOT_AVAILABLE", "the partition's first replica cannot lead now"),
    81: ("GROUP_MAX_SIZE_REACHED", "the group has as many members as it may have"),
    82: ("FENCED_INSTANCE_ID", "another member has the same static name"),
    83: ("ELIGIBLE_LEADERS_NOT_AVAILABLE", "no replica that may lead is there"),
    84: ("ELECTION_NOT_NEEDED", "the partition has the leader that was asked for"),
    85: ("NO_REASSIGNMENT_IN_PROGRESS", "the partition's replicas are not being moved"),
    86: ("GROUP_SUBSCRIBED_TO_TOPIC", "members of the group read the topic"),
    91: ("RESOURCE_NOT_FOUND", "there is no such thing"),
    92: ("DUPLICATE_RESOURCE", "the request names the same thing twice"),
    93: ("UNACCEPTABLE_CREDENTIAL", "the cluster does not take such a secret"),
    94: ("INCONSISTENT_VOTER_SET", "the controllers do not agree who votes"),
    95: ("INVALID_UPDATE_VERSION", "a feature cannot have that level"),
    96: ("FEATURE_UPDATE_FAILED", "the features could not be changed"),
    97: ("PRINCIPAL_DESERIALIZATION_FAILURE", "the controller could not read which user a forwarded request is from"),
    98: ("SNAPSHOT_NOT_FOUND", "the controller has no such snapshot"),
    99: ("POSITION_OUT_OF_RANGE", "the snapshot does not have that position"),
    101: ("DUPLICATE_BROKER_REGISTRATION", "another broker has the id"),
    102: ("BROKER_ID_NOT_REGISTERED", "no broker of the id is registered"),
    103: ("INCONSISTENT_TOPIC_ID", "the log is another topic's of that name"),
    104: ("INCONSISTENT_CLUSTER_ID", "the broker is of another cluster"),
    105: ("TRANSACTIONAL_ID_NOT_FOUND", "the coordinator knows no such transactional id, or not any more"),
    106: ("FETCH_SESSION_TOPIC_ID_ERROR", "the fetch session names topics in another way than the request"),
    107: ("INELIGIBLE_REPLICA", "a replica that was to be in sync may not be"),
    108: ("NEW_LEADER_ELECTED", "the change of the in-sync replicas elected another leader"),
    109: ("OFFSET_MOVED_TO_TIERED_STORAGE", "the offset is in remote storage alone"),
    110: ("FENCED_MEMBER_EPOCH", "the group has given the member's partitions to others"),
    111: ("UNRELEASED_INSTANCE_ID", "another member still has the static name"),
    112: ("UNSUPPORTED_ASSIGNOR", "the group does not take this way of assigning partitions"),
    113: ("STALE_MEMBER_EPOCH", "the member does not know its newest assignment yet"),
    114: ("MISMATCHED_ENDPOINT_TYPE", "the request is for controllers and came to a broker, or the other way round"),
    115: ("UNSUPPORTED_ENDPOINT_TYPE", "there is no such kind of endpoint"),
    116: ("UNKNOWN_CONTROLLER_ID", "there is no such controller"),
    117: ("UNKNOWN_SUBSCRIPTION_ID", "the broker does not want these measures of the client, or not any more"),
    118: ("TELEMETRY_TOO_LARGE", "the client's measures are larger than the broker takes"),
    119: ("INVALID_REGISTRATION", "the controller does not take the broker's registration"),
    121: ("INVALID_RECORD_STATE", "the record was not given to this reader of the share group, or not any more"),
    122: ("SHARE_SESSION_NOT_FOUND", "the broker does not know the share session, or not any more"),
    123: ("INVALID_SHARE_SESSION_EPOCH", "the share session is at another step than the request"),
    124: ("FENCED_STATE_EPOCH", "another broker keeps the share group's state by now"),
    125: ("INVALID_VOTER_KEY", "the controller that was asked is not the voter that was meant"),
    126: ("DUPLICATE_VOTER", "the controller votes already"),
    127: ("VOTER_NOT_FOUND", "the controller is no voter"),
    128: ("INVALID_REGULAR_EXPRESSION", "the pattern of topics cannot be read"),
    129: ("REBOOTSTRAP_REQUIRED", "the client has to ask for the brokers anew"),
    130: ("STREAMS_INVALID_TOPOLOGY", "the stream application's topology cannot be"),
    131: ("STREAMS_INVALID_TOPOLOGY_EPOCH", "the stream application's topology has another epoch"),
    132: ("STREAMS_TOPOLOGY_FENCED", "the stream application has a newer topology"),
    133: ("SHARE_SESSION_LIMIT_REACHED", "the broker has as many share sessions as it may have"),
}
