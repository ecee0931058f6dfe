"""Single requests of one kind, or their answers, wait on their way or are lost, and all else passes.

Half of the classical bugs of replication need one message to be late while everything else goes on: a change of the ISR
that its leader has asked for, when the leader dies. A cut or a delay of the whole link hides it. A lost answer is what
makes a producer send again what was appended.
"""

import random
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from faults.network.link_fault import NamedOrPeerLinks
from faults.options import Nth, one_of
from harness.ports.cluster import Cluster, Evidence
from harness.ports.faults import Struck
from harness.ports.requests import CanHoldRequests, RequestName, Requests

Direction = Annotated[Literal["requests", "answers"], one_of("requests", "answers")]


@dataclass(frozen=True, kw_only=True)
class _RequestFault(NamedOrPeerLinks):
    """nth: strikes only that one of those that come by while it is in force; 0: each."""

    needs = (CanHoldRequests,)
    weight = 0.0
    request: RequestName = "AlterPartition"
    nth: Nth = 0

    @classmethod
    def drawn(cls, chance: random.Random) -> Mapping[str, Any]:
        """What brokers ask each other while an ISR or a leader changes."""
        return {"request": chance.choice(("AlterPartition", "AlterPartition", "LeaderAndIsr", "Fetch"))}

    @abstractmethod
    def struck(self) -> Requests: ...

    async def begin(self, cluster: Cluster, struck: Struck) -> Evidence:
        assert isinstance(cluster, CanHoldRequests)
        return await cluster.strike_requests(struck.links, self.struck())

    async def end(self, cluster: Cluster, struck: Struck) -> Evidence:
        assert isinstance(cluster, CanHoldRequests)
        return await cluster.pass_requests(struck.links, self.struck())


@dataclass(frozen=True, kw_only=True)
class HoldRequests(_RequestFault):
    """held: the requests themselves, or their answers."""

    name = "hold-requests"
    says = "requests of one kind, or their answers, wait on the victims' links to other brokers, or on the named ones"
    kind = "slow"
    held: Direction = "requests"

    @classmethod
    def drawn(cls, chance: random.Random) -> Mapping[str, Any]:
        return {**super().drawn(chance), "held": chance.choice(("requests", "answers"))}

    def struck(self) -> Requests:
        return Requests(request=self.request, answers=self.held == "answers", nth=self.nth)


@dataclass(frozen=True, kw_only=True)
class LoseRequests(_RequestFault):
    """lost: the requests themselves, or their answers. Their connections end with them."""

    name = "lose-requests"
    says = "requests of one kind, or their answers, are lost on such links, and end their connections"
    kind = "cut"
    lost: Direction = "requests"

    @classmethod
    def drawn(cls, chance: random.Random) -> Mapping[str, Any]:
        return {**super().drawn(chance), "lost": chance.choice(("requests", "answers"))}

    def struck(self) -> Requests:
        return Requests(request=self.request, answers=self.lost == "answers", nth=self.nth, lost=True)
