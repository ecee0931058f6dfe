"""A node's data on a volume of limited size: visible to the harness, filled to the last byte, and freed."""

import contextlib
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.cluster.docker.capabilities import Capabilities
from harness.cluster.docker.engine import Engine
from harness.cluster.docker.environment import PLACE
from harness.cluster.docker.file_export import LEFT_OUT
from harness.cluster.docker.infra import start_infra
from harness.cluster.docker.labels import labels_of
from harness.cluster.docker.nodes import ContainerNode
from harness.ports.cluster import NodeId

_DISK_BYTES = 1 << 20


@pytest.fixture
def node(engine: Engine, infra_image: str, capabilities: Capabilities, run: Path) -> Iterator[ContainerNode]:
    name = f"kafka-chaos-test-{uuid.uuid4().hex[:8]}"
    labels = labels_of(run, node="1")
    volumes = engine.client.volumes
    options = {"type": "tmpfs", "device": "tmpfs", "o": f"size={_DISK_BYTES}"}
    with contextlib.ExitStack() as made:
        main = volumes.create(name, labels=labels)
        made.callback(main.remove, force=True)
        disk = volumes.create(f"{name}-disk", driver="local", driver_opts=options, labels=labels)
        made.callback(disk.remove, force=True)
        places = [(name, str(PLACE)), (disk.name, f"{PLACE}/data")]
        infra = start_infra(infra_image, name=f"{name}-net", network=None, labels=labels, volumes=places)
        made.callback(infra.container.remove, force=True)
        copied = capabilities.volumes is not None
        here = run / "copy" if copied else Path(main.attrs["Mountpoint"])
        (here / "data").mkdir(parents=True, exist_ok=True)
        yield ContainerNode(
            node=NodeId(1),
            engine=engine,
            infra=infra,
            volume=name,
            folder=here,
            copied=copied,
            entry=capabilities.entry,
            on_end=lambda code: None,
            disk=disk.name,
            disk_folder=None if copied else Path(disk.attrs["Mountpoint"]),
        )


def _write(node: ContainerNode, text: str) -> int:
    code, _ = node.infra.container.exec_run(["sh", "-c", f"printf %s {text} > {PLACE}/data/word"])
    return int(code)


def test_a_full_disk_takes_no_byte_more_and_a_freed_one_does(node: ContainerNode) -> None:
    free = node.fill()
    assert _DISK_BYTES / 2 < free <= _DISK_BYTES
    assert _write(node, "x" * 100) != 0
    assert node.free() > _DISK_BYTES / 2
    assert _write(node, "x" * 100) == 0


def test_a_disk_is_filled_once_however_often_it_is_asked(node: ContainerNode) -> None:
    node.fill()
    assert node.fill() == 0
    assert node.free() > 0


def test_what_the_node_writes_on_its_disk_is_seen_and_kept(node: ContainerNode, tmp_path: Path) -> None:
    assert _write(node, "seen") == 0
    node.refresh()
    assert (node.folders().data / "word").read_text() == "seen"
    node.keep(tmp_path / "kept")
    assert (tmp_path / "kept" / "data" / "word").read_text() == "seen"


def test_an_emptied_disk_is_empty_for_both(node: ContainerNode) -> None:
    assert _write(node, "gone") == 0
    assert node.empty() > 0
    node.refresh()
    assert list(node.folders().data.iterdir()) == []


def test_links_and_devices_that_were_made_in_the_container_are_not_kept(node: ContainerNode, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("this machine's own")
    made = f"ln -s {secret} {PLACE}/link; ln -s {tmp_path} {PLACE}/data/away; mknod {PLACE}/device c 1 3"
    code, reported = node.infra.container.exec_run(["sh", "-c", made])
    assert code == 0, reported
    node.refresh()
    node.keep(tmp_path / "kept")
    kept = [path.relative_to(tmp_path / "kept") for path in (tmp_path / "kept").rglob("*")]
    assert sorted(map(str, kept)) == ["data", LEFT_OUT]
    assert len((tmp_path / "kept" / LEFT_OUT).read_text().splitlines()) == 4
