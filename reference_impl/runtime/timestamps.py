"""Lookup of offsets by time: the one place of the broker's client-facing side that decodes records. It is asked
rarely, so it scans batch headers and decodes only the batch that holds the answer."""

from typing import NamedTuple

from kafka.record import MemoryRecords

from reference_impl.wire.record_batches import BatchHeader, parse_headers


class TimedOffset(NamedTuple):
    offset: int
    timestamp: int
    leader_epoch: int


def first_at_or_after(batches: bytes, timestamp: int) -> TimedOffset | None:
    for header in parse_headers(batches):
        if header.max_timestamp >= timestamp:
            for offset, record_timestamp in _records(batches, header):
                if record_timestamp >= timestamp:
                    return TimedOffset(offset, record_timestamp, header.leader_epoch)
    return None


def latest_timestamp(batches: bytes) -> TimedOffset | None:
    headers = parse_headers(batches)
    if not headers:
        return None
    newest = max(headers, key=lambda header: header.max_timestamp)
    return next(
        (
            TimedOffset(offset, timestamp, newest.leader_epoch)
            for offset, timestamp in _records(batches, newest)
            if timestamp == newest.max_timestamp
        ),
        None,
    )


def _records(batches: bytes, header: BatchHeader) -> list[tuple[int, int]]:
    batch = MemoryRecords(batches[header.position : header.position + header.length]).next_batch()
    return [(record.offset, record.timestamp) for record in batch] if batch is not None else []
