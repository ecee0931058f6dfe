"""Hand-made batches that no client produces, and the result of each: on Kafka 4.3.1 as measured (tests/interop), on the
reference by header alone, and with reference.validate.records. docs/batches.md is generated from this."""

import struct
import time
from collections.abc import Callable
from dataclasses import dataclass

import cramjam
import crc32c

from reference_impl.core.identifiers import ErrorCode
from reference_impl.wire.compression import GZIP, LZ4, SNAPPY, ZSTD

NOW_MS = time.time_ns() // 1_000_000
FAR_MS = 10_000_000_000  # beyond message.timestamp.after.max.ms
HUGE = 1_100_000  # bytes: beyond max.message.bytes

OK = ErrorCode.NONE
CORRUPT = ErrorCode.CORRUPT_MESSAGE
INVALID = ErrorCode.INVALID_RECORD
UNKNOWN = ErrorCode.UNKNOWN_SERVER_ERROR
TOO_LARGE = ErrorCode.MESSAGE_TOO_LARGE
BAD_TIME = ErrorCode.INVALID_TIMESTAMP
BAD_EPOCH = ErrorCode.INVALID_PRODUCER_EPOCH
NO_TRANSACTION = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def varint(value: int) -> bytes:
    value = (value << 1 ^ value >> 63) & (1 << 64) - 1
    made = bytearray()
    while value >= 0x80:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*made, value])


def field(content: bytes | None) -> bytes:
    return varint(-1) if content is None else varint(len(content)) + content


def record(
    offset_delta: int,
    *,
    value: bytes = b"value",
    time_delta: int = 0,
    headers: bytes = b"\0",
    length: int | None = None,
) -> bytes:
    body = b"\0" + varint(time_delta) + varint(offset_delta) + field(None) + field(value) + headers
    return varint(len(body) if length is None else length) + body


def batch(
    content: bytes,
    count: int = 3,
    last_offset_delta: int | None = None,
    *,
    attributes: int = 0,
    base_offset: int = 0,
    magic: int = 2,
    base_time: int = NOW_MS,
    max_time: int | None = None,
    producer: tuple[int, int, int] = (-1, -1, -1),  # id, epoch, base sequence
    length: int | None = None,
    crc: int | None = None,
) -> bytes:
    last = count - 1 if last_offset_delta is None else last_offset_delta
    youngest = base_time if max_time is None else max_time
    covered = struct.pack(">hiqqqhii", attributes, last, base_time, youngest, *producer, count) + content
    size = 9 + len(covered) if length is None else length
    checksum = crc32c.crc32c(covered) if crc is None else crc
    return struct.pack(">qiibI", base_offset, size, -1, magic, checksum) + covered


def _lz4(content: bytes) -> bytes:
    """In independent blocks, as Kafka's clients make it."""
    compressor = cramjam.lz4.Compressor(content_checksum=False, block_linked=False)
    compressor.compress(content)
    return bytes(compressor.finish())


def _xerial(content: bytes) -> bytes:
    block = bytes(cramjam.snappy.compress_raw(content))
    return b"\x82SNAPPY\0" + struct.pack(">iii", 1, 1, len(block)) + block


COMPRESS: dict[str, tuple[int, Callable[[bytes], bytes]]] = {
    "gzip": (GZIP, lambda content: bytes(cramjam.gzip.compress(content))),
    "snappy": (SNAPPY, _xerial),
    "raw snappy": (SNAPPY, lambda content: bytes(cramjam.snappy.compress_raw(content))),
    "lz4": (LZ4, _lz4),
    "zstd": (ZSTD, lambda content: bytes(cramjam.zstd.compress(content))),
}


def packed(
    name: str,
    content: bytes,
    count: int = 3,
    *,
    base_time: int = NOW_MS,
    max_time: int | None = None,
    behind: bytes = b"",
) -> bytes:
    codec, compress = COMPRESS[name]
    return batch(compress(content) + behind, count, attributes=codec, base_time=base_time, max_time=max_time)


THREE = record(0) + record(1) + record(2)
SOUND = batch(THREE)
GARBAGE = b"\xfe\xff\x12garbage garbage" * 3


