"""A simulated cluster within a test: its nodes, and what is done with them, in one loop."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from pathlib import Path

from harness.cluster.brokers.reference import ReferenceSystem
from harness.cluster.simulated.cluster import SimulatedCluster
from harness.cluster.simulated.disk_watch import DiskWatch
from harness.cluster.simulated.loop import SimulatedClock, SimulatedLoop
from harness.cluster.simulated.node_logs import nodes_log
from harness.host.clock import Clock
from harness.scenario.model import ClusterSpec


def simulated_cluster(folder: Path, loop: SimulatedLoop, *, brokers: tuple[int, ...] = (1,)) -> SimulatedCluster:
    system = ReferenceSystem(spec=ClusterSpec(brokers=brokers))
    return SimulatedCluster(run_path=folder, system=system, client_links=1, clock=SimulatedClock(loop))


def in_a_cluster(folder: Path, work: Callable[[SimulatedCluster, Clock], Awaitable[None]]) -> None:
    """Does `work` once its one broker runs."""
    loop = SimulatedLoop(1)
    cluster = simulated_cluster(folder, loop)

    async def started() -> None:
        try:
            await cluster.start()
            await work(cluster, SimulatedClock(loop))
        finally:
            await cluster.stop()

    with nodes_log(), DiskWatch(), contextlib.chdir(folder), asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(started())
