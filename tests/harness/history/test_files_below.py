"""Nothing outside a foreign folder is read or written, and no access to it waits for ever."""

import contextlib
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import pytest

from harness.cluster.confined import empty
from harness.errors import HarnessError, UsageError
from harness.history import files_below
from harness.history.files_below import FilesBelow, all_below
from harness.history.jepsen.jepsen_import import history_files

SECRET = b"not yours"


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "file").write_bytes(SECRET)
    return tmp_path / "outside"


@pytest.fixture
def files(tmp_path: Path) -> FilesBelow:
    (tmp_path / "top" / "tables").mkdir(parents=True)
    return FilesBelow(tmp_path / "top")


ACTS: dict[str, Callable[[FilesBelow, str], object]] = {
    "read": lambda files, name: files.read(name),
    "replace": lambda files, name: files.replace(name, b"new"),
    "append": lambda files, name: files.append(name).close(),
    "make a folder": lambda files, name: files.make_folder(name),
    "remove a folder": lambda files, name: files.remove_folder(name),
    "look": lambda files, name: files.refuse_links(name),
}


@pytest.mark.parametrize("act", ACTS)
def test_a_link_is_refused_by_its_name_and_what_it_leads_to_stays(act: str, files: FilesBelow, outside: Path) -> None:
    target = outside if "folder" in act else outside / "file"
    (files.top / "tables" / "planted").symlink_to(target)

    with pytest.raises(UsageError, match=r"tables/planted is a symbolic link"):
        ACTS[act](files, "tables/planted")

    assert {path.name: path.read_bytes() for path in outside.iterdir()} == {"file": SECRET}


@pytest.mark.parametrize("act", [act for act in ACTS if act != "look"])
def test_a_link_on_the_way_is_refused_by_its_name(act: str, files: FilesBelow, outside: Path) -> None:
    (files.top / "planted").symlink_to(outside)

    with pytest.raises(UsageError, match=r"top/planted is a symbolic link"):
        ACTS[act](files, "planted/file")

    assert {path.name: path.read_bytes() for path in outside.iterdir()} == {"file": SECRET}


@pytest.mark.parametrize("act", ["read", "replace", "append", "look"])
def test_a_pipe_is_refused_and_not_waited_for(act: str, files: FilesBelow) -> None:
    os.mkfifo(files.top / "tables" / "pipe")

    with pytest.raises(UsageError, match=r"tables/pipe is a pipe, a socket or a device"):
        ACTS[act](files, "tables/pipe")


def test_a_look_goes_to_every_depth_and_what_is_not_there_is_no_link(files: FilesBelow, outside: Path) -> None:
    (files.top / "tables" / "deep").mkdir()
    files.refuse_links("tables", "nothing", "tables/nothing")
    (files.top / "tables" / "deep" / "planted").symlink_to(outside)

    with pytest.raises(UsageError, match=r"tables/deep/planted is a symbolic link"):
        files.refuse_links("nothing", "tables")


