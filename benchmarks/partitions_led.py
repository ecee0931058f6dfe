"""How long many partitions take to be led: `python benchmarks/partitions_led.py [--partitions N]... [--json]`.

Each number gets a cluster of its own in the local world: three brokers, and a topic of so many partitions. Reports the
seconds from the request until every replica has its role and every broker names all leaders with full ISRs; what the
controller's death or, with --kill, a leader's costs; the processes' CPU seconds, because machines are shared; and what
must not happen: sessions that were lost by work alone, seen by controller epochs and elections beyond those asked for.
"""

import argparse
import asyncio
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.process_tree import cpu_s
from benchmarks.systems import node_processes
from harness.cluster.books.zookeeper_log import ZnodeChange, read_changes
from harness.cluster.brokers.system import NodeFolders
from harness.cluster.catalogue import system_of
from harness.cluster.local.cluster import LocalCluster
from harness.cluster.local.ownership import RunOwnership
from harness.host.clock import SystemClock
from harness.host.scratch import scratch_folder
from harness.ports.cluster import COORDINATION, NodeId, TopicDefinition
from harness.scenario.model import ClusterSpec

PARTITIONS = (100, 1000)
BROKERS = (1, 2, 3)
PATIENCE_S = 180
LOOK_EVERY_S = 0.25
VICTIM = NodeId(2)  # broker 1 starts first and is the controller
Results = dict[str, float | int | bool]


async def measure(partitions: int, *, replication_factor: int, kill: bool, idle_s: float) -> Results:
    with scratch_folder("kafka-chaos-benchmark-") as folder, RunOwnership(Path(folder)):
        cluster = LocalCluster(
            run_path=Path(folder), system=system_of(ClusterSpec(brokers=BROKERS)), client_links=1, clock=SystemClock()
        )
        results: Results = {"partitions": partitions, "replication factor": replication_factor}
        try:
            await cluster.start()
            before = _nodes_cpu_s(Path(folder))
            began = time.monotonic_ns()
            topic = TopicDefinition(name="many", partitions=partitions, replication_factor=replication_factor)
            await cluster.create_topics([topic])
            results["seconds to the answer"] = _seconds_since(began)
            results["all led"] = await _led_by_all(cluster, partitions, frozenset(BROKERS), replication_factor)
            results["seconds to all led"] = _seconds_since(began)
            results["CPU seconds of all nodes"] = round(_nodes_cpu_s(Path(folder)) - before, 1)
            before = _nodes_cpu_s(Path(folder))
            await asyncio.sleep(idle_s)
            results["CPU of all nodes while idle, cores"] = round((_nodes_cpu_s(Path(folder)) - before) / idle_s, 2)
            if kill:
                began = time.monotonic_ns()
                await cluster.kill(VICTIM)
                before = _nodes_cpu_s(Path(folder))
                left = frozenset(BROKERS) - {int(VICTIM)}
                results["all led after the kill"] = await _led_by_all(cluster, partitions, left, replication_factor - 1)
                results["seconds from the kill to all led"] = _seconds_since(began)
                results["CPU seconds for it"] = round(_nodes_cpu_s(Path(folder)) - before, 1)
            changes = list(
                read_changes(NodeFolders.below(Path(folder) / "nodes" / str(COORDINATION)).data / "version-2")
            )
        finally:
            await cluster.stop()
        results["controllers"] = sum(change.path == "/controller" and change.data is not None for change in changes)
        results["elections"] = _elections(changes)
        results["load"] = round(os.getloadavg()[0], 2)
        return results


async def _led_by_all(cluster: LocalCluster, partitions: int, brokers: frozenset[int], in_sync: int) -> bool:
    """Every one of the brokers names a leader and enough in-sync replicas of each partition; False when time is up."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        states = await cluster.live_partition_states(["many"])
        led = [state for state in states if state.leader in brokers and len(state.isr) >= in_sync]
        if len(led) == partitions * len(brokers):
            return True
        await asyncio.sleep(LOOK_EVERY_S)
    return False


def _elections(changes: Sequence[ZnodeChange]) -> int:
    """Leader epochs start with 0, and each election raises its partition's by one."""
    newest = {
        change.path: json.loads(change.data)["leader_epoch"]
        for change in changes
        if change.path.startswith("/brokers/topics/") and change.path.endswith("/state") and change.data
    }
    return sum(newest.values())


def _seconds_since(began_ns: int) -> float:
    return round((time.monotonic_ns() - began_ns) / 1e9, 1)


def _nodes_cpu_s(run: Path) -> float:
    return sum(map(cpu_s, node_processes(run)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, action="append", help="may be given again and again; else 100, 1000")
    parser.add_argument("--replication-factor", type=int, default=3)
    parser.add_argument("--kill", action="store_true", help="also kills the leader of a third of them")
    parser.add_argument(
        "--idle", type=float, default=10, metavar="SECONDS", help="how long the idle cluster is watched"
    )
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    for partitions in options.partitions or PARTITIONS:
        results = asyncio.run(
            measure(partitions, replication_factor=options.replication_factor, kill=options.kill, idle_s=options.idle)
        )
        print(json.dumps(results) if options.json else "\n".join(f"{name}: {value}" for name, value in results.items()))


if __name__ == "__main__":
    main()
