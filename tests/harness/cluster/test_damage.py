"""Damage invalidates one batch of a log and changes nothing else."""

from pathlib import Path

import pytest

from harness.cluster.damage import damage_log
from harness.cluster.record_batches import batches, is_intact
from harness.cluster.replica_logs import log_end, segment_files
from harness.errors import HarnessError
from harness.ports.capabilities import Place
from harness.ports.faults import NothingToStrike
from tests.harness.cluster.log_folders import batch, replica_folder

_SEGMENTS = {
    0: batch(0, [b"first"] * 3) + batch(3, [b"second"]),
    4: batch(4, [b"third"] * 2) + batch(6, [b"fourth"] * 4),
}


@pytest.mark.parametrize(("at", "offsets", "segment"), [("last", (6, 10), 4), ("middle", (4, 6), 4)])
def test_one_batch_is_damaged_and_reported_by_its_offsets(
    tmp_path: Path, at: Place, offsets: tuple[int, int], segment: int
) -> None:
    folder = replica_folder(tmp_path, _SEGMENTS)
    done = damage_log(folder, at=at)
    assert (done.from_offset, done.to_offset) == offsets
    assert done.segment == folder / f"{segment:020}.log"
    sound = []
    for path in segment_files(folder):
        data = path.read_bytes()
        sound += [is_intact(data[each.start : each.stop]) for each in batches(data)]
    assert sound == [True, True, at == "last", at == "middle"]
    assert log_end(folder) == 10


@pytest.mark.parametrize(("recovery_point", "damaged"), [(None, 4), (0, 4), (3, 4), (4, 6), (10, 6)])
def test_unflushed_is_what_a_start_after_a_crash_reads_again(
    tmp_path: Path, recovery_point: int | None, damaged: int
) -> None:
    folder = replica_folder(tmp_path, _SEGMENTS)
    if recovery_point is not None:
        topic, _, partition = folder.name.rpartition("-")
        points = f"0\n1\n{topic} {partition} {recovery_point}\n"
        (folder.parent / "recovery-point-offset-checkpoint").write_text(points)
    assert damage_log(folder, at="unflushed").from_offset == damaged


def test_only_the_bytes_that_are_reported_have_changed(tmp_path: Path) -> None:
    folder = replica_folder(tmp_path, _SEGMENTS)
    done = damage_log(folder, at="last")
    now = done.segment.read_bytes()
    before = _SEGMENTS[4]
    assert [n for n in range(len(before)) if before[n] != now[n]] == list(range(done.from_byte, done.to_byte))
    assert len(now) == len(before)


def test_a_batch_of_one_short_record_can_be_damaged(tmp_path: Path) -> None:
    folder = replica_folder(tmp_path, {0: batch(0, [b""])})
    assert damage_log(folder, at="middle").to_offset == 1


def test_a_torn_tail_is_no_batch_to_be_damaged(tmp_path: Path) -> None:
    folder = replica_folder(tmp_path, {0: batch(0, [b"whole"]) + batch(1, [b"torn"])[:-2]})
    assert damage_log(folder, at="last").to_offset == 1


@pytest.mark.parametrize("segments", [{}, {0: b""}, {0: b"\0" * 200}])
def test_an_empty_log_cannot_be_damaged(tmp_path: Path, segments: dict[int, bytes]) -> None:
    with pytest.raises(HarnessError, match="holds no batch that could be damaged"):
        damage_log(replica_folder(tmp_path, segments), at="last")


def test_what_is_damaged_already_is_not_mended_by_more_damage(tmp_path: Path) -> None:
    folder = replica_folder(tmp_path, _SEGMENTS)
    done = [damage_log(folder, at="middle") for _ in range(2)]
    assert [(one.from_offset, one.to_offset) for one in done] == [(4, 6), (6, 10)]
    done = [damage_log(folder, at="last") for _ in range(2)]
    assert [(one.from_offset, one.to_offset) for one in done] == [(3, 4), (0, 3)]
    with pytest.raises(NothingToStrike, match="holds no batch that could be damaged"):
        damage_log(folder, at="last")
