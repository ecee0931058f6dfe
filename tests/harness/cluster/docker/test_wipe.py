"""A wipe empties a node's disk in its volume only, whatever the container has put into its data directory."""

from pathlib import Path

import pytest

from harness.cluster.catalogue import system_of
from harness.cluster.docker.capabilities import Capabilities
from harness.cluster.docker.cluster import DockerCluster
from harness.cluster.docker.environment import PLACE
from harness.errors import HarnessError
from harness.history.run_folder import RunFolder
from harness.host.clock import SystemClock
from harness.ports.cluster import NodeId
from harness.scenario.model import ClusterSpec


async def test_a_wipe_stays_in_the_volume_and_refuses_a_link_that_leads_out_of_it(
    run: Path, tmp_path: Path, capabilities: Capabilities
) -> None:
    if capabilities.volumes is not None:
        pytest.skip(capabilities.volumes)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "precious").write_text("precious")
    clock, node = SystemClock(), NodeId(1)
    folder = RunFolder.create(run, scenario="test", clock=clock, seed=1, stamp="now").path
    cluster = DockerCluster(run_path=folder, system=system_of(ClusterSpec(brokers=(1,))), client_links=1, clock=clock)
    try:
        await cluster.start()
        await cluster.kill(node)
        assert (await cluster.wipe(node)).sentence.startswith("data directory of broker 1 is empty, ")

        data = cluster._folders(node).data
        data.rmdir()
        data.symlink_to(elsewhere)
        with pytest.raises(HarnessError, match=r"'data' is no folder there .*; nothing was touched"):
            await cluster.wipe(node)
    finally:
        await cluster.stop()
    assert (elsewhere / "precious").read_text() == "precious"
    kept = folder / "nodes" / "1"
    assert not (kept / "data").is_symlink()
    assert "'data': a link" in (kept / "left-out.txt").read_text()


async def test_what_a_container_plants_on_its_disk_is_neither_followed_nor_waited_for(
    run: Path, tmp_path: Path, capabilities: Capabilities
) -> None:
    if capabilities.volumes is not None:
        pytest.skip(capabilities.volumes)
    secret = tmp_path / "elsewhere"
    secret.mkdir()
    (secret / f"{0:020}.log").write_bytes(b"this machine's own")
    clock, node = SystemClock(), NodeId(1)
    folder = RunFolder.create(run, scenario="test", clock=clock, seed=1, stamp="now").path
    cluster = DockerCluster(run_path=folder, system=system_of(ClusterSpec(brokers=(1,))), client_links=1, clock=clock)
    planted = (
        f"cd {PLACE} && ln -s {secret} data/orders-0 && mkdir data/paid-0 && mkfifo data/paid-0/{0:020}.log && "
        "rm log && mkfifo log && for i in $(seq 40); do mkdir d && cd d; done"
    )
    try:
        await cluster.start()
        container = cluster._nodes[node].container
        assert container is not None
        assert container.exec_run(["sh", "-c", planted]).exit_code == 0

        with pytest.raises(HarnessError, match=r"orders-0 is a symbolic link; nothing of a run is read"):
            cluster.read_replicas(node)
        with pytest.raises(HarnessError, match=r"\.log is a pipe"):
            cluster.log_end(node, "paid", 0)
        await cluster.kill(node)
        assert cluster.endings()[node][0].endswith("it logged nothing")
    finally:
        await cluster.stop()

    kept = folder / "nodes" / "1"
    assert not any(path.is_symlink() or path.is_fifo() for path in kept.rglob("*"))
    left_out = (kept / "left-out.txt").read_text()
    assert all(f"'{name}'" in left_out for name in ("data/orders-0", f"data/paid-0/{0:020}.log", "log"))
    assert "nested more than 12 deep" in left_out
