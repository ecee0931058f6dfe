"""One Kafka error, one outcome: whichever library tells it, and whether it is raised or reported."""

import importlib
import inspect
from collections.abc import Iterator
from typing import Any

import aiokafka.errors
import confluent_kafka
import kafka.errors
import pytest

from harness.clients import outcomes
from harness.clients.outcomes import java_error_of, library_error_of, of_code, of_delivery, of_hand_over, of_java

UNKNOWN_SERVER_ERROR = -1
LIBRARIES = {"kafka-python": kafka.errors, "aiokafka": aiokafka.errors}


def exceptions_of(module: Any) -> Iterator[BaseException]:
    for _, kind in inspect.getmembers(module, inspect.isclass):
        if issubclass(kind, Exception):
            error: BaseException = kind.__new__(kind)  # some ask for arguments that do not matter here
            yield error


def librdkafka_codes() -> dict[int, str]:
    return {
        value: name
        for name, value in inspect.getmembers(confluent_kafka.KafkaError)
        if isinstance(value, int) and name.strip("_").replace("_", "").isupper()
    }


BY_CODE: dict[int, list[Any]] = {}
OWN: list[tuple[str, Any]] = []
for library, module in LIBRARIES.items():
    for error in exceptions_of(module):
        code = library_error_of(error).code
        if code is None:
            OWN.append((library, error))
        else:
            BY_CODE.setdefault(code, []).append(error)
for number in librdkafka_codes():
    reported = confluent_kafka.KafkaError(number)
    if number >= UNKNOWN_SERVER_ERROR:
        BY_CODE.setdefault(number, []).extend([reported, confluent_kafka.KafkaException(reported)])
    else:
        OWN.append(("confluent-kafka", reported))


def test_every_library_is_there_with_its_errors() -> None:
    assert len(BY_CODE) > 100
    assert sum(len(errors) > 2 for errors in BY_CODE.values()) > 50  # told by librdkafka and by another one
    assert {library for library, _ in OWN} == {"kafka-python", "aiokafka", "confluent-kafka"}


@pytest.mark.parametrize("code", sorted(BY_CODE))
@pytest.mark.parametrize("retried", [True, False])
def test_a_kafka_error_has_the_same_outcome_and_code_whichever_library_reports_it(code: int, retried: bool) -> None:
    wanted = "info" if code == 0 else of_code(code, retried=retried)  # an error that says "none" says nothing

    assert {of_delivery(error, retried=retried) for error in BY_CODE[code]} == {wanted}
    assert {library_error_of(error).code for error in BY_CODE[code]} == {code}
    assert all(str(library_error_of(error)).endswith(f" {code}") for error in BY_CODE[code])


@pytest.mark.parametrize(
    ("library", "error"), OWN, ids=[f"{library}-{library_error_of(error).name}" for library, error in OWN]
)
def test_a_librarys_own_error_leaves_it_open_once_the_record_was_sent(library: str, error: Any) -> None:
    number = error.code() if library == "confluent-kafka" else None

    assert of_delivery(error, retried=True) == "info"
    assert of_delivery(error, retried=False) == ("fail" if number in outcomes.NOT_SENT_THIS_TIME else "info")
    assert library_error_of(error).code is None


@pytest.mark.parametrize(
    ("name", "once"),
    [
        ("_MSG_TIMED_OUT", "info"),
        ("_PURGE_INFLIGHT", "info"),
        ("_TRANSPORT", "info"),
        ("_TIMED_OUT", "info"),
        ("_DESTROY", "info"),
        ("_FATAL", "info"),
        ("_PURGE_QUEUE", "fail"),
        ("_TIMED_OUT_QUEUE", "fail"),
        ("_QUEUE_FULL", "fail"),
        ("_UNKNOWN_PARTITION", "fail"),
        ("_UNKNOWN_TOPIC", "fail"),
    ],
)
def test_librdkafkas_own_errors_are_definite_only_where_the_record_never_left_its_queue(name: str, once: str) -> None:
    error = confluent_kafka.KafkaError(getattr(confluent_kafka.KafkaError, name))

    assert library_error_of(error).name == name
    assert (of_delivery(error, retried=False), of_delivery(error, retried=True)) == (once, "info")


