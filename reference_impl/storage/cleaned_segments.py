"""The files of the log cleaner: segments are written anew beside the log, then put in the place of those they replace.

New segments are `.cleaned` while they are written. Once all are whole and on disk, each becomes `.swap`, the last one
first; then the segments that they replace are set aside; then the new ones get their names. So at a start: what is
`.cleaned` was not whole, nor was any `.swap` from its offset on; every other `.swap` is whole, and replaces all that
begins within it. For that the last batch of each new segment always stays, be it without records (docs/replication.md
R82, R85).
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from reference_impl.core.cleaning.compaction import BatchCleaner, Cleaning, LatestOffsets
from reference_impl.storage.checkpoints import sync_folder
from reference_impl.storage.disk import Disk
from reference_impl.storage.segment import (
    CLEANED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    MAX_RELATIVE_OFFSET,
    SWAP_SUFFIX,
    TIME_INDEX_SUFFIX,
    Segment,
)
from reference_impl.storage.transaction_index import TRANSACTION_INDEX_SUFFIX, write_aborted
from reference_impl.wire.record_batches import read_header


@dataclass(frozen=True, kw_only=True)
class CleanedSegment:
    segment: Segment
    replaced: tuple[int, ...]  # base offsets; the new segment has the first one's


@dataclass(frozen=True, kw_only=True)
class CleanedLog:
    segments: tuple[CleanedSegment, ...]
    end_offset: int  # the log is clean up to here
    removed_records: int
    changes: int  # of the log, when the pass began


def clean_segments(
    folder: Path,
    plan: Cleaning,
    *,
    keys_max: int,
    segment_bytes: int,
    index_interval_bytes: int,
    disk: Disk,
    changes: int,
) -> CleanedLog:
    """Writes what the pass leaves into `.cleaned` files. Raises OSError (FileNotFoundError: a segment or the whole log
    was deleted meanwhile) and UnreadableRecords; then no file of it is left."""
    latest = LatestOffsets(plan, capacity=keys_max)
    taken = list(plan.clean_segments)
    for base_offset, end_offset in zip(plan.dirty_segments, (*plan.dirty_segments[1:], plan.end_offset), strict=True):
        if not latest.take_segment(_batches(folder, base_offset), end_offset):
            break
        taken.append(base_offset)
    cleaner = BatchCleaner(plan=plan, latest=latest)
    written: list[CleanedSegment] = []
    try:
        for group in _groups(folder, taken, segment_bytes):
            written.append(CleanedSegment(segment=Segment(folder, group[0], CLEANED_SUFFIX), replaced=group))
            _write(folder, written[-1], cleaner, disk, index_interval_bytes)
        with _writing(disk):
            sync_folder(folder)
    except BaseException:
        for each in written:
            each.segment.discard()
        raise
    kept = tuple(each for each in written if each.segment.size)
    return CleanedLog(
        segments=kept, end_offset=latest.end_offset, removed_records=cleaner.removed_records, changes=changes
    )


@contextmanager
def _writing(disk: Disk) -> Iterator[None]:
    """A topic's folder may be deleted while a pass writes into it: that a file is missing says nothing of the disk."""
    missing: FileNotFoundError | None = None
    with disk:
        try:
            yield
        except FileNotFoundError as error:
            missing = error
    if missing is not None:
        raise missing


def _groups(folder: Path, base_offsets: Sequence[int], segment_bytes: int) -> Iterator[tuple[int, ...]]:
    """Neighbours that fit into one segment together."""
    group: list[int] = []
    size = 0
    for base_offset in base_offsets:
        own_size = Segment.at(folder, base_offset).size
        if group and (size + own_size > segment_bytes or base_offset - group[0] > MAX_RELATIVE_OFFSET // 2):
            yield tuple(group)
            group, size = [], 0
        group.append(base_offset)
        size += own_size
    if group:
        yield tuple(group)


def _batches(folder: Path, base_offset: int) -> Iterator[bytes]:
    return Segment.at(folder, base_offset).batches_in_order()


def _write(folder: Path, into: CleanedSegment, cleaner: BatchCleaner, disk: Disk, index_interval_bytes: int) -> None:
    segment = into.segment
    with _writing(disk):
        segment.discard()  # what a pass left that ended in a crash
        segment.create_files()
    markers: set[int] = set()
    source = (batch for base_offset in into.replaced for batch in _batches(folder, base_offset))
    for batch, is_last in _with_last(source):
        kept = cleaner.cleaned(batch, is_last_of_segment=is_last)
        if kept:
            header = read_header(kept, 0)
            if header.is_control:
                markers.add(header.base_offset)
            with _writing(disk):
                segment.append(memoryview(kept), [header], 0, index_interval_bytes=index_interval_bytes)
    with _writing(disk):
        write_aborted(segment.aborted_path, (each for each in cleaner.plan.aborted if each.last_offset in markers))
        segment.flush()
        segment.retire()
        if not segment.size:
            segment.discard()


def _with_last(batches: Iterator[bytes]) -> Iterator[tuple[bytes, bool]]:
    """Each with whether it is the last one."""
    held = next(batches, None)
    while held is not None:
        following = next(batches, None)
        yield held, following is None
        held = following


# At a start


def complete_swaps(folder: Path) -> None:
    """Removes what an interrupted pass left, or completes what it had written whole. What tells that a `.swap` does not
    count goes after it: a start may be interrupted, too."""
    unfinished = _base_offsets(folder, CLEANED_SUFFIX)
    swaps = _base_offsets(folder, SWAP_SUFFIX)
    whole = [each for each in swaps if not unfinished or each < unfinished[0]]
    for base_offset in swaps[len(whole) :]:
        Segment(folder, base_offset, SWAP_SUFFIX).discard()
    for base_offset in unfinished:
        Segment(folder, base_offset, CLEANED_SUFFIX).discard()
    for base_offset in whole:
        _complete(folder, Segment.at(folder, base_offset, SWAP_SUFFIX))
    for suffix in (CLEANED_SUFFIX, SWAP_SUFFIX):
        for kind in (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX):
            for path in folder.glob("*" + kind + suffix):
                path.unlink()


def _base_offsets(folder: Path, suffix: str) -> list[int]:
    return sorted(map(_base_offset, folder.glob("*" + LOG_SUFFIX + suffix)))


def _complete(folder: Path, swap: Segment) -> None:
    end_offset = max((read_header(batch, 0).next_offset for batch in swap.batches_in_order()), default=swap.base_offset)
    for path in folder.glob("*" + LOG_SUFFIX):
        if swap.base_offset <= _base_offset(path) < end_offset:
            path.unlink()
    swap.rename_log()


def _base_offset(path: Path) -> int:
    return int(path.name.partition(".")[0])
