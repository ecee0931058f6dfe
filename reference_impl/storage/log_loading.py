"""Loads a log's folder: consecutive whole segments, and the leader epochs.

Segments that were set aside for deletion are removed. Every batch's header is read, one piece of the log at a time, and
must continue the log; after an unclean stop the CRC of batches beyond the recovery point must match too. Everything
from the first bad batch on is removed, and so is what follows a gap, unless a file says that this log may have gaps
(docs/replication.md R49, R84).
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from reference_impl.core.storage_rules import verify_what_was_not_flushed
from reference_impl.storage.checkpoints import CorruptCheckpoint, read_epochs
from reference_impl.storage.cleaned_segments import complete_swaps
from reference_impl.storage.continuity import Continuity
from reference_impl.storage.producer_snapshots import SNAPSHOT_SUFFIX
from reference_impl.storage.segment import (
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
    Segment,
)
from reference_impl.storage.transaction_index import TRANSACTION_INDEX_SUFFIX
from reference_impl.wire.record_batches import CorruptBatch, check, scan

logger = logging.getLogger(__name__)

LEADER_EPOCH_CHECKPOINT = "leader-epoch-checkpoint"
MAY_HAVE_GAPS_FILE = "may-have-gaps"  # in the log's folder, as no loss of a checkpoint may cut the log


@dataclass(frozen=True, kw_only=True)
class LoadedLog:
    segments: list[Segment]  # at least one
    epochs: list[tuple[int, int]]
    cut: bytes  # the removed bytes


def load_log(
    folder: Path,
    *,
    index_interval_bytes: int,
    log_start_offset: int,
    recovery_point: int,
    clean: bool,
    may_have_gaps: bool = False,
    verifies: Callable[[bool, bool], bool] = verify_what_was_not_flushed,
) -> LoadedLog:
    """Loads the log. A log that ends before its checkpointed start has lost its records: it begins anew there."""
    for path in folder.glob("*" + DELETED_SUFFIX):
        path.unlink()
    complete_swaps(folder)
    base_offsets = sorted(int(path.stem) for path in folder.glob("*" + LOG_SUFFIX))
    _remove_strays(folder, set(base_offsets))
    epochs = _checkpointed_epochs(folder)
    continuity = Continuity(
        epochs, log_end_offset=base_offsets[0] if base_offsets else log_start_offset, may_have_gaps=may_have_gaps
    )
    segments: list[Segment] = []
    cut: list[bytes] = []
    for base_offset, following in zip_longest(base_offsets, base_offsets[1:]):
        segment = Segment.at(folder, base_offset)
        # After a damaged batch or a segment of the wrong length, nothing that follows can be trusted.
        if cut or not continuity.reaches(base_offset):
            cut.append(segment.delete())
            continue
        holds_unflushed = following is None or following > recovery_point
        torn = segment.load(
            continuity,
            index_interval_bytes=index_interval_bytes,
            verify=verifies(clean, holds_unflushed),
            retired=following is not None,
        )
        segments.append(segment)
        if torn:
            cut.append(torn)
    if segments and segments[-1].next_offset < log_start_offset:
        logger.warning("%s: ends at %d, before its start %d", folder, segments[-1].next_offset, log_start_offset)
        cut[:0] = [segment.delete() for segment in segments]
        segments.clear()
    return LoadedLog(
        segments=segments or [Segment.create(folder, log_start_offset)],
        epochs=epochs or continuity.epochs_seen,
        cut=b"".join(cut),
    )


def _remove_strays(folder: Path, base_offsets: set[int]) -> None:
    for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX, SNAPSHOT_SUFFIX, TRANSACTION_INDEX_SUFFIX):
        for path in folder.glob("*" + suffix):
            # Kafka also leaves a snapshot at the log end, where no segment begins.
            if int(path.stem) not in base_offsets:
                path.unlink()


def _checkpointed_epochs(folder: Path) -> list[tuple[int, int]]:
    """Returns none if the checkpoint is lost or damaged; the epochs are then taken from the batches."""
    try:
        return read_epochs(folder / LEADER_EPOCH_CHECKPOINT)
    except CorruptCheckpoint as error:
        logger.warning("%s: taking the leader epochs from the log", error)
        return []


def end_before_cut(cut: bytes, cut_at: int) -> int | None:
    """Estimates where a log ended before it lost these bytes at that offset; None if the bytes contain no whole batch.

    A batch with a valid CRC spans as many offsets as its header says, wherever it claims to be; for one with an invalid
    CRC the next batch shows it.
    """
    end, headers = cut_at, scan(cut)[0]
    for header, following in zip_longest(headers, headers[1:]):
        try:
            check(cut, header)
        except CorruptBatch:
            end = header.next_offset if following is None else following.base_offset
        else:
            end += header.last_offset_delta + 1
    return end if headers else None
