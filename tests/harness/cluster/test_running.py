"""What every world's cluster reads from its nodes' folders."""

from pathlib import Path

from harness.clock import SystemClock
from harness.cluster.local.cluster import LocalCluster
from harness.interfaces import COORDINATION, NodeId
from harness.scenario import ClusterSpec


def test_a_coordination_service_has_no_replicas_whatever_its_folders_are_called(tmp_path: Path) -> None:
    cluster = LocalCluster(run_path=tmp_path, spec=ClusterSpec(), client_links=0, clock=SystemClock())
    for node, folder in ((COORDINATION, "version-2"), (NodeId(1), "orders-0")):
        (tmp_path / "nodes" / str(node) / "data" / folder).mkdir(parents=True)

    assert cluster.read_replicas(COORDINATION) == [], "ZooKeeper's version-2 is no partition 2 of a topic version"
    assert [log.topic for log in cluster.read_replicas(NodeId(1))] == ["orders"]
