"""Impaired links: packets are lost, duplicated or reordered. TCP repairs that, so no byte is lost for good."""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from faults.network.link_fault import NamedOrPeerLinks
from faults.options import Percent
from harness.ports.capabilities import CanImpairPackets, Impairment
from harness.ports.cluster import Cluster, Evidence
from harness.ports.faults import Aliases, Struck
from harness.values import Seconds

_OVERTAKEN_S = 0.02  # reordering needs packets that are delayed


@dataclass(frozen=True, kw_only=True)
class Impair(NamedOrPeerLinks):
    """Without `delay`: none, or 20 ms if packets are reordered."""

    name = "impair"
    aliases: ClassVar[Aliases] = {"packet-loss": {}, "packet-duplication": {}, "packet-reordering": {}}
    says = "a share of the packets on such links is lost, sent twice or overtaken by others"
    kind = "impair"
    needs = (CanImpairPackets,)
    loss: Percent = 0.0
    duplicate: Percent = 0.0
    reorder: Percent = 0.0
    delay_s: Seconds | None = None

    def __post_init__(self) -> None:
        if self._impairment.nothing:
            raise ValueError('give loss, duplicate, reorder or delay, for example loss = "10 %"')

    @classmethod
    def drawn(cls, chance: random.Random) -> Mapping[str, Any]:
        return {chance.choice(("loss", "duplicate", "reorder")): f"{chance.choice((1, 5, 20))} %"}

    @property
    def _impairment(self) -> Impairment:
        delay_s = (_OVERTAKEN_S if self.reorder else 0.0) if self.delay_s is None else self.delay_s
        return Impairment(
            delay_ms=1000 * delay_s,
            loss_percent=self.loss,
            duplicate_percent=self.duplicate,
            reorder_percent=self.reorder,
        )

    async def begin(self, cluster: Cluster, struck: Struck) -> Evidence:
        assert isinstance(cluster, CanImpairPackets)
        return await cluster.impair(struck.links, self._impairment)

    async def end(self, cluster: Cluster, struck: Struck) -> Evidence:
        assert isinstance(cluster, CanImpairPackets)
        return await cluster.impair(struck.links, Impairment())
