"""Record batches of every format and compression, built by Kafka's own builders and by real brokers."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record import MemoryRecordsBuilder
from kafka.record.util import calc_crc32, calc_crc32c

from harness.cluster.record_batches import batches, end_of, open_transactions, records_of
from harness.errors import HarnessError
from harness.host.record_codecs import GZIP, LZ4, SNAPPY, ZSTD, decompress
from harness.ports.cluster import LogRecord

_DATA = Path(__file__).parent / "data" / "segments"
_NO_EPOCH = -1


@dataclass(frozen=True, kw_only=True)
class Made:
    """Some batches' bytes, the records in them, and the offset after them."""

    content: bytes
    records: tuple[LogRecord, ...]
    end: int


def batch_v2(base: int, values: Sequence[bytes], *, epoch: int = 0, codec: int = 0, control: bool = False) -> Made:
    builder = MemoryRecordsBuilder(
        magic=2,
        compression_type=0,
        batch_size=1 << 20,
        transactional=control,
        producer_id=7 if control else -1,
        producer_epoch=0 if control else -1,
        base_sequence=0 if control else -1,
    )
    for value in values:
        builder.append(timestamp=1, key=None, value=value)
    builder.close()
    made = bytearray(builder.buffer())
    if codec:
        made[61:] = _compressed(codec, bytes(made[61:]))
    struct.pack_into(">qii", made, 0, base, len(made) - 12, epoch)  # none of them is under the checksum
    (attributes,) = struct.unpack_from(">h", made, 21)
    struct.pack_into(">h", made, 21, attributes | codec | (0x20 if control else 0))
    struct.pack_into(">I", made, 17, calc_crc32c(bytes(made[21:])))
    reported = () if control else tuple(_record(base + n, value, epoch) for n, value in enumerate(values))
    return Made(content=bytes(made), records=reported, end=base + len(values))


def old_set(base: int, values: Sequence[bytes], *, magic: int, codec: int = 0) -> Made:
    """Records of magic 0 or 1, one after the other or compressed into one, as a broker stores them."""
    reported = tuple(_record(base + n, value, _NO_EPOCH) for n, value in enumerate(values))
    if not codec:
        content = b"".join(_old(base + n, value, magic=magic) for n, value in enumerate(values))
    else:
        first = 0 if magic else base  # magic 1 counts within the set
        inner = b"".join(_old(first + n, value, magic=magic) for n, value in enumerate(values))
        content = _old(base + len(values) - 1, _compressed(codec, inner), magic=magic, codec=codec)
    return Made(content=content, records=reported, end=base + len(values))


def _old(offset: int, value: bytes, *, magic: int, codec: int = 0) -> bytes:
    builder = MemoryRecordsBuilder(magic=magic, compression_type=0, batch_size=1 << 20, offset=offset)
    builder.append(timestamp=1, key=None, value=value)
    builder.close()
    made = bytearray(builder.buffer())
    made[17] |= codec
    struct.pack_into(">I", made, 12, calc_crc32(bytes(made[16:])))
    return bytes(made)


def _compressed(codec: int, data: bytes) -> bytes:
    if codec == SNAPPY:
        return bytes(pa.compress(data, "snappy", asbytes=True))
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, {GZIP: "gzip", LZ4: "lz4", ZSTD: "zstd"}[codec]) as stream:
        stream.write(data)
    return bytes(sink.getvalue().to_pybytes())


def _record(offset: int, value: bytes, epoch: int) -> LogRecord:
    return LogRecord(offset=offset, epoch=epoch, value=value)


_values = st.lists(st.binary(max_size=40), min_size=1, max_size=5)


@st.composite
def logs(draw: st.DrawFn) -> list[Made]:
    """Batches of mixed formats with gaps between them, as in a log that was upgraded and compacted."""
    made, offset = [], draw(st.integers(0, 1000))
    for _ in range(draw(st.integers(1, 6))):
        values, magic = draw(_values), draw(st.sampled_from([0, 1, 2]))
        if magic == 2:
            codec = draw(st.sampled_from([0, GZIP, SNAPPY, LZ4, ZSTD]))
            made.append(
                batch_v2(offset, values, epoch=draw(st.integers(0, 9)), codec=codec, control=draw(st.booleans()))
            )
        else:
            # In magic 0 the header of LZ4 frames was wrong: seen on a real segment below.
            made.append(
                old_set(offset, values, magic=magic, codec=draw(st.sampled_from([0, GZIP, SNAPPY, *([LZ4] * magic)])))
            )
        offset = made[-1].end + draw(st.integers(0, 3))
    return made


