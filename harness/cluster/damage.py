"""What a failing disk and a power failure do to a replica's log, done to its files.

Damage flips bits in the records of one batch. The batch keeps its length and position, so only its checksum shows it;
later batches stay valid. The bytes are changed in place, and a running broker serves them from then on.

A power failure takes whole batches at the end that were never flushed. SIGKILL loses nothing, because the page cache
survives it. So the log of a stopped broker is cut before the batch with the first lost record, and its clean-shutdown
file is removed, because otherwise the broker would not check its log.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.cluster import node_files
from harness.cluster.confined import refuse_links
from harness.cluster.record_batches import Batch, batches, is_intact, records_begin
from harness.cluster.replica_logs import read_recovery_points, segment_files
from harness.errors import HarnessError
from harness.ports.capabilities import Place
from harness.ports.faults import NothingToStrike

_FLIPPED_BYTES_MAX = 8
_ONE_BIT = 0x10


@dataclass(frozen=True, kw_only=True)
class Damage:
    """The damaged batch has the offsets from `from_offset` to before `to_offset`; `bytes` are positions
    in the segment."""

    segment: Path
    from_offset: int
    to_offset: int
    from_byte: int
    to_byte: int


def damage_log(folder: Path, *, at: Place) -> Damage:
    """Flips one bit in each of several bytes of a batch: of the last sound one, or of the one in the middle of the
    replica's offsets (the next sound one, if that is damaged already: the same bits once more would mend it).
    "unflushed": in the middle of what a start after a crash reads again.

    Raises NothingToStrike if the replica has no sound batch there, HarnessError if it is still valid afterwards.
    """
    refuse_links(folder)
    segments = segment_files(folder)
    found = [
        (segment, begins, batch)
        for segment in (_read_after_a_crash(folder, segments) if at == "unflushed" else segments)
        for content in (node_files.read(segment),)
        for begins, batch in _with_first_offsets(segment, batches(content))
        if is_intact(content[batch.start : batch.stop])
    ]
    if not found:
        raise NothingToStrike(f"{folder}: the replica holds no batch that could be damaged")
    middle = (found[0][1] + found[-1][2].next_offset) // 2
    segment, from_offset, batch = (
        found[-1] if at == "last" else next(each for each in found if each[2].next_offset > middle)
    )
    from_byte, to_byte = _flip(segment, batch)
    with node_files.opened(segment) as file:
        content = os.pread(file.fileno(), batch.stop - batch.start, batch.start)
    if is_intact(content):
        raise HarnessError(f"{segment}: bytes {from_byte} to {to_byte} were changed, and the checksum still holds")
    return Damage(
        segment=segment, from_offset=from_offset, to_offset=batch.next_offset, from_byte=from_byte, to_byte=to_byte
    )


def _read_after_a_crash(folder: Path, segments: Sequence[Path]) -> Sequence[Path]:
    """The segments from the one with the recovery point on: all before it is on the disk, and is not read again."""
    topic, _, partition = folder.name.rpartition("-")
    point = read_recovery_points(folder.parent).get((topic, int(partition)), 0)
    before = [segment for segment in segments if int(segment.stem) <= point]
    return segments[max(0, len(before) - 1) :]


def _with_first_offsets(segment: Path, found: Iterable[Batch]) -> Iterator[tuple[int, Batch]]:
    begins = int(segment.stem)
    for batch in found:
        yield begins, batch
        begins = batch.next_offset


def _flip(segment: Path, batch: Batch) -> tuple[int, int]:
    """Flips bits in the middle of the batch's records, where their values are."""
    first = batch.start + records_begin(batch.magic)
    count = min(_FLIPPED_BYTES_MAX, batch.stop - first)
    from_byte = first + (batch.stop - first - count) // 2
    with node_files.opened_for_change(segment) as file:
        sound = os.pread(file.fileno(), count, from_byte)
        os.pwrite(file.fileno(), bytes(byte ^ _ONE_BIT for byte in sound), from_byte)
    return from_byte, from_byte + count


# ---- power loss -----------------------------------------------------------------------------------------------------


_CLEAN_SHUTDOWN = ".kafka_cleanshutdown"


@dataclass(frozen=True, kw_only=True)
class LostTail:
    """The records from `to_offset` to before `from_offset` are lost."""

    from_offset: int
    to_offset: int
    removed_bytes: int


def lose_tail(folder: Path, *, records: int) -> LostTail:
    """Removes at least `records` offsets from the replica in `folder`. Raises NothingToStrike if it has fewer."""
    refuse_links(folder)
    found = [(segment, batch) for segment in segment_files(folder) for batch in batches(node_files.read(segment))]
    end = found[-1][1].next_offset if found else 0
    # The kept part ends at or before the first lost offset; a batch is lost as a whole or not at all.
    kept = [(segment, batch) for segment, batch in found if batch.next_offset <= end - records]
    if not found or end - int(found[0][0].stem) < records:
        raise NothingToStrike(f"{folder}: the replica holds fewer than {records} records that could be lost")
    last, at = (kept[-1][0], kept[-1][1].stop) if kept else (found[0][0], 0)
    removed = 0
    for segment in segment_files(folder):
        if int(segment.stem) < int(last.stem):
            continue
        size = at if segment == last else 0
        removed += node_files.size(segment) - size
        with node_files.opened_for_change(segment) as cut:
            cut.truncate(size)
        if segment != last:
            # Removed, not left empty: its name alone would mean that the log continues at its base offset.
            for file in folder.glob(f"{segment.stem}.*"):
                file.unlink()
    (folder.parent / _CLEAN_SHUTDOWN).unlink(missing_ok=True)
    to_offset = kept[-1][1].next_offset if kept else int(found[0][0].stem)
    return LostTail(from_offset=end, to_offset=to_offset, removed_bytes=removed)
