"""Record batch headers, tested with batches from kafka-python's builders."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record import MemoryRecords, MemoryRecordsBuilder

from reference_impl.wire.record_batches import (
    HEADER_SIZE,
    CorruptBatch,
    bounds,
    parse_headers,
    read_header,
    scan,
    stamp,
    validate,
)

MakeBatch = Callable[..., bytes]


def test_a_header_says_what_the_builder_put_in() -> None:
    builder = MemoryRecordsBuilder(
        magic=2,
        compression_type=0,
        batch_size=4096,
        transactional=True,
        producer_id=77,
        producer_epoch=3,
        base_sequence=9,
    )
    for number in range(3):
        builder.append(timestamp=1000 + number, key=b"k", value=b"v")
    builder.close()
    (header,) = parse_headers(builder.buffer())
    assert (header.position, header.length) == (0, len(builder.buffer()))
    assert (header.magic, header.record_count, header.last_offset_delta) == (2, 3, 2)
    assert (header.base_timestamp, header.max_timestamp) == (1000, 1002)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (77, 3, 9)
    assert header.is_transactional
    assert not header.is_control


def test_stamping_changes_offset_and_epoch_and_keeps_the_crc_right(make_batch: MakeBatch) -> None:
    data = bytearray(make_batch(0, b"a", b"b") + make_batch(2, b"c"))
    second = parse_headers(data)[1]
    stamp(data, second.position, 500, 7)
    validate(data)
    header = parse_headers(data)[1]
    assert (header.base_offset, header.last_offset, header.next_offset, header.leader_epoch) == (500, 500, 501, 7)
    assert parse_headers(data)[0].base_offset == 0
    records = MemoryRecords(bytes(data))
    offsets = [record.offset for batch in iter(records.next_batch, None) for record in batch]
    assert offsets == [0, 1, 500]


@pytest.mark.parametrize("compression", [0, 1])
def test_a_compressed_batch_is_validated_without_decoding(make_batch: MakeBatch, compression: int) -> None:
    data = make_batch(5, b"x" * 500, b"y" * 500, compression=compression)
    validate(data)
    assert parse_headers(data)[0].compression == compression


def test_no_batch_at_all_is_sound() -> None:
    validate(b"")
    assert parse_headers(b"") == []
    assert scan(b"") == ([], 0)


def test_a_scan_stops_before_a_torn_batch_wherever_it_is_torn(make_batch: MakeBatch) -> None:
    first, second = make_batch(0, b"one"), make_batch(1, b"two")
    for size in range(len(second)):
        data = first + second[:size]
        headers, valid_bytes = scan(data)
        assert [header.base_offset for header in headers] == [0]
        assert valid_bytes == len(first)
        if size:
            with pytest.raises(CorruptBatch) as caught:
                validate(data)
            assert caught.value.position == len(first)


def test_a_scan_stops_at_zeros(make_batch: MakeBatch) -> None:
    first = make_batch(0, b"one")
    assert scan(first + bytes(500))[1] == len(first)


def test_every_flipped_bit_that_the_crc_covers_is_found(make_batch: MakeBatch) -> None:
    data = make_batch(0, b"abcdef")
    for position in range(17, len(data)):
        damaged = bytearray(data)
        damaged[position] ^= 0x10
        with pytest.raises(CorruptBatch):
            validate(damaged)


@pytest.mark.parametrize("magic", [0, 1])
def test_an_old_message_set_is_refused_by_its_name(magic: int) -> None:
    builder = MemoryRecordsBuilder(magic=magic, compression_type=0, batch_size=4096)
    builder.append(timestamp=1, key=None, value=b"old")
    builder.close()
    with pytest.raises(CorruptBatch, match=f"magic {magic}"):
        validate(builder.buffer())


def test_counts_that_disagree_are_refused(make_batch: MakeBatch) -> None:
    data = bytearray(make_batch(0, b"a", b"b"))
    data[57:61] = (3).to_bytes(4, "big")
    with pytest.raises(CorruptBatch, match="3 records"):
        validate(data)


@given(st.binary(max_size=300))
def test_arbitrary_bytes_never_raise_anything_but_corrupt_batch(data: bytes) -> None:
    headers, valid_bytes = scan(data)
    assert valid_bytes <= len(data)
    assert [batch.position for batch in bounds(data)] == [header.position for header in headers]
    try:
        validate(data)
    except CorruptBatch:
        return
    assert valid_bytes == len(data)


def test_a_header_is_read_at_any_place(make_batch: MakeBatch) -> None:
    data = b"junk" + make_batch(9, b"a")
    assert read_header(data, 4).base_offset == 9
    assert read_header(data, 4).length == len(data) - 4 > HEADER_SIZE
