"""Power loss: records that a replica appended but never flushed are gone. A running node is killed first."""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from faults.evidence import joined
from faults.processes.down import DownFault, killed
from harness.ports.cluster import CanCrash, CanLosePower, Cluster, Evidence
from harness.ports.faults import Aliases, Struck


@dataclass(frozen=True, kw_only=True)
class PowerLoss(DownFault):
    """records: removes at least this many of the replica's last records. topic "": the scenario's first topic."""

    name = "power-loss"
    aliases: ClassVar[Aliases] = {"lose-tail": {}}
    says = "the last records of a replica were never flushed (SIGKILL first, if it runs), then a start"
    kind = "power-loss"
    needs = (CanCrash, CanLosePower)
    destroys = "tail"
    topic: str = ""
    partition: int = 0
    records: int = 1

    @classmethod
    def drawn(cls, chance: random.Random) -> Mapping[str, Any]:
        return {"records": chance.choice((1, 10, 100))}

    async def begin(self, cluster: Cluster, struck: Struck) -> Evidence:
        assert isinstance(cluster, CanLosePower)
        proofs = await killed(cluster, struck.nodes)
        topic = self.topic or struck.topics[0]
        for node in struck.nodes:
            proofs.append(await cluster.lose_tail(node, topic, self.partition, records=self.records))
        return joined(proofs)
