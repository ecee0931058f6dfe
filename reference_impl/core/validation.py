"""Validates a producer's batch by header and CRC alone; the errors are those of Kafka 4.3.1 (docs/batches.md).

Records are decoded only if a setting requires it (`PartitionSettings.looks_inside`). The decoding (wire.looks) happens
before, off the broker's event loop, and its result is checked here.
"""

from reference_impl.core.identifiers import ErrorCode
from reference_impl.core.partition_data import Origin
from reference_impl.wire.compression import CODECS, NONE
from reference_impl.wire.looks import Unfit
from reference_impl.wire.record_batches import (
    HEADER_SIZE,
    LENGTH_PREFIX_SIZE,
    MAGIC,
    NO_PRODUCER_ID,
    BatchHeader,
    Buffer,
    batch_length,
    crc_holds,
    read_header,
)
from reference_impl.wire.record_contents import RECORD_SIZE_MIN

_MAGIC_POSITION = 16
_BATCH_LENGTH_MIN = 14  # of any message format of Kafka

_REFUSALS_INSIDE = {
    Unfit.NOT_DECOMPRESSED: ErrorCode.UNKNOWN_SERVER_ERROR,  # Kafka's error for an exception of a codec
    Unfit.TOO_MUCH: ErrorCode.MESSAGE_TOO_LARGE,  # a producer then splits the batch
    Unfit.UNSOUND: ErrorCode.INVALID_RECORD,
}


def refusal(batches: Buffer, max_message_bytes: int, origin: Origin = Origin.CLIENT) -> ErrorCode:
    """NONE accepts the produce request; with any other error nothing of it is appended."""
    assert max_message_bytes >= 0
    error = _unless_one_batch(batches)
    if error is not ErrorCode.NONE:
        return error
    header = read_header(batches, 0)
    if header.is_transactional and origin is Origin.CLIENT:
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if header.base_offset != 0:
        return ErrorCode.INVALID_RECORD
    if header.length > max_message_bytes:
        return ErrorCode.MESSAGE_TOO_LARGE
    if not crc_holds(batches, header):
        return ErrorCode.CORRUPT_MESSAGE
    if header.compression not in CODECS:
        return ErrorCode.UNKNOWN_SERVER_ERROR
    if not _counts_agree(header) or header.is_control:  # only a coordinator may write control batches
        return ErrorCode.INVALID_RECORD
    return _unless_numbered(header)


def _unless_one_batch(batches: Buffer) -> ErrorCode:
    """Since Produce v3 a partition gets exactly one batch per request (KIP-98)."""
    if len(batches) <= _MAGIC_POSITION:
        return ErrorCode.INVALID_RECORD
    length = batch_length(batches)
    if length - LENGTH_PREFIX_SIZE < _BATCH_LENGTH_MIN or batches[_MAGIC_POSITION] > MAGIC:
        return ErrorCode.CORRUPT_MESSAGE
    if length != len(batches) or batches[_MAGIC_POSITION] < MAGIC:
        return ErrorCode.INVALID_RECORD
    return ErrorCode.NONE if length >= HEADER_SIZE else ErrorCode.CORRUPT_MESSAGE


def _counts_agree(header: BatchHeader) -> bool:
    """True if the counts agree with each other and the batch has room for that many records."""
    least_size = RECORD_SIZE_MIN * header.record_count if header.compression == NONE else 1
    return (
        header.record_count >= 1
        and header.last_offset_delta == header.record_count - 1
        and header.length - HEADER_SIZE >= least_size
    )


def _unless_numbered(header: BatchHeader) -> ErrorCode:
    """A batch of an idempotent producer has sequence numbers and a producer epoch."""
    if header.producer_id == NO_PRODUCER_ID:
        return ErrorCode.INVALID_RECORD if header.is_transactional else ErrorCode.NONE
    if header.producer_id < NO_PRODUCER_ID or header.base_sequence < 0:
        return ErrorCode.INVALID_RECORD
    return ErrorCode.NONE if header.producer_epoch >= 0 else ErrorCode.INVALID_PRODUCER_EPOCH


def refusal_inside(unfit: Unfit) -> ErrorCode:
    return _REFUSALS_INSIDE[unfit]
