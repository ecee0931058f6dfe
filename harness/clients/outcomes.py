"""The table of what an answer to a produce request means; every client library's adapter uses it.

ok: acknowledged with an offset. fail: no attempt can have been appended. info: everything else, unknown. Sources:
Kafka's ReplicaManager (docs/replication.md R7 and R9). Jepsen's table (jepsen.redpanda.workload.queue) agrees,
including NOT_LEADER_OR_FOLLOWER, which is info because the protocol does not distinguish a refusal before the append
from a loss of leadership after it (KAFKA-13574). The libraries report the same answer in four ways (an exception with
`errno`, an error object with `code()`, a class without a number, the name of a Java class): `library_error_of` and
`java_error_of` convert them.
"""

from dataclasses import dataclass
from typing import Any, Literal

Status = Literal["ok", "fail", "info"]

# The record gets the same refusal at every attempt, so none was appended.
REFUSED_ALWAYS = frozenset(
    {
        10,  # MESSAGE_TOO_LARGE
        17,  # INVALID_TOPIC_EXCEPTION
        21,  # INVALID_REQUIRED_ACKS
        32,  # INVALID_TIMESTAMP
        35,  # UNSUPPORTED_VERSION
        87,  # INVALID_RECORD
    }
)

# This attempt was refused before the append; an earlier attempt of the same call may have been appended.
REFUSED_THIS_TIME = frozenset(
    {
        2,  # CORRUPT_MESSAGE
        3,  # UNKNOWN_TOPIC_OR_PARTITION
        19,  # NOT_ENOUGH_REPLICAS
        29,  # TOPIC_AUTHORIZATION_FAILED
        45,  # OUT_OF_ORDER_SEQUENCE_NUMBER
        47,  # INVALID_PRODUCER_EPOCH
        48,  # INVALID_TXN_STATE
        90,  # PRODUCER_FENCED
        100,  # UNKNOWN_TOPIC_ID
        120,  # TRANSACTION_ABORTABLE
    }
)

# librdkafka's own errors for a record that this attempt never sent. After its other own errors (below -1) the outcome
# is unknown: _MSG_TIMED_OUT, _PURGE_INFLIGHT, _TRANSPORT, _DESTROY, _FATAL and the rest.
NOT_SENT_THIS_TIME = frozenset(
    {
        -152,  # _PURGE_QUEUE
        -166,  # _TIMED_OUT_QUEUE
        -184,  # _QUEUE_FULL
        -186,  # _INVALID_ARG
        -188,  # _UNKNOWN_TOPIC
        -190,  # _UNKNOWN_PARTITION
    }
)
_OWN_ERRORS_BELOW = -1  # -1 itself is Kafka's UNKNOWN_SERVER_ERROR

# Kafka's errors that a library reports as a class without a number.
CODES_BY_NAME = {
    "ProducerFenced": 47,  # aiokafka, for INVALID_PRODUCER_EPOCH
}

# The exceptions of Kafka's own clients in Java, by class. Those that the client raises itself have no number: a
# TimeoutException may be of a record that was never sent, or of one whose answer is missing.
CODES_OF_JAVA = {
    "UnknownServerException": -1,
    "CorruptRecordException": 2,
    "UnknownTopicOrPartitionException": 3,
    "LeaderNotAvailableException": 5,
    "NotLeaderOrFollowerException": 6,
    "RecordTooLargeException": 10,
    "CoordinatorLoadInProgressException": 14,
    "CoordinatorNotAvailableException": 15,
    "NotCoordinatorException": 16,
    "InvalidTopicException": 17,
    "RecordBatchTooLargeException": 18,
    "NotEnoughReplicasException": 19,
    "NotEnoughReplicasAfterAppendException": 20,
    "InvalidRequiredAcksException": 21,
    "TopicAuthorizationException": 29,
    "ClusterAuthorizationException": 31,
    "InvalidTimestampException": 32,
    "UnsupportedVersionException": 35,
    "PolicyViolationException": 44,
    "OutOfOrderSequenceException": 45,
    "DuplicateSequenceException": 46,
    "InvalidProducerEpochException": 47,
    "InvalidTxnStateException": 48,
    "TransactionalIdAuthorizationException": 53,
    "KafkaStorageException": 56,
    "UnknownProducerIdException": 59,
    "FencedLeaderEpochException": 74,
    "UnknownLeaderEpochException": 75,
    "InvalidRecordException": 87,
    "ProducerFencedException": 90,
    "UnknownTopicIdException": 100,
    "TransactionAbortableException": 120,
}

