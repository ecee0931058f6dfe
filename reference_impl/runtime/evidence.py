"""The broker's evidence journal: one JSON line per deed, written unbuffered so that SIGKILL loses none, and the bytes
of every truncated tail in a file of its own. The harness reads it afterwards; the broker never does."""

import json
import os
from collections.abc import Callable
from pathlib import Path

from reference_impl.core.identifiers import TopicPartition


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
        if self._file < 0:
            return  # the broker was stopped abruptly; a late callback has no voice any more
        line = json.dumps({"t": self._now_ns(), "event": event, **fields}, separators=(",", ":"))
        os.write(self._file, line.encode() + b"\n")

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

    def leadership_started(self, topic_partition: TopicPartition, *, epoch: int, log_end_offset: int) -> None:
        self._leadership("leadership_start", topic_partition, epoch, log_end_offset)

    def leadership_ended(self, topic_partition: TopicPartition, *, epoch: int, log_end_offset: int) -> None:
        self._leadership("leadership_end", topic_partition, epoch, log_end_offset)

    def high_watermark_checkpointed(self, topic_partition: TopicPartition, high_watermark: int) -> None:
        topic, partition = topic_partition
        self.note("high_watermark_checkpoint", topic=topic, partition=partition, to_offset=high_watermark)

    def _leadership(self, event: str, topic_partition: TopicPartition, epoch: int, log_end_offset: int) -> None:
        topic, partition = topic_partition
        self.note(event, topic=topic, partition=partition, epoch=epoch, from_offset=log_end_offset)
