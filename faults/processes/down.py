"""The base of faults that take a node down and end when it has started again."""

from collections.abc import Sequence

from harness.ports.cluster import CanCrash, CanStop, Cluster, Evidence, NodeId
from harness.ports.faults import Fault, State, Struck, joined


class DownFault(Fault):
    undone_by = "start"

    @property
    def leaves(self) -> State:
        return "down"

    async def end(self, cluster: Cluster, struck: Struck) -> Evidence:
        """Starts the victims, except those that already run."""
        assert isinstance(cluster, CanCrash | CanStop)
        return joined([await cluster.start_node(node) for node in struck.nodes])


async def killed(cluster: Cluster, nodes: Sequence[NodeId]) -> list[Evidence]:
    """Kills the running ones of these nodes, since a disk must not be changed under a running node."""
    assert isinstance(cluster, CanCrash)
    return [await cluster.kill(node) for node in nodes if cluster.is_running(node)]
