"""Disk damage: bits flipped in one batch of a replica's log, under a broker that is killed for it or that runs on.

A broker that starts after a crash looks at its log and cuts it before the damage; one that runs serves what it reads.
"""

from collections.abc import Sequence
from typing import ClassVar

from faults.evidence import joined
from harness.harms import CanDamageDisks, Place
from harness.interfaces import CanCrash, Cluster, Evidence, NodeId


class DiskDamage:
    """`running`: the victims are not killed, and nothing undoes the damage."""

    kind: ClassVar[str] = "damage"
    needs: ClassVar[tuple[type, ...]] = (CanCrash, CanDamageDisks)

    def __init__(self, topic: str, partition: int, *, at: Place, running: bool) -> None:
        self._topic = topic
        self._partition = partition
        self._at: Place = at
        self._running = running

    async def begin(self, cluster: Cluster, victims: Sequence[NodeId]) -> Evidence:
        assert isinstance(cluster, CanCrash)
        assert isinstance(cluster, CanDamageDisks)
        proofs = []
        for node in victims:
            if not self._running:
                proofs.append(await cluster.kill(node))
            proofs.append(await cluster.damage(node, self._topic, self._partition, at=self._at))
        return joined(proofs)

    async def end(self, cluster: Cluster, victims: Sequence[NodeId]) -> Evidence:
        """Starts the victims, those too that the damage has ended."""
        assert isinstance(cluster, CanCrash)
        return joined([await cluster.start_node(node) for node in victims])
