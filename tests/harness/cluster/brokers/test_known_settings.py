"""The table of Kafka's settings says what the brokers themselves list, oldest to newest."""

import pytest

from harness.cluster.brokers.kafka_versions import numbers_of
from harness.cluster.brokers.known_settings import Scope, known_settings, listed_by, unfit_value
from tests.interop.kafka_tools import kafka_home


@pytest.mark.jvm
@pytest.mark.parametrize("version", ["4.3.1", pytest.param("0.9.0.1", marks=pytest.mark.further)])
@pytest.mark.parametrize("scope", ["broker", "topic"])
def test_every_setting_that_a_broker_lists_is_known_with_its_type_and_since_when(version: str, scope: Scope) -> None:
    listed, known = listed_by(kafka_home(version), scope), known_settings(scope)

    assert len(listed) > 15
    assert listed.keys() <= known.keys()
    for key, kind in listed.items():
        assert numbers_of(known[key].first) <= numbers_of(version) <= numbers_of(known[key].last), key
        assert known[key].type == kind or version != "4.3.1", key
    for key in known.keys() - listed.keys():
        assert version not in (known[key].first, known[key].last), key


@pytest.mark.parametrize(
    ("kind", "right", "wrong"),
    [
        ("int", ["1", "-1", " 2 "], ["two", "1.5", ""]),
        ("long", ["9223372036854775807"], ["1 h"]),
        ("boolean", ["true", "False"], ["yes", "1"]),
        ("double", ["0.5", "1"], ["half"]),
        ("list", ["a,b", ""], []),
        ("string", ["anything"], []),
    ],
)
def test_a_value_is_of_its_settings_type(kind: str, right: list[str], wrong: list[str]) -> None:
    assert [unfit_value(kind, value) for value in right] == [None] * len(right)
    assert None not in [unfit_value(kind, value) for value in wrong]
