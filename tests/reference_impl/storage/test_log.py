"""A log on disk, compared with a plain list of batches, also after every kind of process end."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from kafka.record import MemoryRecords

from reference_impl.core.log_port import PartitionLog
from reference_impl.storage.disk import StorageError
from reference_impl.storage.log import Log, LogSettings
from reference_impl.wire.record_batches import parse_headers
from tests.reference_impl.storage.logs import ORDERS, SMALL, open_log

MakeBatch = Callable[..., bytes]

ONE_SEGMENT = LogSettings(segment_bytes=1 << 20, index_interval_bytes=100)


def fill(log: Log, make_batch: MakeBatch, count: int) -> list[bytes]:
    """Batches of one to three records, a new epoch after every fourth."""
    batches = []
    for number in range(count):
        values = [b"v%03d" % number] * (number % 3 + 1)
        base_offset = log.log_end_offset
        batch = make_batch(base_offset, *values, epoch=number // 4, timestamp=1000 + number)
        if number // 4 > log.leader_epochs.latest_epoch:
            log.leader_epochs.assign(number // 4, base_offset)
        log.append(batch, base_offset + len(values))
        batches.append(batch)
    return batches


def starts_of(batches: list[bytes]) -> list[int]:
    return [header.base_offset for batch in batches for header in parse_headers(batch)]


def test_a_log_is_what_the_core_asks_for(tmp_path: Path) -> None:
    log: PartitionLog = open_log(tmp_path)
    assert (log.log_start_offset, log.log_end_offset) == (0, 0)
    assert log.read(0, 1000, 10) == b""
    assert log.all_batches() == b""


def test_every_offset_is_found_as_by_a_full_scan(tmp_path: Path, make_batch: MakeBatch) -> None:
    log = open_log(tmp_path)
    batches = fill(log, make_batch, 40)
    assert len(log.segment_base_offsets) > 5
    by_offset = [batch for batch in batches for _ in range(parse_headers(batch)[0].record_count)]
    for offset, batch in enumerate(by_offset):
        assert log.read(offset, 1, log.log_end_offset) == batch
    assert log.read(log.log_end_offset, 1000, log.log_end_offset + 5) == b""


def test_all_segments_after_each_other_are_the_log(tmp_path: Path, make_batch: MakeBatch) -> None:
    log = open_log(tmp_path)
    batches = fill(log, make_batch, 20)
    assert log.all_batches() == b"".join(batches)
    assert log.all_batches(starts_of(batches)[7]) == b"".join(batches[7:])
    assert b"".join(path.read_bytes() for path in sorted(tmp_path.glob("*.log"))) == b"".join(batches)


def test_segments_are_named_by_their_first_offset(tmp_path: Path, make_batch: MakeBatch) -> None:
    log = open_log(tmp_path)
    fill(log, make_batch, 20)
    for path in sorted(tmp_path.glob("*.log")):
        assert len(path.stem) == 20
        assert parse_headers(path.read_bytes())[0].base_offset == int(path.stem)
        assert path.stat().st_size <= SMALL.segment_bytes


def test_kafka_python_reads_our_segments(tmp_path: Path, make_batch: MakeBatch) -> None:
    log = open_log(tmp_path)
    fill(log, make_batch, 12)
    offsets = []
    for path in sorted(tmp_path.glob("*.log")):
        records = MemoryRecords(path.read_bytes())
        while (batch := records.next_batch()) is not None:
            assert batch.validate_crc()
            offsets += [record.offset for record in batch]
        assert records.valid_bytes() == path.stat().st_size
    assert offsets == list(range(log.log_end_offset))


def test_an_index_entry_points_at_a_batch_by_its_last_offset(tmp_path: Path, make_batch: MakeBatch) -> None:
    log = open_log(tmp_path, ONE_SEGMENT)
    fill(log, make_batch, 30)
    headers = {header.position: header for header in parse_headers((tmp_path / f"{0:020d}.log").read_bytes())}
    index = (tmp_path / f"{0:020d}.index").read_bytes()
    entries = [
        (int.from_bytes(index[at : at + 4], "big"), int.from_bytes(index[at + 4 : at + 8], "big"))
        for at in range(0, len(index), 8)
    ]
    assert len(entries) > 5
    assert [headers[position].last_offset for _, position in entries] == [offset for offset, _ in entries]


def test_a_read_keeps_to_the_end_offset_and_the_size(tmp_path: Path, make_batch: MakeBatch) -> None:
    log = open_log(tmp_path, ONE_SEGMENT)
    batches = fill(log, make_batch, 10)
    starts = starts_of(batches)
    assert log.read(0, 1 << 20, starts[4]) == b"".join(batches[:4])
    assert log.read(0, 1 << 20, starts[3] + 0) == b"".join(batches[:3])
    assert log.read(0, len(batches[0]) + len(batches[1]), 100) == batches[0] + batches[1]
    assert log.read(0, len(batches[0]) + len(batches[1]) - 1, 100) == batches[0]
    assert log.read(0, 1, 100) == batches[0], "one batch at least, however long (KIP-74)"
    assert log.read(0, 0, 100) == b""
    assert log.read(starts[2], 1 << 20, starts[2] + 1) == b"", "never a part of a batch"


def test_a_read_ends_with_its_segment(tmp_path: Path, make_batch: MakeBatch) -> None:
    log = open_log(tmp_path)
    fill(log, make_batch, 12)
    second = log.segment_base_offsets[1]
    headers = parse_headers(log.read(0, 1 << 20, log.log_end_offset))
    assert headers[-1].next_offset == second


def test_a_batch_longer_than_a_segment_gets_one_of_its_own(tmp_path: Path, make_batch: MakeBatch) -> None:
    log = open_log(tmp_path)
    fill(log, make_batch, 1)
    log.append(make_batch(1, b"x" * 50_000), 2)
    log.append(make_batch(2, b"small"), 3)
    assert log.segment_base_offsets == (0, 1, 2)
    assert parse_headers(log.read(1, 10, 3))[0].length > 50_000


def test_one_append_of_many_batches_spreads_over_segments(tmp_path: Path, make_batch: MakeBatch) -> None:
    log = open_log(tmp_path)
    data = b"".join(make_batch(offset, b"value") for offset in range(20))
    log.append(memoryview(data), 20)
    assert log.all_batches() == data
    assert len(log.segment_base_offsets) > 3
    assert all(path.stat().st_size <= SMALL.segment_bytes for path in tmp_path.glob("*.log"))


def test_a_cut_returns_what_it_cut_and_takes_the_epochs_along(tmp_path: Path, make_batch: MakeBatch) -> None:
    log = open_log(tmp_path)
    batches = fill(log, make_batch, 16)
    starts = starts_of(batches)
    assert log.truncate_to(starts[6]) == b"".join(batches[6:])
    assert log.log_end_offset == starts[6]
    assert log.all_batches() == b"".join(batches[:6])
    assert log.leader_epochs.entries == ((0, 0), (1, starts[4]))
    log.append(make_batch(starts[6], b"other", epoch=9), starts[6] + 1)
    assert log.all_batches() == b"".join(batches[:6]) + make_batch(starts[6], b"other", epoch=9)


def test_a_cut_at_the_log_end_still_drops_an_epoch_without_records(tmp_path: Path, make_batch: MakeBatch) -> None:
    """KAFKA-10706."""
    log = open_log(tmp_path)
    fill(log, make_batch, 3)
    log.leader_epochs.assign(5, log.log_end_offset)
    assert log.truncate_to(log.log_end_offset) == b""
    assert log.leader_epochs.entries == ((0, 0),)


def test_a_cut_inside_a_batch_takes_the_whole_batch(tmp_path: Path, make_batch: MakeBatch) -> None:
    log = open_log(tmp_path)
    batches = fill(log, make_batch, 3)
    assert starts_of(batches) == [0, 1, 3]
    assert log.truncate_to(2) == batches[1] + batches[2]
    assert log.log_end_offset == 1


def test_a_log_can_begin_anew_at_another_offset(tmp_path: Path, make_batch: MakeBatch) -> None:
    log = open_log(tmp_path)
    batches = fill(log, make_batch, 12)
    assert log.truncate_fully_and_start_at(500) == b"".join(batches)
    assert (log.log_start_offset, log.log_end_offset, log.leader_epochs.entries) == (500, 500, ())
    log.append(make_batch(500, b"new"), 501)
    log.close()
    again = open_log(tmp_path)
    assert (again.log_start_offset, again.log_end_offset) == (500, 501)


def test_what_was_appended_is_there_after_a_kill(tmp_path: Path, make_batch: MakeBatch) -> None:
    log = open_log(tmp_path)
    batches = fill(log, make_batch, 10)
    again = open_log(tmp_path)  # the first one was never closed nor flushed
    assert again.all_batches() == b"".join(batches)
    assert again.leader_epochs.entries == log.leader_epochs.entries
    assert again.cut_at_start == b""


@pytest.mark.parametrize("recovery_point", [0, 5, 1000])
def test_a_last_batch_torn_at_any_byte_is_dropped(tmp_path: Path, make_batch: MakeBatch, recovery_point: int) -> None:
    log = open_log(tmp_path, ONE_SEGMENT)
    batches = fill(log, make_batch, 8)
    log.close()
    path = tmp_path / f"{0:020d}.log"
    whole = path.read_bytes()
    kept = b"".join(batches[:-1])
    for size in range(len(kept), len(whole)):
        path.write_bytes(whole[:size])
        again = open_log(tmp_path, ONE_SEGMENT, recovery_point=recovery_point)
        again.close()
        assert again.log_end_offset == starts_of(batches)[-1]
        assert path.read_bytes() == kept
        assert again.cut_at_start == whole[len(kept) : size]
        path.write_bytes(whole)


def test_a_torn_tail_is_dropped_even_after_a_clean_stop(tmp_path: Path, make_batch: MakeBatch) -> None:
    """Real Kafka appends behind it; then nothing after the junk can be read."""
    log = open_log(tmp_path, ONE_SEGMENT)
    batches = fill(log, make_batch, 8)
    log.flush()
    log.close()
    path = tmp_path / f"{0:020d}.log"
    os.truncate(path, path.stat().st_size - 3)
    again = open_log(tmp_path, ONE_SEGMENT, clean=True, recovery_point=log.log_end_offset)
    assert again.all_batches() == b"".join(batches[:-1])


def test_from_a_damaged_batch_on_everything_goes(tmp_path: Path, make_batch: MakeBatch) -> None:
    log = open_log(tmp_path)
    batches = fill(log, make_batch, 20)
    log.close()
    victim = sorted(tmp_path.glob("*.log"))[2]
    data = bytearray(victim.read_bytes())
    data[-1] ^= 1
    victim.write_bytes(data)
    again = open_log(tmp_path)
    kept = again.all_batches()
    assert b"".join(batches).startswith(kept)
    assert int(victim.stem) <= again.log_end_offset < log.log_end_offset
    assert len(kept) + len(again.cut_at_start) == len(b"".join(batches))
    assert all(start < again.log_end_offset for _, start in again.leader_epochs.entries)


def test_what_was_flushed_is_not_verified_again(tmp_path: Path, make_batch: MakeBatch) -> None:
    log = open_log(tmp_path)
    fill(log, make_batch, 20)
    log.flush()
    log.close()
    first = tmp_path / f"{0:020d}.log"
    data = bytearray(first.read_bytes())
    data[-1] ^= 1
    first.write_bytes(data)
    assert open_log(tmp_path, recovery_point=log.recovery_point).log_end_offset == log.log_end_offset


def test_lost_and_damaged_indexes_are_rebuilt(tmp_path: Path, make_batch: MakeBatch) -> None:
    log = open_log(tmp_path)
    batches = fill(log, make_batch, 30)
    log.close()
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    paths = sorted(tmp_path.glob("*.index")) + sorted(tmp_path.glob("*.timeindex"))
    for number, path in enumerate(paths):
        if number % 3 == 0:
            path.unlink()
        elif number % 3 == 1:
            path.write_bytes(path.read_bytes() + b"\x00")
        else:
            path.write_bytes(bytes(24))
    again = open_log(tmp_path, clean=True, recovery_point=log.log_end_offset)
    assert again.all_batches() == b"".join(batches)
    after = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    indexes = [name for name in before if name.endswith(".index")]
    assert {name: after[name] for name in indexes} == {name: before[name] for name in indexes}


def test_a_lost_epoch_checkpoint_is_rebuilt_from_the_batches(tmp_path: Path, make_batch: MakeBatch) -> None:
    log = open_log(tmp_path)
    fill(log, make_batch, 20)
    log.close()
    (tmp_path / "leader-epoch-checkpoint").write_text("0\n3\n1 2\n")
    assert open_log(tmp_path).leader_epochs.entries == log.leader_epochs.entries
    (tmp_path / "leader-epoch-checkpoint").unlink()
    assert open_log(tmp_path).leader_epochs.entries == log.leader_epochs.entries


def test_a_cut_below_the_recovery_point_takes_it_down_at_once(tmp_path: Path, make_batch: MakeBatch) -> None:
    received: list[int] = []
    log = Log.open(tmp_path, ORDERS, SMALL, recovery_point_lowered=lambda: received.append(log.recovery_point))
    batches = fill(log, make_batch, 10)
    assert log.recovery_point == 0
    log.flush()
    assert log.recovery_point == log.log_end_offset
    log.truncate_to(starts_of(batches)[4])
    assert received == [log.log_end_offset]


def test_a_write_that_fails_leaves_no_torn_batch(
    tmp_path: Path, make_batch: MakeBatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_log(tmp_path, ONE_SEGMENT)
    batches = fill(log, make_batch, 3)
    real_write = os.write
    calls: list[int] = []

    def disk_full(descriptor: int, data: memoryview) -> int:
        calls.append(len(data))
        if len(calls) > 1:
            raise OSError(28, "No space left on device")
        return real_write(descriptor, data[:20])

    monkeypatch.setattr(os, "write", disk_full)
    with pytest.raises(OSError, match="No space"):
        log.append(make_batch(log.log_end_offset, b"x"), log.log_end_offset + 1)
    monkeypatch.undo()
    assert (tmp_path / f"{0:020d}.log").read_bytes() == b"".join(batches)
    end = log.log_end_offset
    with pytest.raises(StorageError, match="offline"):  # and nothing is written over what it may have left
        log.append(make_batch(end, b"x"), end + 1)
    assert open_log(tmp_path, ONE_SEGMENT).log_end_offset == end
