"""Held requests: those of one kind wait on their way, or their answers do, and all else passes.

Half of the classical bugs of replication need one message to be late while everything else goes on: a change of the ISR
that its leader has asked for, when the leader dies. A cut or a delay of the whole link hides it.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

from faults.network.link_fault import NamedOrPeerLinks
from faults.options import one_of
from harness.ports.cluster import Cluster, Evidence
from harness.ports.faults import Struck
from harness.ports.requests import CanHoldRequests, RequestName

Direction = Annotated[Literal["requests", "answers"], one_of("requests", "answers")]


@dataclass(frozen=True, kw_only=True)
class HoldRequests(NamedOrPeerLinks):
    """held: the requests themselves, or their answers."""

    name = "hold-requests"
    says = "requests of one kind, or their answers, wait on the victims' links to other brokers, or on the named ones"
    kind = "slow"
    needs = (CanHoldRequests,)
    weight = 0.0
    request: RequestName = "AlterPartition"
    held: Direction = "requests"

    async def begin(self, cluster: Cluster, struck: Struck) -> Evidence:
        assert isinstance(cluster, CanHoldRequests)
        return await cluster.hold_requests(struck.links, request=self.request, answers=self.held == "answers")

    async def end(self, cluster: Cluster, struck: Struck) -> Evidence:
        assert isinstance(cluster, CanHoldRequests)
        return await cluster.pass_requests(struck.links, request=self.request, answers=self.held == "answers")
