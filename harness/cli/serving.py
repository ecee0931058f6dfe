"""A cluster alone, for whoever wants to try something: it serves until Ctrl-C, and what ends of it is told."""

import asyncio
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness.cluster.base_cluster import BrokerCluster
from harness.cluster.local.cluster import LocalCluster
from harness.cluster.local.ownership import RunOwnership
from harness.compose import catch_signals
from harness.ports.cluster import ClientId, NodeId
from harness.scenario.model import ClusterSpec
from harness.systems import made

LOOK_EVERY_S = 0.2
Ready = Callable[[dict[str, Any]], None]  # gets the addresses, the nodes, the processes and the folders


def run_cluster(spec: ClusterSpec, *, ready: Ready, told: Callable[[str], None]) -> None:
    """In a temporary folder, until SIGINT or SIGTERM. `told` gets lines: a node's logs are gone when this returns."""
    with tempfile.TemporaryDirectory(prefix="kafka-chaos-cluster-") as folder, RunOwnership(Path(folder)):
        asyncio.run(_serve(Path(folder), spec, ready, told))


async def _serve(folder: Path, spec: ClusterSpec, ready: Ready, told: Callable[[str], None]) -> None:
    interrupt = asyncio.Event()
    catch_signals(asyncio.get_running_loop(), interrupt)
    cluster = made(spec, folder, client_links=1)
    try:
        await cluster.start()
        ready(
            {
                "bootstrap": cluster.bootstrap(ClientId(1)),
                "coordination": cluster.coordination(),
                "process": os.getpid(),
                "folder": str(folder),
                "nodes": cluster.whereabouts() if isinstance(cluster, LocalCluster) else [],
            }
        )
        watching = asyncio.ensure_future(_tell_endings(cluster, told)) if isinstance(cluster, BrokerCluster) else None
        await interrupt.wait()
        if watching is not None:
            watching.cancel()
    finally:
        await cluster.stop()


async def _tell_endings(cluster: BrokerCluster, told: Callable[[str], None]) -> None:
    known: set[NodeId] = set()
    while True:
        for node, lines in cluster.endings().items():
            if node not in known:
                known.add(node)
                for line in lines:
                    told(line)
        await asyncio.sleep(LOOK_EVERY_S)
