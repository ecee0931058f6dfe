"""A container whose process ends by itself before a fault strikes it: no error, but an end of its own."""

from pathlib import Path

import pytest

from harness.cluster.catalogue import system_of
from harness.cluster.docker.capabilities import Capabilities
from harness.cluster.docker.cluster import DockerCluster
from harness.history.run_folder import RunFolder
from harness.host.clock import SystemClock
from harness.ports.cluster import NodeId
from harness.ports.faults import AlreadyDown
from harness.scenario.model import ClusterSpec


async def test_a_fault_on_a_broker_that_has_just_ended_finds_it_down_though_nobody_told_of_it(
    run: Path, capabilities: Capabilities
) -> None:
    if capabilities.volumes is not None:
        pytest.skip(capabilities.volumes)
    clock, node = SystemClock(), NodeId(1)
    folder = RunFolder.create(run, scenario="test", clock=clock, seed=1, stamp="now").path
    cluster = DockerCluster(run_path=folder, system=system_of(ClusterSpec(brokers=(1,))), client_links=1, clock=clock)
    try:
        await cluster.start()
        for number, harm in enumerate((cluster.pause, cluster.shut_down, cluster.kill), start=1):
            made = cluster._nodes[node]
            made._lives += 1  # the thread that waits for its end tells nothing
            assert made.container is not None
            made.container.kill()
            made.container.wait()
            assert cluster.is_running(node)
            if harm == cluster.pause:
                with pytest.raises(AlreadyDown, match="broker 1 is not running"):
                    await harm(node)
            else:
                assert "by itself before SIG" in (await harm(node)).sentence
            assert not cluster.is_running(node)
            ends = cluster.node_ends()
            assert [(end.node, end.signal) for end in ends] == [(node, 9)] * number
            await cluster.start_node(node)
        assert all(end.back_ns is not None for end in cluster.node_ends())
    finally:
        await cluster.stop()