@given(logs())
def test_every_format_is_read_to_its_end(made: list[Made]) -> None:
    content = b"".join(part.content for part in made)
    assert list(records_of(content)) == [record for part in made for record in part.records]
    assert end_of(batches(content)) == made[-1].end


@dataclass(frozen=True)
class Written:
    """One batch of a producer: plain, of a transaction, or its marker."""

    producer: int
    kind: Literal["plain", "transactional", "marker"]
    records: int


def written(each: Written, base: int) -> bytes:
    builder = MemoryRecordsBuilder(
        magic=2,
        compression_type=0,
        batch_size=1 << 20,
        transactional=each.kind != "plain",
        producer_id=each.producer,
        producer_epoch=3,
        base_sequence=0,
    )
    for _ in range(each.records):
        builder.append(timestamp=1_000 + base, key=None, value=b"v")
    builder.close()
    made = bytearray(builder.buffer())
    struct.pack_into(">qi", made, 0, base, len(made) - 12)
    (attributes,) = struct.unpack_from(">h", made, 21)
    struct.pack_into(">h", made, 21, attributes | (0x20 if each.kind == "marker" else 0))
    struct.pack_into(">I", made, 17, calc_crc32c(bytes(made[21:])))
    return bytes(made)


KINDS = st.sampled_from(("plain", "transactional", "transactional", "marker"))


@given(st.lists(st.builds(Written, st.integers(0, 2), KINDS, st.integers(1, 3)), max_size=12))
def test_a_transaction_is_open_from_its_first_record_until_a_marker_of_its_producer(log: list[Written]) -> None:
    opened: dict[int, tuple[int, int, int]] = {}
    content, end = b"", 0
    for each in log:
        content += written(each, end)
        if each.kind == "marker":
            opened.pop(each.producer, None)
        elif each.kind == "transactional":
            first, _, wall_ms = opened.get(each.producer, (end, end, 1_000 + end))
            opened[each.producer] = first, end + each.records - 1, wall_ms
        end += each.records

    found = open_transactions(content)

    assert [each.first_offset for each in found] == sorted(each.first_offset for each in found)
    producers = {each.producer_id: (each.first_offset, each.last_offset, each.wall_ms) for each in found}
    assert producers == opened
    assert {each.producer_epoch for each in found} <= {3}


@given(logs(), st.data())
def test_a_log_ends_where_it_was_torn_or_filled_with_zeros(made: list[Made], data: st.DataObject) -> None:
    content = b"".join(part.content for part in made)
    length = data.draw(st.integers(0, len(content)))
    filled = content[:length] + bytes(data.draw(st.sampled_from([0, 1, 13, 61, 500])))
    # What was torn off may have been zeros, too.
    whole = [batch.stop for batch in batches(content) if filled[: batch.stop] == content[: batch.stop]]
    assert list(records_of(filled)) == _expected(made, whole[-1] if whole else 0)
    assert end_of(batches(content[:length])) == _end_within(content, length)


def _end_within(content: bytes, length: int) -> int | None:
    ends = [batch.next_offset for batch in batches(content) if batch.stop <= length]
    return ends[-1] if ends else None


def _expected(made: list[Made], stop: int) -> list[LogRecord]:
    """The records that lie before `stop`: those of magic 0 and 1 without compression are batches of their own."""
    content = b"".join(part.content for part in made)
    end = _end_within(content, stop)
    return [] if end is None else [r for part in made for r in part.records if r.offset < end]


