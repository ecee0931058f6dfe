"""Power loss: records that a replica appended but never flushed are gone. A running node is killed first."""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from faults.disks.spare import refuse_short_logs, refuse_without_spare, rejoined
from faults.evidence import joined
from faults.processes.down import DownFault, killed
from harness.ports.cluster import CanCrash, CanLosePower, Cluster, Evidence
from harness.ports.faults import Aliases, State, Struck


@dataclass(frozen=True, kw_only=True)
class PowerLoss(DownFault):
    """records: removes at least this many of the replica's last records. topic "": the scenario's first topic.

    spare: skipped unless the victim runs, and all other replicas of the partition run and are in sync.
    """

    name = "power-loss"
    aliases: ClassVar[Aliases] = {"lose-tail": {}}
    says = "the last records of a replica were never flushed (SIGKILL first, if it runs), then a start"
    kind = "power-loss"
    needs = (CanCrash, CanLosePower)
    destroys = "tail"
    topic: str = ""
    partition: int = 0
    records: int = 1
    spare: bool = False

    @property
    def not_while(self) -> tuple[State, ...]:
        """What a clean stop has flushed is there after any loss of power."""
        return ("down",) if self.spare else ()

    @property
    def alone(self) -> bool:
        return self.spare

    @classmethod
    def drawn(cls, chance: random.Random) -> Mapping[str, Any]:
        return {"records": chance.choice((1, 10, 100)), "spare": True}

    async def begin(self, cluster: Cluster, struck: Struck) -> Evidence:
        assert isinstance(cluster, CanLosePower)
        topic = self.topic or struck.topics[0]
        await refuse_short_logs(cluster, struck.nodes, topic, self.partition, records=self.records)
        if self.spare:
            await refuse_without_spare(cluster, struck.nodes, topic, self.partition)
        proofs = await killed(cluster, struck.nodes)
        for node in struck.nodes:
            proofs.append(await cluster.lose_tail(node, topic, self.partition, records=self.records))
        return joined(proofs)

    async def end(self, cluster: Cluster, struck: Struck) -> Evidence:
        evidence = await super().end(cluster, struck)
        if self.spare:
            await rejoined(cluster, struck.nodes, struck.topics)
        return evidence
