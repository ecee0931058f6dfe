"""The disk under a log directory: the first failed write is the last."""

import errno
from pathlib import Path

import pytest

from reference_impl.storage.disk import Disk, StorageError


def test_a_failed_write_is_reported_once_and_nothing_is_written_after_it(tmp_path: Path) -> None:
    received: list[OSError] = []
    disk = Disk(tmp_path, received.append)
    full = OSError(28, "No space left on device")
    with pytest.raises(OSError, match="No space"), disk:
        raise full
    with pytest.raises(StorageError, match=f"{tmp_path}: offline since a write failed"), disk:
        pytest.fail("nothing may be written")
    assert received == [full]


def test_writes_within_writes_fail_as_one(tmp_path: Path) -> None:
    received: list[OSError] = []
    disk = Disk(tmp_path, received.append)
    with pytest.raises(OSError, match="Input/output"), disk, disk:
        raise OSError(5, "Input/output error")
    assert len(received) == 1


def test_what_is_no_failure_of_the_disk_leaves_it_as_it_is(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    with pytest.raises(KeyError), disk:
        raise KeyError("a mistake")
    with disk:
        (tmp_path / "file").write_text("written")
    assert disk.error is None


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENAMETOOLONG])
def test_a_process_without_descriptors_and_a_name_too_long_are_no_failure_of_the_disk(
    tmp_path: Path, number: int
) -> None:
    received: list[OSError] = []
    disk = Disk(tmp_path, received.append)
    with pytest.raises(OSError, match="not the disk"), disk:
        raise OSError(number, "not the disk")
    with disk:
        (tmp_path / "written").touch()
    assert received == []
    assert disk.error is None