@given(logs(), st.data())
def test_a_flipped_bit_ends_the_records_and_never_makes_other_ones(made: list[Made], data: st.DataObject) -> None:
    content = bytearray(b"".join(part.content for part in made))
    position = data.draw(st.integers(0, len(content) - 1))
    batch = next(batch for batch in batches(bytes(content)) if batch.start <= position < batch.stop)
    if position - batch.start < 12 + 4 * (batch.magic == 2):
        return  # offset, length, and the epoch of magic 2 are not under the checksum
    content[position] ^= 1 << data.draw(st.integers(0, 7))
    before = [r for part in made for r in part.records if r.offset < _first(made, batch.start)]
    assert list(records_of(bytes(content))) == before


def _first(made: list[Made], start: int) -> int:
    end = _end_within(b"".join(part.content for part in made), start)
    return 0 if end is None else end


@pytest.mark.parametrize("junk", [b"\xff" * 70, b"\x00" * 70, b"\x00" * 8 + b"\x7f\xff\xff\xff" + b"\x02" * 60])
def test_junk_is_no_batch(junk: bytes) -> None:
    whole = batch_v2(0, [b"a"])
    assert end_of(batches(whole.content + junk)) == 1
    assert [record.value for record in records_of(whole.content + junk)] == [b"a"]
    assert end_of(batches(junk)) is None


def test_snappy_in_the_java_librarys_frames_is_read() -> None:
    blocks = [bytes(pa.compress(part, "snappy", asbytes=True)) for part in (b"ab" * 50, b"c")]
    framed = b"\x82SNAPPY\x00" + bytes(8) + b"".join(struct.pack(">i", len(block)) + block for block in blocks)
    assert decompress(SNAPPY, framed) == b"ab" * 50 + b"c"


def test_an_unknown_compression_is_refused() -> None:
    with pytest.raises(ValueError, match="compression 5"):
        decompress(5, b"")


@pytest.mark.parametrize(
    ("version", "epoch", "codecs"),
    [
        ("0.9.0.1", _NO_EPOCH, ("none", "gzip", "lz4")),
        ("0.10.2.2", _NO_EPOCH, ("none", "gzip", "snappy", "lz4")),
        ("4.3.1", 0, ("none", "gzip", "snappy", "lz4", "zstd")),
    ],
)
def test_segments_of_real_brokers_are_read(version: str, epoch: int, codecs: tuple[str, ...]) -> None:
    """Four records of each compression, sent with Kafka's console producer; magic 0, 1 and 2."""
    values = [f"{codec}-{number}".encode() for codec in codecs for number in range(4)]
    content = (_DATA / f"{version}.log").read_bytes()
    assert list(records_of(content)) == [_record(offset, value, epoch) for offset, value in enumerate(values)]
    assert end_of(batches(content)) == len(values)


def _made_so(codec: int, records: bytes) -> bytes:
    """A batch whose checksum holds whatever its records are."""
    body = struct.pack(">hiqqqhii", codec, 0, 0, 0, -1, -1, -1, 1) + records
    rest = struct.pack(">ibI", 0, 2, calc_crc32c(body)) + body
    return struct.pack(">qi", 0, len(rest)) + rest


@pytest.mark.parametrize(
    ("codec", "records"),
    [
        pytest.param(0, b"\xff" * 40, id="no records"),
        pytest.param(0, b"", id="fewer than it says"),
        pytest.param(GZIP, _compressed(GZIP, b"x" * 1000)[:-12], id="gzip that is cut short"),
        pytest.param(GZIP, _compressed(GZIP, b"x" * 1000)[:10] + b"\xff" * 20, id="gzip that is damaged"),
        pytest.param(GZIP, b"no gzip", id="no gzip"),
    ],
)
def test_a_batch_that_was_made_to_break_its_reader_is_an_error_of_ours(codec: int, records: bytes) -> None:
    with pytest.raises(ValueError, match=r"no sound gzip|holds no records"):
        list(records_of(_made_so(codec, records)))


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_a_batch_that_unpacks_to_more_than_is_allowed_is_refused(codec: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.host.memory._allowed_mb", 1)
    bomb = _made_so(codec, _compressed(codec, bytes(4 << 20)))

    with pytest.raises(HarnessError, match=r"a compressed batch of records would take about \d MB"):
        list(records_of(bomb))
