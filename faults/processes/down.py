"""What faults have in common that take a node down, and are over when it has started again."""

from collections.abc import Sequence

from faults.evidence import joined
from harness.ports.cluster import CanCrash, CanStop, Cluster, Evidence, NodeId
from harness.ports.faults import Fault, State, Struck


class DownFault(Fault):
    undone_by = "start"

    @property
    def leaves(self) -> State:
        return "down"

    async def end(self, cluster: Cluster, struck: Struck) -> Evidence:
        """Starts the victims; whoever runs all the same is left alone."""
        assert isinstance(cluster, CanCrash | CanStop)
        return joined([await cluster.start_node(node) for node in struck.nodes])


async def killed(cluster: Cluster, nodes: Sequence[NodeId]) -> list[Evidence]:
    """Kills those that run, for what is done to a disk is done under nobody."""
    assert isinstance(cluster, CanCrash)
    return [await cluster.kill(node) for node in nodes if cluster.is_running(node)]
