"""server.properties: Kafka's keys are read, and an invalid value is reported in one line."""

import logging

import pytest

from reference_impl.runtime.config import BrokerConfig, ConfigurationError, Endpoint, broker_config, parse_properties
from reference_impl.runtime.hosts import Hosts
from reference_impl.runtime.topic_settings import partition_settings

SMALLEST = {
    "broker.id": "3",
    "listeners": "INTERNAL://127.0.0.3:9092,CLIENT1://127.0.0.3:9093",
    "advertised.listeners": "INTERNAL://node3:9092,CLIENT1://127.0.200.3:9093",
    "log.dirs": "/data/3/log",
    "zookeeper.connect": "node0:2181",
    "chaos.cluster.secret.file": "/data/cluster-secret",
}


def config(**changes: str) -> BrokerConfig:
    return broker_config(
        SMALLEST | {key.replace("_", "."): value for key, value in changes.items()}, "node3.properties"
    )


def test_the_smallest_file_gives_kafkas_defaults() -> None:
    found = config()
    assert found.broker_id == 3
    assert found.advertised_listeners[1] == Endpoint("CLIENT1", "127.0.200.3", 9093)
    assert found.inter_broker_listener_name == "INTERNAL"
    assert (found.replica_lag_time_max_ms, found.min_insync_replicas) == (30000, 1)
    assert found.unclean_leader_election_enable is False
    assert found.log_flush_interval_messages is None
    assert str(found.chaos_evidence_dir) == "/data/3/evidence"


@pytest.mark.parametrize(
    ("of_broker", "of_topic", "expected"),
    [({}, {}, 1_048_588), ({"message_max_bytes": "700"}, {}, 700), ({}, {"max.message.bytes": "50"}, 50)],
    ids=["neither", "broker", "topic"],
)
def test_the_largest_batch_is_what_the_topic_says_or_else_the_broker(
    of_broker: dict[str, str], of_topic: dict[str, str], expected: int
) -> None:
    assert partition_settings(config(**of_broker), of_topic).max_message_bytes == expected


@pytest.mark.parametrize(
    ("key", "value", "part"),
    [
        ("min.insync.replicas", "two", "min.insync.replicas=two"),
        ("min.insync.replicas", "0", "at least 1"),
        ("unclean.leader.election.enable", "yes", "true or false"),
        ("listeners", "127.0.0.1:9092", "NAME://host:port"),
        ("advertised.listeners", "INTERNAL://node3:9092", "the same listeners"),
        ("inter.broker.listener.name", "OTHER", "is not one of the listeners"),
        ("log.dirs", "/a,/b", "exactly one directory"),
        ("auto.create.topics.enable", "true", "leave it false and create topics"),
    ],
)
def test_a_bad_value_is_one_line_with_place_and_key(key: str, value: str, part: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        broker_config(SMALLEST | {key: value}, "node3.properties")
    message = str(caught.value)
    assert message.startswith("node3.properties: ")
    assert part in message
    assert "\n" not in message


def test_a_missing_key_is_named() -> None:
    without = {key: value for key, value in SMALLEST.items() if key != "broker.id"}
    with pytest.raises(ConfigurationError, match=r"broker\.id is missing"):
        broker_config(without, "node3.properties")


def test_a_broker_without_its_clusters_secret_learns_how_to_give_it_one() -> None:
    without = {key: value for key, value in SMALLEST.items() if key != "chaos.cluster.secret.file"}
    with pytest.raises(ConfigurationError, match=r"chaos\.cluster\.secret\.file is missing; name a file .*chmod 600"):
        broker_config(without, "node3.properties")


def test_an_unknown_key_is_ignored_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        config(no_such_setting="1")
    assert "no.such.setting" in caplog.text


def test_properties_keep_equals_signs_in_values_and_name_a_broken_line() -> None:
    assert parse_properties("# note\n\na.b = x=y\n", "file") == {"a.b": "x=y"}
    with pytest.raises(ConfigurationError, match=r"file:2: expected key=value"):
        parse_properties("a=b\nnonsense\n", "file")


def test_hosts_are_asked_before_the_system() -> None:
    hosts = Hosts(addresses={"node1": "127.9.2.1"})
    assert hosts.address_of("node1") == "127.9.2.1"
    assert hosts.address_of("127.0.0.1") == "127.0.0.1"
