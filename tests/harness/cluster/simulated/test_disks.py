"""What survives a power loss of a simulated disk, what a full one refuses, where a kill strikes."""

import os
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from harness.cluster.simulated.disk_watch import DiskWatch
from harness.cluster.simulated.disks import CrashPoint, Failure, NodeDisk
from harness.cluster.simulated.machines import Machine, context_on


@pytest.fixture
def disk(tmp_path: Path) -> NodeDisk:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "old").write_bytes(b"old")
    disk = NodeDisk((tmp_path / "data").resolve())
    disk.adopt()
    return disk


def on_its_machine(disk: NodeDisk, work: Callable[[Path], object]) -> None:
    with DiskWatch():
        context_on(Machine(name="broker 1", disk=disk)).run(work, disk.top)


def sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


def append(path: Path, data: bytes, *, synced: bool = False) -> None:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
    os.write(descriptor, data)
    if synced:
        os.fsync(descriptor)
    os.close(descriptor)


def after_a_power_loss(disk: NodeDisk, *, seed: int = 1) -> dict[str, bytes]:
    disk.lose_unsynced(Random(seed))
    return {path.name: path.read_bytes() for path in disk.top.iterdir()}


def test_what_was_synced_is_there_and_what_was_appended_since_is_gone_or_torn(disk: NodeDisk) -> None:
    def work(top: Path) -> None:
        append(top / "log", b"safe", synced=True)
        sync(top)
        append(top / "log", b"not safe")

    left = set()
    for seed in range(20):
        on_its_machine(disk, lambda top: (top / "log").unlink(missing_ok=True))
        on_its_machine(disk, work)
        left.add(after_a_power_loss(disk, seed=seed)["log"])

    assert b"safe" in left
    assert b"safenot safe" not in left
    assert len(left) > 2
    assert all(b"safenot safe".startswith(each) for each in left)


def test_a_name_that_no_sync_of_its_folder_made_safe_is_gone(disk: NodeDisk) -> None:
    on_its_machine(disk, lambda top: append(top / "log", b"its contents are safe", synced=True))

    assert after_a_power_loss(disk) == {"old": b"old"}


def test_a_rename_that_was_not_synced_has_not_happened(disk: NodeDisk) -> None:
    def work(top: Path) -> None:
        append(top / "new", b"new", synced=True)
        sync(top)
        (top / "new").replace(top / "old")

    on_its_machine(disk, work)
    assert after_a_power_loss(disk) == {"old": b"old", "new": b"new"}

    def again(top: Path) -> None:
        (top / "new").replace(top / "old")
        sync(top)

    on_its_machine(disk, again)
    assert after_a_power_loss(disk) == {"old": b"new"}


def test_a_removal_that_was_not_synced_has_not_happened(disk: NodeDisk) -> None:
    on_its_machine(disk, lambda top: (top / "old").unlink())

    assert after_a_power_loss(disk) == {"old": b"old"}


def test_a_truncation_that_was_not_synced_has_not_happened(disk: NodeDisk) -> None:
    on_its_machine(disk, lambda top: os.truncate(top / "old", 1))

    assert after_a_power_loss(disk) == {"old": b"old"}


def test_a_full_disk_refuses_what_takes_room_and_nothing_else(disk: NodeDisk) -> None:
    disk.is_full = True

    def work(top: Path) -> None:
        for write in (lambda: append(top / "log", b"more"), lambda: (top / "old").write_text("other")):
            with pytest.raises(OSError, match="No space left"):
                write()
        assert (top / "old").read_bytes() == b"old"
        (top / "old").unlink()

    on_its_machine(disk, work)
    assert list(disk.top.iterdir()) == []


def test_a_disk_that_fails_refuses_its_nth_change_and_each_after_it(disk: NodeDisk) -> None:
    struck: list[int] = []
    disk.failure = Failure(nth=3, strike=lambda: struck.append(1))

    def work(top: Path) -> None:
        append(top / "log", b"12")  # a new file, and a write
        with pytest.raises(OSError, match="Input/output error"):
            append(top / "log", b"34")
        with pytest.raises(OSError, match="Input/output error"):
            (top / "old").unlink()

    on_its_machine(disk, work)
    assert {path.name: path.read_bytes() for path in disk.top.iterdir()} == {"old": b"old", "log": b"12"}
    assert len(struck) == 2


def test_a_log_outside_of_the_disk_is_written_though_it_is_full(disk: NodeDisk) -> None:
    disk.is_full = True
    on_its_machine(disk, lambda top: append(top.parent / "its.log", b"said"))

    assert (disk.top.parent / "its.log").read_bytes() == b"said"


@pytest.mark.parametrize(
    ("nth", "torn", "left"),
    [
        (1, False, {"old": b"old"}),
        (2, False, {"old": b"old", "log": b""}),
        (2, True, {"old": b"old", "log": b"12"}),
        (3, False, {"old": b"old", "log": b"1234"}),
        (4, False, {"old": b"1234"}),
    ],
)
def test_a_kill_at_a_write_leaves_the_disk_as_it_stood_there(
    disk: NodeDisk, nth: int, torn: bool, left: dict[str, bytes]
) -> None:
    struck: list[str] = []
    disk.crash_point = CrashPoint(nth=nth, torn=torn, strike=struck.append)

    def work(top: Path) -> None:
        append(top / "log", b"1234")
        (top / "log").replace(top / "old")
        (top / "old").unlink()

    on_its_machine(disk, work)
    disk.crashed()

    assert {path.name: path.read_bytes() for path in disk.top.iterdir()} == left
    assert len(struck) == 1
