"""The outcome table: a definite word only where Kafka gives one."""

import pytest
from kafka import errors

from harness.clients.outcomes import of_code, of_delivery, of_hand_over


@pytest.mark.parametrize("code", [2, 3, 10, 17, 19, 21, 32, 35, 45, 47, 48, 87, 90])
def test_a_refusal_before_the_append_is_definite_when_there_was_one_attempt(code: int) -> None:
    assert of_code(code, retried=False) == "fail"


@pytest.mark.parametrize("code", [-1, 6, 7, 13, 20, 46, 56, 59, 74, 9999])
@pytest.mark.parametrize("retried", [True, False])
def test_what_may_have_been_appended_is_unknown(code: int, retried: bool) -> None:
    assert of_code(code, retried=retried) == "info"


@pytest.mark.parametrize("code", [2, 3, 19, 45, 47, 48, 90])
def test_a_refusal_after_retries_is_unknown_because_an_earlier_attempt_may_have_gone_in(code: int) -> None:
    assert of_code(code, retried=True) == "info"


@pytest.mark.parametrize("code", [10, 17, 21, 32, 87])
def test_a_refusal_that_every_attempt_gets_is_definite_with_retries_too(code: int) -> None:
    assert of_code(code, retried=True) == "fail"


def test_time_outs_and_disconnects_of_a_record_on_its_way_are_unknown() -> None:
    for error in (
        errors.KafkaTimeoutError("batch expired"),
        errors.KafkaConnectionError("gone"),
        ConnectionResetError(104),
    ):
        assert of_delivery(error, retried=False) == "info"


def test_a_brokers_error_is_classed_by_its_code() -> None:
    assert of_delivery(errors.NotEnoughReplicasError(), retried=False) == "fail"
    assert of_delivery(errors.NotEnoughReplicasAfterAppendError(), retried=False) == "info"
    assert of_delivery(errors.NotLeaderForPartitionError(), retried=False) == "info"


def test_what_the_library_did_not_take_was_never_sent() -> None:
    assert of_hand_over(errors.KafkaTimeoutError("no metadata")) == "fail"
    assert of_hand_over(RuntimeError("who knows")) == "info"
