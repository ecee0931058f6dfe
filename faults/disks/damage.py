"""Disk damage: flips bits in one batch of a replica's log, on a node that is down or, on request, that keeps running.

A broker that starts after a crash checks its log and cuts it before the damage; a running one serves what it reads.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from faults.disks.spare import refuse_short_logs, refuse_without_spare, rejoined
from faults.evidence import joined
from faults.options import one_of
from faults.processes.down import DownFault, killed
from harness.ports.capabilities import CanDamageDisks, Place
from harness.ports.cluster import CanCrash, Cluster, Evidence
from harness.ports.faults import Aliases, State, Struck


@dataclass(frozen=True, kw_only=True)
class Damage(DownFault):
    """running: a running node is not killed first. Only the broker itself can repair the damage, when it starts.

    spare: skipped unless the victim runs, and all other replicas of the partition run and are in sync.
    """

    name = "damage"
    aliases: ClassVar[Aliases] = {"disk-damage": {"running": False}}
    says = "bits flipped in one batch of a replica, down or running; over with the next start"
    kind = "damage"
    needs = (CanCrash, CanDamageDisks)
    destroys = "batch"
    topic: str = ""
    partition: int = 0
    at: Annotated[Place, one_of("last", "middle", "unflushed")] = "last"
    running: bool = True
    spare: bool = False

    @property
    def leaves(self) -> State:
        return "up" if self.running else "down"

    @property
    def not_while(self) -> tuple[State, ...]:
        """A broker does not read its log again when it starts after a clean stop: it serves the damage."""
        return ("down",) if self.spare else ()

    @property
    def alone(self) -> bool:
        return self.spare

    @classmethod
    def drawn(cls, chance: random.Random) -> Mapping[str, Any]:
        """Never of what a broker serves without reading it at its start: the promise is broken by the fault alone."""
        return {"at": "unflushed", "running": False, "spare": True}

    async def begin(self, cluster: Cluster, struck: Struck) -> Evidence:
        assert isinstance(cluster, CanDamageDisks)
        topic = self.topic or struck.topics[0]
        await refuse_short_logs(cluster, struck.nodes, topic, self.partition, records=1)
        if self.spare:
            await refuse_without_spare(cluster, struck.nodes, topic, self.partition)
        proofs = [] if self.running else await killed(cluster, struck.nodes)
        for node in struck.nodes:
            proofs.append(await cluster.damage(node, topic, self.partition, at=self.at))
        return joined(proofs)

    async def end(self, cluster: Cluster, struck: Struck) -> Evidence:
        evidence = await super().end(cluster, struck)
        if self.spare:
            await rejoined(cluster, struck.nodes, struck.topics)
        return evidence
