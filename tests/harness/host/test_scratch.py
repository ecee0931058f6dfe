"""A folder for a while goes with its maker, or by the next sweep, and nothing else goes with it."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.host.scratch import Scratch, left_behind, scratch_folder
from harness.host.user_folders import state_directory
from tests.little_room import with_little_room

_MAKER = """
import os, signal, sys
from pathlib import Path
from harness.host.scratch import Scratch
made = Scratch("kafka-chaos-test-", beside=Path(sys.argv[1]))
(made.path / "inner").mkdir()
(made.path / "inner" / "file").write_text("much")
(made.path / "link").symlink_to(sys.argv[1])
print(made.path, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "place").mkdir()
    return tmp_path / "place"


def swept() -> list[str]:
    with left_behind() as remove:
        return remove()


@pytest.fixture
def left(place: Path) -> Path:
    """Of a maker that was killed."""
    ended = subprocess.run([sys.executable, "-c", _MAKER, str(place)], capture_output=True, text=True, check=False)
    return Path(ended.stdout.strip())


def entries() -> list[Path]:
    return list((state_directory() / "scratch").iterdir())


def test_a_folder_goes_with_the_work_in_it_and_while_it_is_used_no_sweep_takes_it(place: Path) -> None:
    with scratch_folder("kafka-chaos-test-", beside=place) as folder:
        (folder / "file").write_text("much")
        assert folder.stat().st_mode & 0o077 == 0
        assert swept() == []
        assert folder.is_dir()
    assert entries() == list(place.iterdir()) == []


def test_what_a_killed_maker_left_is_swept_and_what_it_links_to_is_not(place: Path, left: Path) -> None:
    (place / "other").write_text("mine")
    (sentence,) = swept()
    assert str(left) in sentence
    assert [path.name for path in place.iterdir()] == ["other"]
    assert entries() == []
    assert swept() == []


def _another(left: Path) -> None:
    left.rename(left.with_name("moved"))
    shutil.copytree(left.with_name("moved"), left, symlinks=True)


def _a_link(left: Path) -> None:
    left.rename(left.with_name("moved"))
    left.symlink_to("moved")


@pytest.mark.parametrize("put", [_another, _a_link])
def test_another_folder_in_its_place_is_left_alone(left: Path, put: Callable[[Path], None]) -> None:
    put(left)
    (sentence,) = swept()
    assert "is not the folder that was entered" in sentence
    assert (left / "inner" / "file").read_text() == "much"
    assert swept() == []


def test_what_goes_by_itself_meanwhile_is_no_hindrance(left: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    there = os.listdir
    monkeypatch.setattr(os, "listdir", lambda folder: ["gone", *there(folder)])
    assert swept() == [f"removed {left} that a kafka-chaos that was killed had left behind"]
    assert not left.exists()


def test_an_entry_that_is_none_costs_a_sentence_and_itself(left: Path) -> None:
    folder = state_directory() / "scratch"
    for number, text in enumerate(("", "[]", '{"folder": 5, "inode": 1}', "[" * 60_000)):
        (folder / f"{number}.json").write_text(text)
    (folder / "x.json").symlink_to("/etc/passwd")
    os.mkfifo(folder / "pipe.json")
    (folder / "folder.json").mkdir()
    sentences = swept()
    assert sum("is no entry of a folder" in each for each in sentences) >= 4
    assert not left.exists()


def test_without_a_state_directory_the_maker_alone_removes_it(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (place.parent / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(place.parent / "file"))
    made = Scratch("kafka-chaos-test-", beside=place)
    made.remove()
    made.remove()
    assert list(place.iterdir()) == []


@pytest.mark.parametrize("room", [0, 20])
def test_an_entry_that_finds_no_room_leaves_no_part_of_itself(
    place: Path, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    monkeypatch.setattr(os, "write", with_little_room(room))
    with scratch_folder("kafka-chaos-test-", beside=place) as made:
        assert made.is_dir()
        assert entries() == []
    assert not made.exists()
