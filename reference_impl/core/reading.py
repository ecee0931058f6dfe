"""Reads a replica's log for a fetch: checks that the reader's history is a prefix of the log and that the offset is in
range."""

from dataclasses import replace

from reference_impl.core.identifiers import UNDEFINED_EPOCH, ErrorCode
from reference_impl.core.partition_data import ReadResult
from reference_impl.core.replica import LocalReplica
from reference_impl.wire.record_batches import bounds


def read(
    replica: LocalReplica, fetch_offset: int, last_fetched_epoch: int, *, max_bytes: int, end_offset: int
) -> ReadResult:
    """R17 and R25. Between `end_offset` and the log end the answer is empty; beyond the log end it is an error."""
    assert 0 <= end_offset <= replica.log_end_offset
    diverging: tuple[int, int] | None = None
    if last_fetched_epoch >= 0:
        found_epoch, epoch_end = replica.log.leader_epochs.end_offset_for(last_fetched_epoch, replica.log_end_offset)
        if found_epoch == UNDEFINED_EPOCH:
            return ReadResult(error=ErrorCode.OFFSET_OUT_OF_RANGE)
        found_epoch = replica.rules.found_epoch(found_epoch, last_fetched_epoch)
        if found_epoch < last_fetched_epoch or epoch_end < fetch_offset:
            diverging = (found_epoch, epoch_end)
    if fetch_offset < replica.log_start_offset:  # checked before divergence: the common part may be deleted already
        return ReadResult(error=ErrorCode.OFFSET_OUT_OF_RANGE)
    if diverging is None and fetch_offset > replica.log_end_offset:
        return ReadResult(error=ErrorCode.OFFSET_OUT_OF_RANGE)
    records = b""
    if diverging is None and fetch_offset < end_offset:
        records = replica.log.read(fetch_offset, max_bytes, end_offset)
    return ReadResult(
        error=ErrorCode.NONE,
        records=records,
        high_watermark=replica.high_watermark,
        log_start_offset=replica.log_start_offset,
        last_stable_offset=replica.last_stable_offset,
        diverging=diverging,
    )


def read_committed(
    replica: LocalReplica, fetch_offset: int, last_fetched_epoch: int, *, max_bytes: int, end_offset: int
) -> ReadResult:
    """R69: the same, with the transactions that the reader must leave out."""
    found = read(replica, fetch_offset, last_fetched_epoch, max_bytes=max_bytes, end_offset=end_offset)
    end = max((batch.next_offset for batch in bounds(found.records)), default=fetch_offset)
    if not replica.rules.producers.lists_aborted():
        return found
    return replace(found, aborted=replica.producers.transactions.aborted(fetch_offset, end))


def epoch_at(replica: LocalReplica, offset: int) -> int:
    """The leader epoch of the record at `offset`, or -1."""
    assert offset >= 0
    epoch = UNDEFINED_EPOCH
    for entry_epoch, start_offset in replica.log.leader_epochs.entries:
        if start_offset > offset:
            break
        epoch = entry_epoch
    return epoch
