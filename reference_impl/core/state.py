"""A partition's state as the controller decides it, stored in the znode and sent by LeaderAndIsr."""

from dataclasses import dataclass

from reference_impl.core.identifiers import TopicPartition


@dataclass(frozen=True, kw_only=True)
class PartitionState:
    """/brokers/topics/T/partitions/P/state plus the assignment. partition_epoch is the znode's version (R1)."""

    topic_partition: TopicPartition
    replicas: tuple[int, ...]  # AR, in order
    leader: int  # -1: none
    isr: tuple[int, ...]
    leader_epoch: int
    partition_epoch: int
    controller_epoch: int


@dataclass(frozen=True, kw_only=True)
class LiveBroker:
    """A registered broker as the controller and the metadata of every broker know it."""

    broker_id: int
    broker_epoch: int  # creation zxid of its registration znode
    listeners: tuple[tuple[str, str, int], ...]  # (listener name, advertised host, port)
    directory_ids: tuple[str, ...]
    shutting_down: bool = False

    def address(self, listener: str) -> tuple[str, int] | None:
        """The advertised host and port; the host is a name or an address, not resolved."""
        return next(((host, port) for name, host, port in self.listeners if name == listener), None)


@dataclass(frozen=True, kw_only=True)
class IsrProposal:
    """A leader's request to the controller in AlterPartition (KIP-497, KIP-903)."""

    topic_partition: TopicPartition
    leader_epoch: int
    partition_epoch: int
    isr: tuple[tuple[int, int], ...]  # (broker id, broker epoch it fetched with)
