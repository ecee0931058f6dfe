"""The broker's evidence journal, which the harness reads after the run and the broker never does.

One JSON line per event, written unbuffered so that SIGKILL loses none; the bytes of every truncated tail go into a file
of their own.
"""

import json
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from reference_impl.core.identifiers import TopicPartition
from reference_impl.storage.log_loading import end_before_cut


class EvidenceJournal:
    """Implements core.evidence.EvidenceSink. `now_ns` is the monotonic clock (the loop's, when simulated)."""

    def __init__(self, directory: Path, now_ns: Callable[[], int]) -> None:
        self._directory = directory
        self._now_ns = now_ns
        cuts = directory / "truncations"
        cuts.mkdir(parents=True, exist_ok=True)
        self._next_cut = 1 + max((int(path.stem) for path in cuts.glob("*.batches") if path.stem.isdigit()), default=0)
        self._file = os.open(directory / "events.jsonl", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def note(self, event: str, **fields: object) -> None:
        self._write([{"event": event, **fields}])

    def _write(self, events: Iterable[Mapping[str, object]]) -> None:
        """Writes all lines with one system call."""
        if self._file < 0:
            return  # the broker was stopped abruptly; ignore late callbacks
        now_ns = self._now_ns()
        lines = [json.dumps({"t": now_ns, **event}, separators=(",", ":")) + "\n" for event in events]
        if lines:
            os.write(self._file, "".join(lines).encode())

    def truncated(
        self,
        topic_partition: TopicPartition,
        *,
        from_offset: int,
        to_offset: int,
        epoch: int | None,
        reason: str,
        cut: bytes,
    ) -> None:
        cut_name = None
        if cut:
            cut_name = f"truncations/{self._next_cut}.batches"
            self._next_cut += 1
            (self._directory / cut_name).write_bytes(cut)
        self.note(
            "truncation",
            topic=topic_partition.topic,
            partition=topic_partition.partition,
            epoch=epoch,
            from_offset=from_offset,
            to_offset=to_offset,
            reason=reason,
            cut=cut_name,
        )

    def recovered(self, topic_partition: TopicPartition, *, end: int, cut: bytes) -> None:
        """Records what recovery cut because a batch was torn or damaged; the offsets of whole batches after it are
        known."""
        if not cut:
            return
        topic, partition = topic_partition
        self.note("corrupt_batch", topic=topic, partition=partition, to_offset=end)
        ended = end_before_cut(cut, end)
        if ended is not None:
            self.truncated(
                topic_partition,
                from_offset=ended,
                to_offset=end,
                epoch=None,
                reason="corrupt batch found in recovery",
                cut=cut,
            )

    def log_start_advanced(
        self, topic_partition: TopicPartition, *, from_offset: int, to_offset: int, segments: int, reason: str
    ) -> None:
        topic, partition = topic_partition
        self.note(
            "log_start_advanced",
            topic=topic,
            partition=partition,
            from_offset=from_offset,
            to_offset=to_offset,
            reason=reason,
            detail=f"{segments} segments deleted",
        )

    def records_deleted(self, topic_partition: TopicPartition, *, epoch: int, to_offset: int) -> None:
        topic, partition = topic_partition
        self.note("records_deleted", topic=topic, partition=partition, epoch=epoch, to_offset=to_offset)

    def leadership_started(self, topic_partition: TopicPartition, *, epoch: int, log_end_offset: int) -> None:
        self._leadership("leadership_start", topic_partition, epoch, log_end_offset)

    def isr_learned(
        self, topic_partition: TopicPartition, *, epoch: int, partition_epoch: int, high_watermark: int
    ) -> None:
        topic, partition = topic_partition
        detail = {"partition_epoch": partition_epoch}
        self.note("isr_learned", topic=topic, partition=partition, epoch=epoch, to_offset=high_watermark, detail=detail)

    def isr_expand_asked(self, topic_partition: TopicPartition, *, epoch: int, joining: int) -> None:
        topic, partition = topic_partition
        self.note("isr_expand_asked", topic=topic, partition=partition, epoch=epoch, detail={"joining": joining})

    def leadership_ended(self, topic_partition: TopicPartition, *, epoch: int, log_end_offset: int) -> None:
        self._leadership("leadership_end", topic_partition, epoch, log_end_offset)

    def high_watermarks_checkpointed(self, high_watermarks: Mapping[TopicPartition, int]) -> None:
        self._write(
            {"event": "high_watermark_checkpoint", "topic": topic, "partition": partition, "to_offset": offset}
            for (topic, partition), offset in high_watermarks.items()
        )

    def _leadership(self, event: str, topic_partition: TopicPartition, epoch: int, log_end_offset: int) -> None:
        topic, partition = topic_partition
        self.note(event, topic=topic, partition=partition, epoch=epoch, from_offset=log_end_offset)
