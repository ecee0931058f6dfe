"""A full disk costs the run and nothing else: one line, exit code 4, and what was recorded can be judged later."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import compose

ROOT = Path(__file__).parents[2]
# Enough for the start of three brokers; the load fills it.
ROOM = "1m"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "small"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={ROOM}", "tmpfs", str(place)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("a small disk is mounted by root alone")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def run(disk: Path, state: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "harness", "run", "no-faults", "--no-check", "--runs", str(disk)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "XDG_STATE_HOME": str(state)}
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=200, env=environment)


def test_a_disk_that_fills_while_a_run_goes_on_keeps_what_was_recorded(small_disk: Path, tmp_path: Path) -> None:
    ended = run(small_disk, tmp_path / "state")

    assert (ended.returncode, ended.stderr.count("\n")) == (4, 1), ended.stderr
    assert "Traceback" not in ended.stderr
    (folder,) = (path.parent for path in small_disk.glob("*/run.json") if not path.parent.is_symlink())
    assert "No space left on device" in ended.stderr or "the disk is full" in ended.stderr
    assert str(folder) in ended.stderr

    subprocess.run(["mount", "-o", "remount,size=64m", str(small_disk)], check=True)
    sealed = compose.sealed(folder)
    assert sealed.run["status"] in ("unfinished", "error")
    assert sealed.table("operations").num_rows > 0


def test_a_disk_without_room_for_a_run_folder_is_told_at_the_start(small_disk: Path, tmp_path: Path) -> None:
    with (small_disk / "fill").open("wb", buffering=0) as file:
        for size in (1 << 16, 1 << 12, 1):
            try:
                while file.write(bytes(size)) == size:
                    pass
            except OSError:
                continue

    ended = run(small_disk, tmp_path / "state")

    assert (ended.returncode, ended.stderr.count("\n"), ended.stdout) == (4, 1, ""), ended.stderr
    assert "No space left on device" in ended.stderr