@dataclass(frozen=True, kw_only=True)
class Case:
    what: str
    data: bytes
    kafka: ErrorCode
    header: ErrorCode  # what the reference says by the header alone
    inside: ErrorCode | None = None  # with a look inside; None: the same

    @property
    def looked_at(self) -> ErrorCode:
        return self.header if self.inside is None else self.inside


def _case(what: str, data: bytes, kafka: ErrorCode, header: ErrorCode, inside: ErrorCode | None = None) -> Case:
    return Case(what=what, data=data, kafka=kafka, header=header, inside=inside)


_SOUND = [
    _case("three records", SOUND, OK, OK),
    *(_case(f"three records, {name}", packed(name, THREE), OK, OK) for name in COMPRESS),
    _case("a producer id, epoch 0, sequence 0", batch(THREE, producer=(5000, 0, 0)), OK, OK),
    _case("no producer id, yet a sequence", batch(THREE, producer=(-1, 3, 5)), OK, OK),
    _case("attribute bits that mean nothing", batch(THREE, attributes=0x4000), OK, OK),
]

_COUNTS = [
    _case("a count of 1000 over 3 records", batch(THREE, 1000, 2), INVALID, INVALID),
    _case("a count of 1000 and its offsets over 3 records", batch(THREE, 1000), INVALID, INVALID),
    _case("a count of 3 over 1000 offsets", batch(THREE, 3, 999), INVALID, INVALID),
    _case("a count of 2 over 3 records", batch(THREE, 2), INVALID, OK, INVALID),
    _case("a count of 4 over 3 records", batch(THREE, 4), INVALID, OK, INVALID),
    _case("no record", batch(b"", 0), INVALID, INVALID),
    _case("a count of 0 over 3 records", batch(THREE, 0, 2), INVALID, INVALID),
    _case("a count of -1", batch(THREE, -1), INVALID, INVALID),
    _case("a last offset delta of -1", batch(THREE, 3, -1), INVALID, INVALID),
    _case("the largest count there is", batch(THREE, 2**31 - 1), INVALID, INVALID),
    *(
        _case(f"a count of 1000 over 3 records, {name}", packed(name, THREE, 1000), INVALID, OK, INVALID)
        for name in COMPRESS
    ),
]

_CODECS = [
    *(_case(f"codec {codec}", batch(THREE, attributes=codec), UNKNOWN, UNKNOWN) for codec in (5, 6, 7)),
    *(
        _case(f"bytes that are not {name}", batch(GARBAGE, attributes=codec), UNKNOWN, OK, UNKNOWN)
        for name, (codec, _) in COMPRESS.items()
        if name != "raw snappy"
    ),
    _case("nothing behind the header, gzip", batch(b"", attributes=GZIP), UNKNOWN, INVALID),
    _case("nothing behind the header, zstd", batch(b"", attributes=ZSTD), INVALID, INVALID),
    _case("bytes behind what is compressed, gzip", packed("gzip", THREE, behind=b"behind"), OK, OK, UNKNOWN),
    _case("bytes behind what is compressed, zstd", packed("zstd", THREE, behind=b"behind"), UNKNOWN, OK, UNKNOWN),
    _case("bytes behind the last record, gzip", packed("gzip", THREE + b"behind"), INVALID, OK, INVALID),
    _case("offset deltas 0, 2, 4, gzip", packed("gzip", record(0) + record(2) + record(4)), UNKNOWN, OK, INVALID),
]

_RECORDS = [
    _case("garbage under a valid CRC", batch(GARBAGE), INVALID, OK, INVALID),
    _case("zeros under a valid CRC", batch(bytes(40)), INVALID, OK, INVALID),
    _case(
        "a record that is longer than it says", batch(record(0) + record(1, length=5) + record(2)), INVALID, OK, INVALID
    ),
    _case(
        "a record that ends behind the batch", batch(record(0) + record(1) + record(2, length=60)), INVALID, OK, INVALID
    ),
    _case("a record of negative length", batch(record(0) + record(1) + record(2, length=-3)), INVALID, OK, INVALID),
    _case("bytes behind the last record", batch(THREE + b"behind"), INVALID, OK, INVALID),
    _case("a record with -2 headers", batch(record(0, headers=varint(-2)), 1), INVALID, OK, INVALID),
    _case("a record with 5 headers, none there", batch(record(0, headers=varint(5)), 1), INVALID, OK, INVALID),
    _case(
        "a header without a name",
        batch(record(0, headers=varint(1) + field(None) + field(b"v")), 1),
        INVALID,
        OK,
        INVALID,
    ),
    _case("offset deltas 0, 0, 0", batch(record(0) * 3), OK, OK, INVALID),
    _case("offset deltas 0, 2, 4", batch(record(0) + record(2) + record(4)), OK, OK, INVALID),
]

