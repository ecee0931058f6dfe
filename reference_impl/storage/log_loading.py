"""What a log's folder holds when it is opened: whole segments in a row, and the leader epochs (replication.md 1.14).

Segments set aside for deletion before the process ended go now. After an unclean stop, what is not known to be flushed
is verified; behind the first bad batch, and behind a gap, nothing is kept.
"""

import logging
from pathlib import Path

from reference_impl.storage.checkpoints import CorruptCheckpoint, read_epochs
from reference_impl.storage.segment import (
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
    Segment,
)

logger = logging.getLogger(__name__)

LEADER_EPOCH_CHECKPOINT = "leader-epoch-checkpoint"


def load_segments(
    folder: Path, *, index_interval_bytes: int, log_start_offset: int, recovery_point: int, clean: bool
) -> tuple[list[Segment], bytes]:
    """(the segments, at least one, and the bytes that had to go). A log that ends before the checkpointed start has
    lost what it held: it begins anew there."""
    for path in folder.glob("*" + DELETED_SUFFIX):
        path.unlink()
    base_offsets = sorted(int(path.stem) for path in folder.glob("*" + LOG_SUFFIX))
    _remove_stray_indexes(folder, set(base_offsets))
    segments: list[Segment] = []
    cut: list[bytes] = []
    for number, base_offset in enumerate(base_offsets):
        following = base_offsets[number + 1] if number + 1 < len(base_offsets) else None
        holds_unflushed = following is None or following > recovery_point
        segment, torn = Segment.load(
            folder,
            base_offset,
            index_interval_bytes=index_interval_bytes,
            verify=not clean and holds_unflushed,
        )
        # Behind a damaged batch, or a segment that ends early or late, nothing can be trusted to follow.
        if cut or (segments and segments[-1].next_offset != base_offset):
            cut.append(segment.delete() + torn)
            continue
        segments.append(segment)
        if torn:
            cut.append(torn)
    if segments and segments[-1].next_offset < log_start_offset:
        logger.warning("%s: ends at %d, before its start %d", folder, segments[-1].next_offset, log_start_offset)
        cut[:0] = [segment.delete() for segment in segments]
        segments.clear()
    return segments or [Segment.create(folder, log_start_offset)], b"".join(cut)


def _remove_stray_indexes(folder: Path, base_offsets: set[int]) -> None:
    for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX):
        for path in folder.glob("*" + suffix):
            if int(path.stem) not in base_offsets:
                path.unlink()


def load_epochs(folder: Path, segments: list[Segment]) -> list[tuple[int, int]]:
    """The checkpoint's entries; from the batches themselves if it is lost or damaged. Batches of epochs that it does
    not have, which a crash may have left, are added."""
    try:
        entries = read_epochs(folder / LEADER_EPOCH_CHECKPOINT)
    except CorruptCheckpoint as error:
        logger.warning("%s: taking the leader epochs from the log", error)
        entries = []
    latest = max((epoch for epoch, _ in entries), default=-1)
    first_unknown = 0 if not entries else len(segments) - 1
    for segment in segments[first_unknown:]:
        for epoch, offset in segment.epochs():
            if epoch > latest:
                entries.append((epoch, offset))
                latest = epoch
    return entries
