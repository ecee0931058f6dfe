"""Reading a replica's log for a fetch: is the reader's history a prefix of ours, is the offset in range, the bytes."""

from reference_impl.core.identifiers import UNDEFINED_EPOCH, ErrorCode
from reference_impl.core.partition_data import ReadResult
from reference_impl.core.replica import LocalReplica


def read(
    replica: LocalReplica, fetch_offset: int, last_fetched_epoch: int, *, max_bytes: int, end_offset: int
) -> ReadResult:
    """1.6 steps 3 and 4. Between `end_offset` and the log end there is nothing to see yet; beyond is an error."""
    diverging: tuple[int, int] | None = None
    if last_fetched_epoch >= 0:
        found_epoch, epoch_end = replica.log.leader_epochs.end_offset_for(last_fetched_epoch, replica.log_end_offset)
        if found_epoch == UNDEFINED_EPOCH:
            return ReadResult(error=ErrorCode.OFFSET_OUT_OF_RANGE)
        if found_epoch < last_fetched_epoch or epoch_end < fetch_offset:
            diverging = (found_epoch, epoch_end)
    if fetch_offset < replica.log_start_offset:  # before divergence: the shared part may be gone already
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
        last_stable_offset=replica.high_watermark,  # no transactions here: nothing is ever open
        diverging=diverging,
    )


def epoch_at(replica: LocalReplica, offset: int) -> int:
    """The leader epoch that record `offset` has, or -1."""
    epoch = UNDEFINED_EPOCH
    for entry_epoch, start_offset in replica.log.leader_epochs.entries:
        if start_offset > offset:
            break
        epoch = entry_epoch
    return epoch