_FRAMES = [
    _case("another CRC", batch(THREE, crc=1), CORRUPT, CORRUPT),
    _case("another CRC, codec 5", batch(THREE, crc=1, attributes=5), CORRUPT, CORRUPT),
    _case("no bytes", b"", INVALID, INVALID),
    _case("a length of 0", batch(THREE, length=0), CORRUPT, CORRUPT),
    _case("a length of -1", batch(THREE, length=-1), CORRUPT, CORRUPT),
    _case("a length that ends within the header", batch(THREE, length=48)[:60], CORRUPT, CORRUPT),
    _case("a length beyond the end", batch(THREE, length=len(SOUND) - 11), INVALID, INVALID),
    _case("a batch cut short", SOUND[:-5], INVALID, INVALID),
    _case("a header alone", SOUND[:61], INVALID, INVALID),
    _case("a third of a header", SOUND[:20], INVALID, INVALID),
    _case("a byte behind the batch", SOUND + b"\0", OK, INVALID),
    _case("two batches", SOUND + SOUND, INVALID, INVALID),
    _case("magic 0", batch(THREE, magic=0), INVALID, INVALID),
    _case("magic 1", batch(THREE, magic=1), INVALID, INVALID),
    _case("magic 3", batch(THREE, magic=3), CORRUPT, CORRUPT),
    _case("magic -1", batch(THREE, magic=-1), CORRUPT, CORRUPT),
    _case("a base offset of 5", batch(THREE, base_offset=5), INVALID, INVALID),
    _case("a base offset of -1", batch(THREE, base_offset=-1), INVALID, INVALID),
    _case("more bytes than max.message.bytes", batch(record(0, value=bytes(HUGE)), 1), TOO_LARGE, TOO_LARGE),
]

_PRODUCERS = [
    _case("a producer id without a sequence", batch(THREE, producer=(5001, 0, -1)), INVALID, INVALID),
    _case("a producer epoch of -5", batch(THREE, producer=(5002, -5, 0)), BAD_EPOCH, BAD_EPOCH),
    _case("a producer id without an epoch", batch(THREE, producer=(5003, -1, 0)), OK, BAD_EPOCH),
    _case("a producer id of -2", batch(THREE, producer=(-2, 0, 0)), OK, INVALID),
    _case(
        "part of a transaction nobody began",
        batch(THREE, producer=(5004, 0, 0), attributes=0x10),
        NO_TRANSACTION,
        NO_TRANSACTION,
    ),
    _case("a control batch", batch(THREE, attributes=0x20), INVALID, INVALID),
]

_TIMES = [
    _case("records from the far future", batch(THREE, base_time=NOW_MS + FAR_MS), BAD_TIME, BAD_TIME),
    _case(
        "one from the far future, not said in the header",
        batch(record(0) + record(1, time_delta=FAR_MS), 2),
        BAD_TIME,
        OK,
        BAD_TIME,
    ),
    _case("a header that says the far future, wrongly", batch(THREE, max_time=NOW_MS + FAR_MS), OK, BAD_TIME, OK),
    _case("a header that says a smaller time than its records", batch(THREE, max_time=5), OK, OK),
    _case("times called the append times", batch(THREE, attributes=0x08), OK, BAD_TIME),
]

CASES: list[Case] = [*_SOUND, *_COUNTS, *_CODECS, *_RECORDS, *_FRAMES, *_PRODUCERS, *_TIMES]


def table() -> str:
    """The table of docs/batches.md; results that are equal everywhere are stated once."""
    rows = ["| batch | Kafka 4.3.1 | reference | with reference.validate.records |", "|---|---|---|---|"]
    for case in CASES:
        answers = [case.kafka, case.header, case.looked_at]
        rows.append("| " + " | ".join([case.what, *(answer.name for answer in answers)]) + " |")
    return "\n".join(rows)
