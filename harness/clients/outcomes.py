"""The one table of what an answer to a produce request means; every client library's adapter asks it.

ok is only an acknowledgement with an offset. fail means that no attempt can have been appended. Everything else is
info: nobody knows. Sources: Kafka's ReplicaManager as told in replication.md 1.5 and 7; Jepsen's table (jepsen.md 2.4)
agrees, NOT_LEADER_OR_FOLLOWER included, which is info because the wire does not tell a refusal before the append from
a loss of leadership after it (KAFKA-13574).
"""

from typing import Literal

Status = Literal["ok", "fail", "info"]

# The same record gets the same refusal at every attempt, so that none of them was appended.
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

# This attempt was refused before the append; an earlier attempt of the same call may have gone in.
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

# What a client library raises while it still holds the record, by the exception's name: nothing was sent.
NEVER_SENT = frozenset(
    {
        "KafkaTimeoutError",  # kafka-python: no metadata, or no room, within max_block_ms
        "NoBrokersAvailable",
        "IllegalStateError",
        "KafkaConfigurationError",
        "MessageSizeTooLargeError",
        "TypeError",
        "ValueError",
        "UnrecognizedBrokerVersion",
    }
)


def of_code(code: int, *, retried: bool) -> Status:
    """The outcome of a call that ended with a broker's error code. `retried`: the library may have tried before."""
    if code == 0:
        return "ok"
    if code in REFUSED_ALWAYS or (code in REFUSED_THIS_TIME and not retried):
        return "fail"
    return "info"


def of_delivery(error: BaseException, *, retried: bool) -> Status:
    """The outcome of a record that had been handed over and came back with an exception.

    A broker's error carries its code as `errno`; disconnects and the library's own time-outs carry none.
    """
    code = getattr(error, "errno", None)
    if isinstance(error, OSError) or not isinstance(code, int) or code == 0:
        return "info"
    return of_code(code, retried=retried)


def of_hand_over(error: BaseException) -> Status:
    """The outcome of a record that the library refused to take."""
    return "fail" if type(error).__name__ in NEVER_SENT else "info"
