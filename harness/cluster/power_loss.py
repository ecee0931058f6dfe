"""Simulates a power failure on a replica's log: removes whole batches at its end that were never flushed to the disk.

SIGKILL loses nothing, because the page cache survives it. So the files of a stopped broker are changed: the log is cut
before the batch with the first lost record, and the clean-shutdown file is removed, because otherwise the broker would
not check its log.
"""

from dataclasses import dataclass
from pathlib import Path

from harness.cluster import node_files
from harness.cluster.confined import refuse_links
from harness.cluster.record_batches import batches
from harness.cluster.replica_logs import segment_files
from harness.ports.faults import NothingToStrike

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