# Exceptions, by name, that a client library raises while it still holds the record: nothing was sent.
NEVER_SENT = frozenset(
    {
        "KafkaTimeoutError",  # no metadata, or no buffer space, in time
        "NoBrokersAvailable",
        "KafkaConnectionError",  # aiokafka: no bootstrap server answered
        "IllegalStateError",
        "IllegalOperation",
        "KafkaConfigurationError",
        "MessageSizeTooLargeError",
        "UnknownTopicOrPartitionError",
        "TopicAuthorizationFailedError",
        "ProducerClosed",
        "TypeError",
        "ValueError",
        "BufferError",  # confluent-kafka: its queue is full
        "UnrecognizedBrokerVersion",
        "UnsupportedVersionError",
        "IncompatibleBrokerVersion",
        # librdkafka's error names. Its produce() either accepts a record or raises one of these.
        "MSG_SIZE_TOO_LARGE",
        "_QUEUE_FULL",
        "_UNKNOWN_TOPIC",
        "_UNKNOWN_PARTITION",
        "_INVALID_ARG",
        "_FATAL",
        "_STATE",
    }
)
NEVER_SENT_IN_JAVA = frozenset(
    {
        "BufferExhaustedException",
        "IllegalStateException",  # the producer is closed
        "SerializationException",
    }
)


@dataclass(frozen=True, kw_only=True)
class LibraryError:
    """A library's error. code: Kafka's error number; None for the library's own errors, which have only a name."""

    name: str
    code: int | None

    def __str__(self) -> str:
        return self.name if self.code is None else f"{self.name} {self.code}"


def library_error_of(error: object) -> LibraryError:
    """Converts any library's error: an exception, a confluent_kafka.KafkaError, or the exception that contains one."""
    inner = _inner(error)
    number = _own_number(inner)
    if number is not None:
        return LibraryError(name=str(inner.name()), code=None if number < _OWN_ERRORS_BELOW else number)
    name = type(inner).__name__
    code = CODES_BY_NAME.get(name)
    if code is None and not isinstance(inner, OSError):  # its errno is the operating system's
        code = getattr(inner, "errno", None)
    return LibraryError(name=name, code=code if isinstance(code, int) else None)


def java_error_of(class_name: str) -> LibraryError:
    """Of an exception's class, with or without its package."""
    name = class_name.rpartition(".")[2]
    return LibraryError(name=name, code=CODES_OF_JAVA.get(name))


def of_java(error: LibraryError, *, retried: bool) -> Status:
    """The outcome of a record that a Java producer reports with this error, whether it had accepted the record or not:
    it does not say."""
    if error.code is None:
        return "fail" if error.name in NEVER_SENT_IN_JAVA else "info"
    return of_code(error.code, retried=retried)


def _inner(error: Any) -> Any:
    """confluent-kafka raises an exception that contains the error object of its delivery reports."""
    return error.args[0] if type(error).__name__ == "KafkaException" and error.args else error


def _own_number(error: Any) -> int | None:
    """The number of a confluent_kafka.KafkaError, including librdkafka's own ones."""
    number = getattr(error, "code", None)
    return int(number()) if callable(number) else None


def of_code(code: int, *, retried: bool) -> Status:
    """The outcome of a call that ended with an error code. `retried`: the library may have tried before.

    A code below -1 is one of librdkafka's own.
    """
    if code == 0:
        return "ok"
    if code in REFUSED_ALWAYS:
        return "fail"
    if (code in REFUSED_THIS_TIME or code in NOT_SENT_THIS_TIME) and not retried:
        return "fail"
    return "info"


def of_delivery(error: object, *, retried: bool) -> Status:
    """The outcome of a record that was accepted by the library and then reported with an error.

    Disconnects and the libraries' own timeouts have no code: the outcome is unknown.
    """
    number = _own_number(_inner(error))
    code = library_error_of(error).code if number is None else number
    return "info" if code is None or code == 0 else of_code(code, retried=retried)


def of_hand_over(error: object) -> Status:
    """The outcome of a record that the library did not accept."""
    return "fail" if library_error_of(error).name in NEVER_SENT else "info"