def test_a_class_without_a_number_is_taken_for_the_error_it_stands_for() -> None:
    assert library_error_of(aiokafka.errors.ProducerFenced()).code == kafka.errors.InvalidProducerEpochError.errno


def test_the_systems_error_number_is_no_error_of_kafkas() -> None:
    assert library_error_of(ConnectionResetError(19, "reset")).code is None
    assert of_delivery(ConnectionResetError(19, "reset"), retried=False) == "info"


def test_aiokafka_keeps_the_number_of_an_error_that_it_does_not_know() -> None:
    importlib.import_module("harness.clients.aio")
    known = {code: library_error_of(aiokafka.errors.for_code(code)()).code for code in librdkafka_codes() if code > 0}
    assert {code: found for code, found in known.items() if found != code} == {}
    assert issubclass(aiokafka.errors.for_code(87), aiokafka.errors.UnknownError)  # treated as before


def test_every_name_of_the_tables_is_a_name_that_some_library_has() -> None:
    names = {name for module in LIBRARIES.values() for name, _ in inspect.getmembers(module, inspect.isclass)}
    names |= set(librdkafka_codes().values()) | {"TypeError", "ValueError", "BufferError"}

    assert names >= outcomes.NEVER_SENT
    assert names >= outcomes.CODES_BY_NAME.keys()
    assert librdkafka_codes().keys() >= outcomes.NOT_SENT_THIS_TIME


@pytest.mark.parametrize("name", sorted(outcomes.CODES_OF_JAVA))
@pytest.mark.parametrize("retried", [True, False])
def test_an_exception_of_java_is_classed_as_the_error_that_other_libraries_call_so(name: str, retried: bool) -> None:
    told = java_error_of(f"class org.apache.kafka.common.errors.{name}")

    assert told.name == name
    others = {code for code, errors in BY_CODE.items() if told.code == code for _ in errors}
    assert others == {told.code}
    assert {_spelled(type(error).__name__) for error in BY_CODE[told.code or 0]} & {_spelled(name)}
    assert of_java(told, retried=retried) == of_code(told.code or 0, retried=retried)


def _spelled(name: str) -> str:
    """kafka-python's names end otherwise, and some of them are of before the words that Kafka has now."""
    bare = name.removesuffix("Exception").removesuffix("Error").removesuffix("Failed")
    return {
        "Unknown": "UnknownServer",
        "MessageSizeTooLarge": "RecordTooLarge",
        "RecordListTooLarge": "RecordBatchTooLarge",
        "NotLeaderForPartition": "NotLeaderOrFollower",
        "DuplicateSequenceNumber": "DuplicateSequence",
        "OutOfOrderSequenceNumber": "OutOfOrderSequence",
        "InvalidTransactionState": "InvalidTxnState",
    }.get(bare, bare)


@pytest.mark.parametrize(
    ("name", "outcome"),
    [
        ("org.apache.kafka.common.errors.TimeoutException", "info"),
        ("org.apache.kafka.common.KafkaException", "info"),
        ("org.apache.kafka.common.errors.NetworkException", "info"),
        ("java.lang.IllegalStateException", "fail"),
        ("org.apache.kafka.clients.producer.BufferExhaustedException", "fail"),
        ("org.apache.kafka.common.errors.OfTheFutureException", "info"),
    ],
)
def test_what_java_raises_itself_is_definite_only_where_the_producer_took_nothing(name: str, outcome: str) -> None:
    assert java_error_of(name).code is None
    assert {of_java(java_error_of(name), retried=retried) for retried in (True, False)} == {outcome}


@pytest.mark.parametrize(
    "error",
    [
        kafka.errors.KafkaTimeoutError("no metadata"),
        aiokafka.errors.UnknownTopicOrPartitionError(),
        aiokafka.errors.KafkaConnectionError("no bootstrap server"),
        BufferError("queue full"),
        confluent_kafka.KafkaException(confluent_kafka.KafkaError(confluent_kafka.KafkaError._UNKNOWN_PARTITION)),
        confluent_kafka.KafkaException(confluent_kafka.KafkaError(confluent_kafka.KafkaError.MSG_SIZE_TOO_LARGE)),
    ],
)
def test_what_a_library_did_not_take_was_never_sent(error: BaseException) -> None:
    assert of_hand_over(error) == "fail"