@pytest.mark.parametrize("act", ["read", "append"])
def test_a_link_that_comes_after_the_look_is_not_followed(
    act: str, files: FilesBelow, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = files.top / "tables" / "swapped"
    place.write_bytes(b"ours")
    look = files_below._refuse_unless_file

    def swapped_behind_it(mode: int, path: Path) -> None:
        look(mode, path)
        place.unlink()
        place.symlink_to(outside / "file")

    monkeypatch.setattr(files_below, "_refuse_unless_file", swapped_behind_it)
    with pytest.raises(UsageError, match=r"tables/swapped is a symbolic link"):
        ACTS[act](files, "tables/swapped")

    assert (outside / "file").read_bytes() == SECRET


def test_a_link_that_comes_before_a_new_file_is_made_is_not_written_through(
    files: FilesBelow, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def planted_instead(name: str, *, dir_fd: int) -> None:
        os.symlink(outside / "file", name, dir_fd=dir_fd)

    monkeypatch.setattr(os, "unlink", planted_instead)
    with pytest.raises(HarnessError, match=r"top/run.json cannot be written: File exists"):
        files.replace("run.json", b"{}")

    assert (outside / "file").read_bytes() == SECRET


def test_a_second_name_elsewhere_keeps_its_content_when_the_file_is_replaced(files: FilesBelow, outside: Path) -> None:
    for name in ("verdict.json", "verdict.json.unfinished"):
        (files.top / name).hardlink_to(outside / "file")

    files.replace("verdict.json", b"new")

    assert (outside / "file").read_bytes() == SECRET
    assert [path.name for path in files.top.iterdir() if path.is_file()] == ["verdict.json"]
    assert files.read("verdict.json") == b"new"


def test_nothing_is_appended_to_a_file_with_a_second_name(files: FilesBelow, outside: Path) -> None:
    (files.top / "harness.log").hardlink_to(outside / "file")

    with pytest.raises(HarnessError, match=r"harness.log has a second name"):
        files.append("harness.log")

    assert (outside / "file").read_bytes() == SECRET


def test_a_file_that_was_not_finished_leaves_the_old_one_and_nothing_else(files: FilesBelow) -> None:
    files.replace("run.json", b"old")

    def half_a_file() -> None:
        with files.replacing("run.json") as file:
            file.write(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        half_a_file()

    assert {path.name: path.read_bytes() for path in files.top.iterdir() if path.is_file()} == {"run.json": b"old"}


def test_of_two_that_write_one_file_at_once_the_second_does_and_the_first_gets_an_error(files: FilesBelow) -> None:
    def both() -> None:
        with contextlib.ExitStack() as stack:
            mine = stack.enter_context(files.replacing("run.json"))
            mine.write(b"first")
            theirs = stack.enter_context(files.replacing("run.json"))
            theirs.write(b"second")

    with pytest.raises(HarnessError, match=r"run.json: another kafka-chaos writes it too"):
        both()

    assert files.read("run.json") == b"second"
    assert not (files.top / "run.json.unfinished").exists()


def test_a_writer_that_was_overtaken_leaves_the_others_half_alone(files: FilesBelow) -> None:
    def overtaken(by: contextlib.ExitStack) -> BinaryIO:
        with files.replacing("run.json"):
            return by.enter_context(files.replacing("run.json"))

    with contextlib.ExitStack() as stack:
        with pytest.raises(HarnessError, match=r"another kafka-chaos writes it too"):
            overtaken(stack)
        (half,) = files.top.glob("run.json.unfinished")
        half.write_bytes(b"whole")

    assert files.read("run.json") == b"whole"


def test_a_look_ends_however_deep_the_folders_go(files: FilesBelow) -> None:
    here = os.getcwd()
    try:
        os.chdir(files.top / "tables")
        for _ in range(20):
            os.mkdir("d" * 250)
            os.chdir("d" * 250)
    finally:
        os.chdir(here)

    with pytest.raises(HarnessError, match=r"cannot be read: File name too long"):
        files.refuse_links("tables")


def test_a_folder_goes_with_the_links_in_it_and_not_with_what_they_lead_to(files: FilesBelow, outside: Path) -> None:
    (files.top / "tables" / "planted").symlink_to(outside)

    files.remove_folder("tables")
    files.remove_folder("tables")

    assert not (files.top / "tables").exists()
    assert (outside / "file").read_bytes() == SECRET


def test_the_top_may_be_a_link_and_is_followed_once(files: FilesBelow, tmp_path: Path, outside: Path) -> None:
    (tmp_path / "latest").symlink_to("top")
    below = FilesBelow(tmp_path / "latest")
    (tmp_path / "latest").unlink()
    (tmp_path / "latest").symlink_to(outside)

    below.replace("run.json", b"{}")

    assert files.read("run.json") == b"{}"
    assert not (outside / "run.json").exists()


def test_a_top_that_has_become_a_link_since_is_refused(files: FilesBelow, tmp_path: Path, outside: Path) -> None:
    files.top.rename(tmp_path / "moved")
    files.top.symlink_to(outside)

    with pytest.raises(UsageError, match=r"top is a symbolic link"):
        files.replace("run.json", b"{}")

    assert not (outside / "run.json").exists()


def test_what_cannot_be_written_is_one_line_with_the_place(files: FilesBelow) -> None:
    with pytest.raises(HarnessError, match=r"top/none/run.json cannot be written: No such file"):
        files.replace("none/run.json", b"{}")


def deep(folder: Path, *, levels: int = 400) -> Path:
    """Folders in each other, more than anybody may walk down; short enough to be removed by whoever cleans up."""
    folder.joinpath(*["d"] * levels).mkdir(parents=True)
    return folder


def test_folders_without_end_are_one_short_line_and_nobody_walks_down(tmp_path: Path) -> None:
    files = FilesBelow(deep(tmp_path / "run"))
    with pytest.raises(HarnessError, match=r"/run/d: folders nested more than 100 deep: remove them$"):
        files.refuse_links("d")
    with pytest.raises(HarnessError, match="nested more than 100 deep"):
        history_files([tmp_path])
    with pytest.raises(HarnessError, match="nested more than 100 deep"):
        list(all_below(tmp_path))


def test_what_is_nested_too_deep_to_be_removed_is_one_line(tmp_path: Path) -> None:
    here = os.open(tmp_path, os.O_RDONLY)
    for _ in range(1200):
        os.mkdir("d", dir_fd=here)
        inner = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)
    try:
        with pytest.raises(HarnessError, match=r"/d cannot be written: its folders are nested too deep: remove it$"):
            FilesBelow(tmp_path).remove_folder("d")
        with pytest.raises(HarnessError, match=r"cannot be emptied: its folders are nested too deep; remove it$"):
            empty(tmp_path / "d", top=tmp_path)
    finally:
        subprocess.run(["rm", "-rf", str(tmp_path / "d")], check=True)
