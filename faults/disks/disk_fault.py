"""What takes records off a disk has in common: the victim is killed first, and where spare copies are asked for, other
replicas are looked at before and after that.
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace

from faults.disks.spare import missing_after_a_kill, refuse_short_logs, refuse_without_spare, rejoined
from faults.processes.down import DownFault, killed
from harness.ports.cluster import CanCrash, Cluster, Evidence, NodeId
from harness.ports.faults import State, Struck, joined


@dataclass(frozen=True, kw_only=True)
class DiskFault(DownFault):
    """spare: skipped unless the victim runs, and all other replicas of its partitions run and are in sync. If they are
    not in sync any more when it is dead, its disk is left as it is: it was a kill."""

    spare: bool = False

    @property
    def kills_first(self) -> bool:
        return True

    @property
    def not_while(self) -> tuple[State, ...]:
        """A clean stop has flushed everything, and a broker does not read its log again when it starts after one."""
        return ("down",) if self.spare else ()

    @property
    def alone(self) -> bool:
        return self.spare

    def least_records(self) -> int:
        """Skipped if the victim's replica has fewer."""
        return 0

    def replicas(self, struck: Struck) -> Sequence[tuple[str, int | None]]:
        """The topics and partitions whose records it takes; None: all of the topic."""
        return [(topic, None) for topic in struck.topics]

    @abstractmethod
    async def harm(self, cluster: Cluster, node: NodeId, struck: Struck) -> Evidence:
        """Takes the records off the disk of a victim."""

    async def begin(self, cluster: Cluster, struck: Struck) -> Evidence:
        assert isinstance(cluster, CanCrash)
        replicas = self.replicas(struck)
        await refuse_short_logs(cluster, struck.nodes, replicas, records=self.least_records())
        if self.spare:
            await refuse_without_spare(cluster, struck.nodes, replicas)
        proofs = await killed(cluster, struck.nodes) if self.kills_first else []
        if proofs and self.spare:
            missing = await missing_after_a_kill(cluster, struck.nodes, replicas)
            if missing:
                proof = joined(proofs)
                return replace(proof, sentence=f"{proof.sentence}; its disk was left as it is: {missing}", only="kill")
        return joined([*proofs, *[await self.harm(cluster, node, struck) for node in struck.nodes]])

    async def end(self, cluster: Cluster, struck: Struck) -> Evidence:
        evidence = await super().end(cluster, struck)
        if self.spare:
            await rejoined(cluster, struck.nodes, struck.topics)
        return evidence
