"""What a leader accepts from a producer, by batch header and CRC alone: records are never decoded (DESIGN 7)."""

from reference_impl.core.identifiers import ErrorCode
from reference_impl.wire.record_batches import (
    MAGIC,
    NO_PRODUCER_ID,
    BatchHeader,
    Buffer,
    CorruptBatch,
    parse_headers,
    validate,
)


def refusal(batches: Buffer, max_message_bytes: int) -> ErrorCode:
    """NONE for an acceptable produce; every other answer means that nothing of it is appended."""
    headers = parse_headers(batches)
    if any(header.length > max_message_bytes for header in headers):
        return ErrorCode.MESSAGE_TOO_LARGE
    if any(header.magic != MAGIC for header in headers):
        return ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT
    try:
        validate(batches)
    except CorruptBatch:
        return ErrorCode.CORRUPT_MESSAGE
    if len(headers) != 1:  # since Produce v3 there is exactly one batch for a partition (KIP-98)
        return ErrorCode.INVALID_RECORD
    return ErrorCode.NONE if _is_from_a_plain_producer(headers[0]) else ErrorCode.INVALID_RECORD


def _is_from_a_plain_producer(header: BatchHeader) -> bool:
    """Control batches are a coordinator's to write, transactions are not served here, and an idempotent producer
    numbers its batches."""
    if header.is_control or header.is_transactional:
        return False
    return header.producer_id == NO_PRODUCER_ID or header.base_sequence >= 0
