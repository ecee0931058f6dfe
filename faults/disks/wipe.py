"""Disk loss: the victims' data directories are emptied, and they start again with nothing. A running node is killed."""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from faults.disks.spare import refuse_without_spare, rejoined
from faults.evidence import joined
from faults.processes.down import DownFault, killed
from harness.ports.cluster import CanCrash, CanWipe, Cluster, Evidence
from harness.ports.faults import Aliases, State, Struck


@dataclass(frozen=True, kw_only=True)
class Wipe(DownFault):
    """spare: skipped unless the victim runs, and all other replicas of each of its partitions run and are in sync."""

    name = "wipe"
    aliases: ClassVar[Aliases] = {"disk-loss": {}}
    says = "an empty disk (SIGKILL first, if it runs), then a start"
    kind = "wipe"
    needs = (CanCrash, CanWipe)
    destroys = "disk"
    spare: bool = False

    @property
    def not_while(self) -> tuple[State, ...]:
        return ("down",) if self.spare else ()

    @property
    def alone(self) -> bool:
        return self.spare

    @classmethod
    def drawn(cls, chance: random.Random) -> Mapping[str, Any]:
        return {"spare": True}

    async def begin(self, cluster: Cluster, struck: Struck) -> Evidence:
        assert isinstance(cluster, CanWipe)
        if self.spare:
            for topic in struck.topics:
                await refuse_without_spare(cluster, struck.nodes, topic)
        proofs = await killed(cluster, struck.nodes)
        return joined([*proofs, *[await cluster.wipe(node) for node in struck.nodes]])

    async def end(self, cluster: Cluster, struck: Struck) -> Evidence:
        evidence = await super().end(cluster, struck)
        if self.spare:
            await rejoined(cluster, struck.nodes, struck.topics)
        return evidence
