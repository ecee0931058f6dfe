"""A wipe empties a node's disk in its volume only, whatever the container has put into its data directory."""

from pathlib import Path

import pytest

from harness.clock import SystemClock
from harness.cluster.docker.capabilities import Capabilities
from harness.cluster.docker.cluster import DockerCluster
from harness.errors import HarnessError
from harness.history.run_folder import RunFolder
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
    cluster = DockerCluster(run_path=folder, spec=ClusterSpec(brokers=(1,)), client_links=1, clock=clock)
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
