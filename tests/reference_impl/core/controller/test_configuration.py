"""The configuration table: defaults, precedence, and refused values (claims S25 and S31)."""

import pytest

from reference_impl.core.controller.configuration import (
    BROKER_KEYS,
    TOPIC_KEYS,
    ConfigSource,
    InvalidConfigurationError,
    broker_value,
    effective_text,
    topic_value,
    validate_overrides,
)


def test_every_default_is_a_value_of_its_own_key() -> None:
    defaults = [key for key in (*BROKER_KEYS.values(), *TOPIC_KEYS.values()) if key.default is not None]
    assert len(defaults) > 20
    refused = []
    for key in defaults:
        try:
            key.validate(str(key.default))
        except InvalidConfigurationError as error:
            refused.append(str(error))
    assert refused == []


def test_unclean_election_is_off_and_the_lag_limit_is_30_seconds_unless_said_otherwise() -> None:
    assert broker_value({}, "unclean.leader.election.enable") is False
    assert broker_value({}, "replica.lag.time.max.ms") == 30_000


def test_a_topic_override_goes_before_the_broker_and_the_broker_before_the_default() -> None:
    key = TOPIC_KEYS["max.message.bytes"]
    broker = {"message.max.bytes": "5000"}
    assert effective_text(key, {"max.message.bytes": "7"}, broker) == ("7", ConfigSource.DYNAMIC_TOPIC_CONFIG)
    assert effective_text(key, {}, broker) == ("5000", ConfigSource.STATIC_BROKER_CONFIG)
    assert effective_text(key, {}, {}) == ("1048588", ConfigSource.DEFAULT_CONFIG)
    assert topic_value({"min.insync.replicas": "2"}, {}, "min.insync.replicas") == 2


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("min.insync.replicas", "0"),
        ("min.insync.replicas", "two"),
        ("unclean.leader.election.enable", "yes"),
        ("min.insync.replicas", None),
        ("replica.lag.max.messages", "4000"),
    ],
)
def test_unknown_keys_and_unfit_values_are_refused(name: str, value: str | None) -> None:
    with pytest.raises(InvalidConfigurationError, match=name):
        validate_overrides([(name, value)])


@pytest.mark.parametrize(
    ("broker", "overrides", "retention_ms"),
    [
        ({}, {}, 604_800_000),
        ({"log.retention.hours": "1"}, {}, 3_600_000),
        ({"log.retention.hours": "1", "log.retention.minutes": "2"}, {}, 120_000),
        ({"log.retention.hours": "1", "log.retention.minutes": "2", "log.retention.ms": "3"}, {}, 3),
        ({"log.retention.hours": "-1"}, {}, -1),
        ({"log.retention.ms": "3"}, {"retention.ms": "4"}, 4),
    ],
)
def test_the_finest_unit_that_is_set_says_how_long_records_live(
    broker: dict[str, str], overrides: dict[str, str], retention_ms: int
) -> None:
    assert topic_value(overrides, broker, "retention.ms") == retention_ms


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("cleanup.policy", ""),
        ("cleanup.policy", "compact,keep"),
        ("min.cleanable.dirty.ratio", "1.5"),
        ("message.timestamp.type", "logappendtime"),
        ("retention.ms", "-2"),
        ("retention.bytes", "much"),
        ("segment.ms", "0"),
    ],
)
def test_policies_types_and_limits_that_are_not_served_are_refused(name: str, value: str) -> None:
    with pytest.raises(InvalidConfigurationError, match=name):
        validate_overrides([(name, value)])


def test_a_topic_may_compact_delete_or_both() -> None:
    for policy in ("compact", "delete", "compact,delete"):
        validate_overrides([("cleanup.policy", policy), ("min.cleanable.dirty.ratio", "0.01")])
    assert topic_value({"cleanup.policy": "compact,delete"}, {}, "cleanup.policy") == ("compact", "delete")
