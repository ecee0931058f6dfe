"""Recovery checks the fields that no CRC covers: one flipped bit in them is neither served nor replicated."""

import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from reference_impl.storage.log import Log, LogSettings
from reference_impl.wire.record_batches import parse_headers
from tests.reference_impl.storage.logs import open_log

MakeBatch = Callable[..., bytes]
ONE_SEGMENT = LogSettings(segment_bytes=1 << 20, index_interval_bytes=100)
LATEST_TIME_MS = 1040


def fill(log: Log, make_batch: MakeBatch, count: int) -> None:
    """A new epoch after every fifth batch; times go up and down, and some come twice."""
    for number in range(count):
        offset, epoch = log.log_end_offset, number // 5
        log.leader_epochs.assign(epoch, offset)
        log.append(make_batch(offset, b"v", b"w", epoch=epoch, timestamp=1000 + number * 7 % 40), offset + 2)


def flips(path: Path, positions: Iterator[int] | range) -> Iterator[tuple[int, int]]:
    """(position, bit) of each state of the file with one bit flipped; as it was in the end."""
    data = path.read_bytes()
    try:
        for position in positions:
            for bit in range(8):
                path.write_bytes(data[:position] + bytes([data[position] ^ (1 << bit)]) + data[position + 1 :])
                yield position, bit
    finally:
        path.write_bytes(data)


@pytest.mark.slow
@pytest.mark.parametrize("stopped", ["cleanly", "killed", "killed after a flush"])
def test_a_flipped_offset_length_epoch_or_magic_is_cut_off(tmp_path: Path, make_batch: MakeBatch, stopped: str) -> None:
    log = open_log(tmp_path, ONE_SEGMENT)
    fill(log, make_batch, 12)
    log.close()
    recovery_point = log.log_end_offset if stopped == "killed after a flush" else 0
    whole = log.all_batches()
    path = tmp_path / f"{0:020d}.log"
    checkpoint = (tmp_path / "leader-epoch-checkpoint").read_bytes()
    for header in parse_headers(whole):
        for position, bit in flips(path, range(header.position, header.position + 17)):
            again = open_log(tmp_path, ONE_SEGMENT, clean=stopped == "cleanly", recovery_point=recovery_point)
            kept = again.all_batches()
            again.close()
            (tmp_path / "leader-epoch-checkpoint").write_bytes(checkpoint)
            if kept.startswith(whole[: header.end_position]) or not whole.startswith(kept):
                # An earlier epoch that the preceding batches allow cannot be distinguished from the true one.
                (seen,) = (batch for batch in parse_headers(kept) if batch.position == header.position)
                assert seen.leader_epoch < header.leader_epoch, (position, bit)
                assert again.log_end_offset == log.log_end_offset
            else:
                assert kept == whole[: header.position], (position, bit)
                assert again.log_end_offset == header.base_offset, (position, bit)
                assert max((epoch for epoch, _ in again.leader_epochs.entries), default=0) <= header.leader_epoch


@pytest.mark.slow
def test_no_flipped_bit_of_an_index_changes_what_is_read(tmp_path: Path, make_batch: MakeBatch) -> None:
    log = open_log(tmp_path, ONE_SEGMENT)
    fill(log, make_batch, 12)
    log.close()

    def reads(of: Log) -> list[object]:
        end = of.log_end_offset
        by_offset: list[object] = [of.read(offset, 200, end) for offset in range(end)]
        return [*by_offset, *(of.batch_at_or_after(time, 0, end) for time in range(1000, LATEST_TIME_MS + 1))]

    expected = reads(log)
    indexes = [path for path in tmp_path.iterdir() if path.suffix in (".index", ".timeindex")]
    assert all(path.stat().st_size for path in indexes)
    for path in indexes:
        for flipped in flips(path, range(path.stat().st_size)):
            again = open_log(tmp_path, ONE_SEGMENT, clean=True, recovery_point=log.log_end_offset)
            assert reads(again) == expected, (path, flipped)
            again.close()


@pytest.mark.parametrize("clean", [True, False])
def test_a_log_is_opened_in_pieces(tmp_path: Path, make_batch: MakeBatch, clean: bool) -> None:
    log = open_log(tmp_path, LogSettings(segment_bytes=1 << 30))
    batch = make_batch(0, b"v" * 40_000)
    for number in range(500):
        log.append(make_batch(number, b"v" * 40_000), number + 1)
    log.append(make_batch(500, bytes(5_000_000)), 501)
    log.close()
    assert log.size > 500 * len(batch)
    tracemalloc.start()
    try:
        again = open_log(tmp_path, clean=clean)
        assert sum(1 for _ in again.headers()) == 501
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert again.log_end_offset == 501
    assert peak < 2_000_000
