"""A cluster that runs already, as one run sees it: the run neither starts nor stops it, and what the cluster did before
the run began is no part of the run's history."""

import dataclasses
from collections.abc import Sequence

from harness.cluster.local.cluster import LocalCluster
from harness.ports.cluster import ClusterHistory, NodeEnd

_BLOCK_BYTES = 1 << 20
_OF_A_START = frozenset({"broker_start", "broker_registered", "broker_unfenced"})


class LentCluster(LocalCluster):
    """The lender's running cluster as one run sees it. Broker events before `began_ns` are left out."""

    __slots__ = ("_began_ns",)  # everything else is the lender's: the same processes, links and connections

    def __init__(self, lender: LocalCluster, *, began_ns: int) -> None:
        self.__dict__ = lender.__dict__
        self._began_ns = began_ns

    async def start(self) -> None:
        """It runs."""

    async def stop(self) -> None:
        """Its lender stops it."""

    def node_ends(self) -> Sequence[NodeEnd]:
        """What struck the cluster before this run is not known to it."""
        return [dataclasses.replace(end, fresh=False) for end in super().node_ends()]

    def collect(self) -> ClusterHistory:
        history = super().collect()
        events = [event for event in history.broker_events if event.t_ns >= self._began_ns]
        return dataclasses.replace(history, broker_events=events)
