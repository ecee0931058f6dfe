"""A formatted folder is created once and copied; each node's copy differs in its identity only."""

from pathlib import Path

from harness.cluster.brokers.kafka_storage import give
from harness.ports.cluster import NodeId


def template(folder: Path) -> Path:
    folder.mkdir()
    (folder / "bootstrap.checkpoint").write_bytes(b"features")
    text = "#\n#date\nversion=1\ncluster.id=abc\nnode.id=100\ndirectory.id=AAAAAAAAAAAAAAAAAAAAAA\n"
    (folder / "meta.properties").write_text(text)
    return folder


def properties(data: Path) -> dict[str, str]:
    return dict(line.split("=", 1) for line in (data / "meta.properties").read_text().splitlines())


def test_a_copy_has_the_node_s_own_id_and_a_directory_id_of_its_own(tmp_path: Path) -> None:
    made = template(tmp_path / "template")
    for node in (1, 2):
        give(NodeId(node), made, tmp_path / str(node))

    first, second = properties(tmp_path / "1"), properties(tmp_path / "2")
    assert (first["node.id"], second["node.id"]) == ("1", "2")
    assert first["cluster.id"] == second["cluster.id"] == "abc"
    assert len({first["directory.id"], second["directory.id"], "AAAAAAAAAAAAAAAAAAAAAA"}) == 3
    assert (tmp_path / "1" / "bootstrap.checkpoint").read_bytes() == b"features"


def test_directory_ids_are_what_kafka_takes_as_an_argument(tmp_path: Path) -> None:
    made = template(tmp_path / "template")
    for number in range(200):
        give(NodeId(1), made, tmp_path / "node")
        directory = properties(tmp_path / "node")["directory.id"]
        assert len(directory) == 22, number
        assert not directory.startswith("-")
        assert "=" not in directory
