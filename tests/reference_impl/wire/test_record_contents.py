"""Decoded batches of every codec equal what kafka-python's builder was given, and decoding is bounded."""

import gzip

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record import MemoryRecordsBuilder

from reference_impl.wire import compression, record_contents
from reference_impl.wire.compression import (
    DECOMPRESSED_MAX_BYTES,
    GZIP,
    LZ4,
    SNAPPY,
    ZSTD,
    NotDecompressed,
    TooMuchInside,
    UnreadableRecords,
    decompress,
)
from reference_impl.wire.looks import Unfit, look_at
from reference_impl.wire.record_batches import HEADER_SIZE, parse_headers
from reference_impl.wire.record_contents import RECORDS_MAX, records
from tests.reference_impl.odd_batches import COMPRESS, THREE, batch, packed, record

Entry = tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]

_headers = st.lists(st.tuples(st.text(max_size=20), st.none() | st.binary(max_size=20)), max_size=3)
_records = st.lists(
    st.tuples(
        st.integers(0, 2**45),
        st.none() | st.binary(max_size=200),
        st.none() | st.binary(max_size=200),
        _headers,
    ),
    min_size=1,
    max_size=20,
)
_codecs = st.sampled_from(["none", *COMPRESS])


def built(entries: list[Entry]) -> bytes:
    builder = MemoryRecordsBuilder(magic=2, compression_type=0, batch_size=1 << 20)
    for timestamp, key, value, headers in entries:
        builder.append(timestamp=timestamp, key=key, value=value, headers=headers)
    builder.close()
    return bytes(builder.buffer())


def recompressed(plain: bytes, name: str) -> bytes:
    if name == "none":
        return plain
    (header,) = parse_headers(plain)
    return packed(name, plain[HEADER_SIZE:], header.record_count, base_time=header.base_timestamp)


@given(entries=_records, name=_codecs)
def test_offsets_and_times_are_what_was_put_in(entries: list[Entry], name: str) -> None:
    data = recompressed(built(entries), name)
    times = [entry[0] for entry in entries]

    assert [entry[:2] for entry in records(data, parse_headers(data)[0])] == list(enumerate(times))
    assert look_at(data).unfit is None
    assert (look_at(data).oldest, look_at(data).youngest) == (min(times), max(times))


@given(entries=_records, name=_codecs, position=st.integers(0, 10_000), replacement=st.binary(max_size=6))
def test_a_look_at_damage_finds_records_or_says_why_not_and_raises_nothing(
    entries: list[Entry], name: str, position: int, replacement: bytes
) -> None:
    data = recompressed(built(entries), name)
    start = HEADER_SIZE + position % (len(data) - HEADER_SIZE)
    damaged = (data[:start] + replacement + data[start + len(replacement) :])[: len(data)]
    found = look_at(damaged)
    assert found.unfit in (None, *Unfit)
    (header,) = parse_headers(damaged)
    try:
        assert all(-(2**63) <= time < 2**63 for _, time, _ in records(damaged, header))
    except UnreadableRecords:
        assert found.unfit is not None


@pytest.mark.parametrize("name", COMPRESS)
def test_more_than_is_allowed_is_said_and_not_made(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compression, "DECOMPRESSED_MAX_BYTES", 1 << 20)
    codec, compress = COMPRESS[name]
    assert decompress(codec, compress(bytes(1 << 20))) == bytes(1 << 20)
    with pytest.raises(TooMuchInside, match="more than 1048576 bytes"):
        decompress(codec, compress(bytes((1 << 20) + 1)))


@pytest.mark.parametrize("codec", [GZIP, LZ4, ZSTD])
def test_a_gigabyte_in_a_megabyte_takes_the_room_that_is_allowed_and_no_more(codec: int) -> None:
    module = {GZIP: cramjam.gzip, LZ4: cramjam.lz4, ZSTD: cramjam.zstd}[codec]
    piece = bytes(module.compress(bytes(DECOMPRESSED_MAX_BYTES)))
    with pytest.raises(TooMuchInside):
        decompress(codec, piece * 16)


def test_a_snappy_block_that_claims_four_gigabytes_is_not_believed() -> None:
    with pytest.raises(TooMuchInside):
        decompress(SNAPPY, b"\xff\xff\xff\xff\x0f" + b"x" * 50)


@pytest.mark.parametrize("length", [b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x00\x00\x00\x00", b"\x00"])
def test_blocks_of_snappy_stay_within_their_batch(length: bytes) -> None:
    with pytest.raises(NotDecompressed):
        decompress(SNAPPY, b"\x82SNAPPY\0" + bytes(8) + length)


def test_members_of_gzip_one_behind_the_other_are_one_content() -> None:
    data = batch(gzip.compress(THREE[:9]) + gzip.compress(THREE[9:]), attributes=GZIP)
    assert look_at(data).unfit is None


def test_more_records_than_are_looked_at_are_refused_before_the_first_one() -> None:
    data = packed("zstd", THREE, RECORDS_MAX + 1)
    with pytest.raises(TooMuchInside):
        next(records(data, parse_headers(data)[0]))
    assert look_at(data).unfit is Unfit.TOO_MUCH


def test_records_without_a_time_are_neither_old_nor_young() -> None:
    found = look_at(batch(record(0) + record(1, time_delta=8), 2, base_time=-1))
    assert (found.oldest, found.youngest) == (7, 7)
    found = look_at(batch(record(0), 1, base_time=-1))
    assert (found.oldest, found.youngest) == (-1, -1)


@pytest.mark.parametrize("base_time", [2**63 - 1, -(2**63)])
def test_a_time_that_no_answer_could_carry_is_none(base_time: int) -> None:
    data = batch(record(0, time_delta=1 if base_time > 0 else -1), 1, base_time=base_time)
    assert look_at(data).unfit is Unfit.UNSOUND
    with pytest.raises(record_contents.UnsoundRecords):
        list(records(data, parse_headers(data)[0]))
