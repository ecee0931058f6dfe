"""Lookup by time on disk finds the same record as a full scan, also with damaged time indexes."""

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reference_impl.storage.log import Log, LogSettings
from reference_impl.wire.record_batches import parse_headers
from reference_impl.wire.record_timestamps import (
    TimedOffset,
    first_at_or_after,
    record_times,
    stamp_append_time,
    youngest,
)
from tests.reference_impl.storage.logs import SMALL, open_log

MakeBatch = Callable[..., bytes]

_batches_of_times = st.lists(st.lists(st.integers(0, 12), min_size=1, max_size=4), min_size=1, max_size=12)


def fill(log: Log, make_batch: MakeBatch, batches: list[list[int]]) -> None:
    for number, times in enumerate(batches):
        batch = make_batch(log.log_end_offset, *[b"v"] * len(times), timestamps=times, epoch=number // 3)
        log.append(batch, log.log_end_offset + len(times))


def every_record(log: Log) -> Iterator[TimedOffset]:
    data = log.all_batches()
    for header in parse_headers(data):
        for offset, timestamp in record_times(data, header):
            if offset >= log.log_start_offset:
                yield TimedOffset(offset, timestamp, header.leader_epoch)


def found_by_time(log: Log, timestamp: int, end: int) -> TimedOffset | None:
    batch = log.batch_at_or_after(timestamp, 0, end)
    return None if batch is None else first_at_or_after(batch, timestamp)


def check_lookups(log: Log) -> None:
    records = list(every_record(log))
    for end in {0, log.log_start_offset, *(batch.next_offset for batch in parse_headers(log.all_batches()))}:
        committed = [record for record in records if record.offset < end]
        for timestamp in range(14):
            expected = next((record for record in committed if record.timestamp >= timestamp), None)
            assert found_by_time(log, timestamp, end) == expected, (timestamp, end)
        expected = max(committed, key=lambda record: record.timestamp, default=None)
        found = log.youngest_batch(end)
        assert (found and youngest(found)) == expected, end


@settings(max_examples=60, deadline=None)
@given(
    batches=_batches_of_times,
    segment_bytes=st.sampled_from([1, 200, 500, 1 << 20]),
    interval=st.sampled_from([0, 80, 4096]),
    start=st.integers(0, 30),
    cut=st.integers(0, 40),
    damage=st.sampled_from(["none", "missing", "emptied", "shortened", "torn", "foreign"]),
    clean=st.booleans(),
)
def test_lookup_by_time_is_a_scan(
    make_batch: MakeBatch,
    batches: list[list[int]],
    segment_bytes: int,
    interval: int,
    start: int,
    cut: int,
    damage: str,
    clean: bool,
) -> None:
    log_settings = LogSettings(segment_bytes=segment_bytes, index_interval_bytes=interval)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        log = open_log(folder, log_settings)
        fill(log, make_batch, batches)
        starts = [header.base_offset for header in parse_headers(log.all_batches())]
        log.advance_log_start(starts[start % len(starts)])
        check_lookups(log)
        if cut > log.log_start_offset:
            log.truncate_to(cut)
            check_lookups(log)
        log.flush()
        log.close()
        damage_time_indexes(folder, damage)
        again = open_log(folder, log_settings, clean=clean, log_start_offset=log.log_start_offset)
        assert again.all_batches() == log.all_batches()
        check_lookups(again)
        again.close()


def damage_time_indexes(folder: Path, damage: str) -> None:
    for path in folder.glob("*.timeindex"):
        data = path.read_bytes()
        if damage == "missing":
            path.unlink()
        elif damage == "emptied":
            path.write_bytes(b"")
        elif damage == "shortened":
            path.write_bytes(data[:-12])
        elif damage == "torn":
            path.write_bytes(data[:-1])
        elif damage == "foreign" and data:
            path.write_bytes(data[:-12] + (1 << 40).to_bytes(8, "big") + data[-4:])


def test_append_time_is_the_time_of_every_record_of_the_batch(tmp_path: Path, make_batch: MakeBatch) -> None:
    batch = bytearray(make_batch(0, b"a", b"b", timestamps=[5, 7]))
    stamp_append_time(batch, parse_headers(batch)[0], 100)
    (header,) = parse_headers(batch)
    assert header.has_log_append_time
    log = open_log(tmp_path)
    log.append(batch, 2)
    assert found_by_time(log, 6, 2) == TimedOffset(0, 100, 0)
    assert youngest(log.youngest_batch(2) or b"") == TimedOffset(0, 100, 0)
    again = open_log(tmp_path)  # verified, so its CRC holds
    assert again.log_end_offset == 2


@pytest.mark.parametrize(("gap_ms", "segments"), [(999, 1), (1000, 1), (1001, 2)])
def test_a_segment_is_rolled_by_the_time_between_its_first_record_and_the_new_one(
    tmp_path: Path, make_batch: MakeBatch, gap_ms: int, segments: int
) -> None:
    log = open_log(tmp_path, LogSettings(segment_bytes=1 << 20, segment_ms=1000))
    for offset, timestamp in enumerate((5000, 5000 - 400, 5000 + gap_ms)):
        log.append(make_batch(offset, b"v", timestamp=timestamp), offset + 1)
    assert len(log.segments) == segments
    log.close()
    again = open_log(tmp_path, LogSettings(segment_bytes=1 << 20, segment_ms=1000), clean=True)
    again.append(make_batch(3, b"v", timestamp=6002), 4)
    assert len(again.segments) == 2


def test_several_batches_of_one_append_are_rolled_by_time_too(tmp_path: Path, make_batch: MakeBatch) -> None:
    log = open_log(tmp_path, LogSettings(segment_bytes=1 << 20, segment_ms=1000))
    log.append(b"".join(make_batch(n, b"v", timestamp=n * 600) for n in range(6)), 6)
    assert log.segment_base_offsets == (0, 2, 4)


def test_records_without_a_time_make_no_segment_old(tmp_path: Path, make_batch: MakeBatch) -> None:
    log = open_log(tmp_path, SMALL)
    log.append(make_batch(0, b"v", timestamp=-1), 1)
    assert log.segments[0].largest_timestamp_ms > 1_600_000_000_000  # as old as its file
