"""Kafka before named listeners: the brokers' configuration, and the creation of topics."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.cluster.brokers.kafka_jars import KafkaHome
from harness.cluster.brokers.kafka_zookeeper import OneListenerKafka
from harness.cluster.catalogue import system_of
from harness.cluster.local.addresses import AddressBlock
from harness.cluster.local.cluster import LocalCluster
from harness.cluster.local.environment import LocalEnvironment
from harness.errors import HarnessError, UsageError
from harness.host.clock import SystemClock
from harness.ports.cluster import COORDINATION, ClientId, NodeId, TopicDefinition
from harness.scenario.model import ClusterSpec

pytestmark = [pytest.mark.cluster, pytest.mark.jvm]

SPEC = ClusterSpec(system="kafka:0.9.0.1", brokers=(3, 1, 2))


@pytest.fixture
def system(monkeypatch: pytest.MonkeyPatch) -> OneListenerKafka:
    made = system_of(SPEC)
    assert isinstance(made, OneListenerKafka)
    home = KafkaHome(version=made.version, class_path="/jars/*", libs=Path("/jars"))
    monkeypatch.setitem(made.__dict__, "home", home)
    return made


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[LocalEnvironment]:
    nodes = [COORDINATION, NodeId(1), NodeId(2), NodeId(3)]
    with AddressBlock(nodes, client_links=2) as addresses:
        yield LocalEnvironment(addresses=addresses, nodes_folder=tmp_path, one_listener=True)


@pytest.mark.parametrize(
    ("version", "one_listener"), [("0.9.0.1", True), ("0.10.1.1", True), ("0.10.2.2", False), ("1.1.1", False)]
)
def test_named_listeners_came_with_0_10_2(version: str, one_listener: bool) -> None:
    assert system_of(ClusterSpec(system=f"kafka:{version}")).has_one_listener == one_listener


def test_containers_cannot_tell_the_links_of_clients_apart_by_one_port() -> None:
    with pytest.raises(UsageError, match=r"Kafka 0\.9\.0\.1 has one listener"):
        system_of(ClusterSpec(system="kafka:0.9.0.1", world="docker"))


def test_a_broker_listens_once_and_is_advertised_by_name(
    system: OneListenerKafka, environment: LocalEnvironment
) -> None:
    settings = system.broker_settings(NodeId(2), environment)

    assert settings["listeners"] == f"PLAINTEXT://{environment.listens_at(NodeId(2))}:{environment.internal_port}"
    assert settings["advertised.listeners"] == f"PLAINTEXT://node2:{environment.internal_port}"
    assert not {"listener.security.protocol.map", "inter.broker.listener.name"} & set(settings)


def test_everybody_finds_it_at_the_same_port_and_each_by_an_address_of_its_own(environment: LocalEnvironment) -> None:
    assert {environment.admin_port, environment.client_port(ClientId(1)), environment.client_port(ClientId(2))} == {
        environment.internal_port
    }
    ways = [environment.client_reaches(ClientId(client), NodeId(1)) for client in (1, 2)]
    assert len({*ways, environment.harness_reaches(NodeId(1))}) == 3


@pytest.mark.parametrize(
    ("topic", "words"),
    [
        (
            TopicDefinition(name="r", assignment=((1, 2, 3), (2, 3, 1)), settings={"min.insync.replicas": "2"}),
            "--topic r --replica-assignment 1:2:3,2:3:1 --config min.insync.replicas=2",
        ),
        (
            TopicDefinition(name="r", partitions=2, replication_factor=2, settings={}),
            "--topic r --partitions 2 --replication-factor 2",
        ),
    ],
)
def test_topics_are_made_by_kafka_s_own_tool_at_zookeeper(
    system: OneListenerKafka, environment: LocalEnvironment, topic: TopicDefinition, words: str
) -> None:
    command = " ".join(system.topic_command(topic, environment))

    assert command.endswith(
        f"kafka.admin.TopicCommand --create --zookeeper node100:{environment.internal_port} {words}"
    )
    assert f"-Djdk.net.hosts.file={environment.there(COORDINATION).config / 'hosts'}" in command


def test_a_name_leads_each_client_to_its_own_link_and_the_harness_past_all_links(
    tmp_path: Path, environment: LocalEnvironment
) -> None:
    cluster = LocalCluster(run_path=tmp_path, system=system_of(SPEC), client_links=2, clock=SystemClock())
    assert cluster.names_for(None) == {}  # until its addresses are known
    cluster._environment = environment

    names = [cluster.names_for(client)["node1"] for client in (None, ClientId(1), ClientId(2))]

    assert names == [
        environment.listens_at(NodeId(1)),
        environment.client_reaches(ClientId(1), NodeId(1)),
        environment.client_reaches(ClientId(2), NodeId(1)),
    ]


async def test_a_tool_that_fails_is_reported_with_the_place_of_its_log(tmp_path: Path) -> None:
    cluster = LocalCluster(run_path=tmp_path, system=system_of(SPEC), client_links=1, clock=SystemClock())

    with pytest.raises(HarnessError, match=r"^not made, and (.*/nodes/tool/log): Kafka's tool ended with code 3$"):
        await cluster._use_tool([sys.executable, "-c", "print('why'); raise SystemExit(3)"], "not made")
    assert (tmp_path / "nodes" / "tool" / "log").read_text() == "why\n"
