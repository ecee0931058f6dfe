"""Record timestamps, compared with what kafka-python reads from the same bytes."""

import pytest
from kafka.record import MemoryRecords, MemoryRecordsBuilder

from reference_impl.wire.record_batches import parse_headers, stamp, validate
from reference_impl.wire.record_timestamps import (
    TimedOffset,
    first_at_or_after,
    record_times,
    stamp_append_time,
    youngest,
)

GZIP = 1


def batch_of(*times: int, base_offset: int = 0, epoch: int = 0, compression: int = 0) -> bytearray:
    builder = MemoryRecordsBuilder(magic=2, compression_type=compression, batch_size=1 << 20)
    for number, time in enumerate(times):
        builder.append(timestamp=time, key=None, value=b"v%d" % number)
    builder.close()
    made = bytearray(builder.buffer())
    stamp(made, 0, base_offset, epoch)
    return made


@pytest.mark.parametrize("compression", [0, GZIP])
def test_the_times_of_a_batch_are_those_its_producer_wrote(compression: int) -> None:
    batch = batch_of(30, 10, 20, base_offset=7, compression=compression)
    assert list(record_times(batch, parse_headers(batch)[0])) == [(7, 30), (8, 10), (9, 20)]


@pytest.mark.parametrize("compression", [0, GZIP])
def test_an_append_time_is_read_by_others_as_the_time_of_every_record(compression: int) -> None:
    batch = batch_of(30, 10, 20, compression=compression)
    stamp_append_time(batch, parse_headers(batch)[0], 99)
    validate(batch)
    read = MemoryRecords(bytes(batch)).next_batch()
    assert read.validate_crc()
    records = list(read)
    assert [(record.timestamp, record.timestamp_type) for record in records] == [(99, 1)] * 3
    assert [record.value for record in records] == [b"v0", b"v1", b"v2"]
    assert list(record_times(batch, parse_headers(batch)[0])) == [(0, 99), (1, 99), (2, 99)]


def test_the_second_of_two_batches_is_stamped_alone() -> None:
    batches = batch_of(1) + batch_of(2, 3, base_offset=1)
    first, second = parse_headers(batches)
    stamp_append_time(batches, second, 50)
    validate(batches)
    assert [header.max_timestamp for header in parse_headers(batches)] == [1, 50]
    assert parse_headers(batches)[0] == first


def test_the_first_record_as_young_as_asked_may_stand_before_older_ones() -> None:
    batch = batch_of(5, 9, 7, base_offset=3, epoch=1)
    assert first_at_or_after(batch, 6) == TimedOffset(4, 9, 1)
    assert first_at_or_after(batch, 6, from_offset=5) == TimedOffset(5, 7, 1)
    assert first_at_or_after(batch, 10) is None


def test_of_several_youngest_records_the_first_counts() -> None:
    batch = batch_of(5, 9, 9, 7, base_offset=3, epoch=1)
    assert youngest(batch) == TimedOffset(4, 9, 1)
    assert youngest(batch, from_offset=6) == TimedOffset(6, 7, 1)
    assert youngest(batch, from_offset=7) is None
