"""Power loss: records that a replica appended but never flushed are gone. A running node is killed first."""

import asyncio
import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from faults.disks.spare import refuse_without_spare
from faults.evidence import joined
from faults.processes.down import DownFault, killed
from harness.ports.cluster import CanCrash, CanLosePower, Cluster, Evidence, ShowsLogs
from harness.ports.faults import Aliases, NothingToStrike, Struck


@dataclass(frozen=True, kw_only=True)
class PowerLoss(DownFault):
    """records: removes at least this many of the replica's last records. topic "": the scenario's first topic.

    spare: skipped unless all other replicas of the partition run and are in sync.
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

    @classmethod
    def drawn(cls, chance: random.Random) -> Mapping[str, Any]:
        return {"records": chance.choice((1, 10, 100)), "spare": True}

    async def begin(self, cluster: Cluster, struck: Struck) -> Evidence:
        assert isinstance(cluster, CanLosePower)
        topic = self.topic or struck.topics[0]
        await self._refuse_shorter_logs(cluster, struck, topic)
        if self.spare:
            await refuse_without_spare(cluster, struck.nodes, topic, self.partition)
        proofs = await killed(cluster, struck.nodes)
        for node in struck.nodes:
            proofs.append(await cluster.lose_tail(node, topic, self.partition, records=self.records))
        return joined(proofs)

    async def _refuse_shorter_logs(self, cluster: Cluster, struck: Struck, topic: str) -> None:
        """Before anybody is killed for it. Raises NothingToStrike."""
        if not isinstance(cluster, ShowsLogs):
            return
        for node in struck.nodes:
            end = await asyncio.to_thread(cluster.log_end, node, topic, self.partition)
            if end is not None and end < self.records:
                raise NothingToStrike(
                    f"{topic}/{self.partition} ends at {end} on broker {node}: {self.records} are more"
                )
