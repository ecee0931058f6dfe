"""Containers are mapped to nodes by the scenario's table, their labels, or the services' names."""

from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import pytest

from harness.cluster.attached.compose_project import FILES, FOLDER, SERVICE, file_of, files_of, nodes_of, published
from harness.cluster.docker.labels import NODE
from harness.errors import UsageError
from harness.scenario.model import ClusterSpec


@dataclass(frozen=True)
class Container:
    service: str
    more: dict[str, str] = field(default_factory=dict)

    @property
    def labels(self) -> dict[str, str]:
        return {SERVICE: self.service, **self.more}


def named(*containers: Container, **services: str) -> dict[int, str]:
    found = nodes_of(containers, {node.removeprefix("n"): service for node, service in services.items()})
    return {int(node): container.service for node, container in found.items()}


def test_services_named_as_nodes_are_nodes_and_others_are_not() -> None:
    seen = named(Container("node1"), Container("kafka-2"), Container("broker_3"), Container("schema-registry"))
    assert seen == {1: "node1", 2: "kafka-2", 3: "broker_3"}


def test_a_label_says_more_than_a_name() -> None:
    assert named(Container("left", {NODE: "7"}), Container("zookeeper", {NODE: "100"})) == {7: "left", 100: "zookeeper"}


def test_the_scenarios_table_is_all_that_counts_where_there_is_one() -> None:
    assert named(Container("node1"), Container("a"), n5="a") == {5: "a"}


@pytest.mark.parametrize(
    ("containers", "services", "message"),
    [
        ([Container("node1"), Container("node1")], {}, "2 containers of node1"),
        ([Container("node1"), Container("kafka1")], {}, "services kafka1 and node1"),
        ([Container("a")], {"n1": "b"}, "one of a"),
        ([Container("a")], {}, "no service is named as a node"),
    ],
)
def test_what_is_not_clear_is_asked_for(containers: list[Container], services: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError) as refused:
        named(*containers, **services)
    assert message in str(refused.value)


def test_a_project_is_known_by_its_files_wherever_they_were_named_from(tmp_path: Path) -> None:
    labels = {FOLDER: str(tmp_path), FILES: "compose.yaml,more.yaml"}
    assert files_of(labels) == [tmp_path / "compose.yaml", tmp_path / "more.yaml"]
    assert files_of({FILES: f"{tmp_path}/compose.yaml"}) == [tmp_path / "compose.yaml"]


def test_a_compose_file_that_is_not_there_is_reported() -> None:
    with pytest.raises(UsageError, match="no such file"):
        file_of(ClusterSpec(system="compose:nowhere.yaml"))


@pytest.mark.parametrize("label", ["\u00b2", "9" * 5000, "-1", ""])
def test_a_label_that_is_no_number_names_no_node(label: str) -> None:
    assert named(Container("node1", {NODE: label}), Container("left", {NODE: label})) == {1: "node1"}
    with pytest.raises(UsageError, match="write a broker id and a service"):
        named(Container("left"), **{f"n{label}": "left"})


def test_a_project_whose_labels_name_no_place_costs_nobody_else_anything(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    for name in ("a\0b", "x" * 5000, "loop/compose.yaml"):
        assert tmp_path / "compose.yaml" not in files_of({FOLDER: str(tmp_path), FILES: name})


def test_ports_that_are_published_lead_to_the_brokers_and_a_project_without_any_is_refused() -> None:
    def publishing(ports: object) -> SimpleNamespace:
        return SimpleNamespace(attrs={"NetworkSettings": {"Ports": ports}})

    bound = [{"HostIp": "0.0.0.0", "HostPort": "19092"}, {"HostIp": "::", "HostPort": "19092"}]
    assert published([publishing({"9092/tcp": bound, "9093/tcp": None}), publishing(None)]) == "127.0.0.1:19092"
    with pytest.raises(UsageError, match="publishes no port of its brokers; give --bootstrap"):
        published([publishing({"9092/tcp": None})])
