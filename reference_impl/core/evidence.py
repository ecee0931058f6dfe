"""The events that a replica records as evidence for the checks: truncations, leadership, checkpoints."""

from typing import Protocol

from reference_impl.core.identifiers import TopicPartition


class EvidenceSink(Protocol):
    """The runtime writes these events to the broker's evidence journal, stamped with the monotonic clock."""

    def truncated(
        self, topic_partition: TopicPartition, *, from_offset: int, to_offset: int, epoch: int, reason: str, cut: bytes
    ) -> None: ...

    def log_start_advanced(
        self, topic_partition: TopicPartition, *, from_offset: int, to_offset: int, segments: int, reason: str
    ) -> None: ...

    def records_deleted(self, topic_partition: TopicPartition, *, epoch: int, to_offset: int) -> None:
        """A client had the leader's log begin at `to_offset`."""
        ...

    def leadership_started(self, topic_partition: TopicPartition, *, epoch: int, log_end_offset: int) -> None: ...

    def isr_learned(
        self, topic_partition: TopicPartition, *, epoch: int, partition_epoch: int, high_watermark: int
    ) -> None:
        """A leader hears of an ISR that its controller made; its high watermark is as it was before."""
        ...

    def isr_expand_asked(self, topic_partition: TopicPartition, *, epoch: int, joining: int) -> None:
        """A leader asks its controller for another member, and counts it from now on (KIP-497)."""
        ...

    def leadership_ended(self, topic_partition: TopicPartition, *, epoch: int, log_end_offset: int) -> None: ...
