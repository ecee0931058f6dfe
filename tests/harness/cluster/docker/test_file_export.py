"""Only folders and plain files are copied out of a container; everything else stays there and is listed."""

import io
import itertools
import os
import stat
import tarfile
from pathlib import Path

import pytest

from harness.cluster.docker.file_export import LEFT_OUT, copy, extract, joined, note
from harness.errors import HarnessError
from harness.host import memory


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "secret"
    path.write_text("this machine's own")
    return path


def _files(folder: Path) -> dict[str, bytes]:
    """Read without following links: there must be none."""
    found = {}
    for path in sorted(folder.rglob("*")):
        assert not path.is_symlink(), path
        if path.is_file():
            found[str(path.relative_to(folder))] = path.read_bytes()
    return found


def test_a_volume_is_copied_without_what_its_links_lead_to(tmp_path: Path, secret: Path) -> None:
    volume, kept = tmp_path / "volume", tmp_path / "kept"
    (volume / "data" / "orders-0").mkdir(parents=True)
    (volume / "data" / "orders-0" / "0.log").write_bytes(b"records")
    (volume / "log").write_bytes(b"lines")
    (volume / "stolen").symlink_to(secret)
    (volume / "data" / "away").symlink_to(tmp_path)
    os.mkfifo(volume / "pipe")
    (kept / "data").mkdir(parents=True)

    left_out = copy(volume, kept)

    assert _files(kept) == {"data/orders-0/0.log": b"records", "log": b"lines"}
    assert sorted(left_out) == ["'data/away': a link\n", "'pipe': no plain file\n", "'stolen': a link\n"]


def test_a_copy_keeps_the_times_and_no_rights(tmp_path: Path) -> None:
    program = tmp_path / "volume" / "program"
    program.parent.mkdir()
    program.write_bytes(b"#!")
    program.chmod(0o4755)
    os.utime(program, ns=(10**18, 10**18))
    copy(program.parent, tmp_path / "kept")
    found = (tmp_path / "kept" / "program").stat()
    assert found.st_mtime_ns == 10**18
    assert stat.S_IMODE(found.st_mode) & (stat.S_ISUID | 0o111) == 0


def test_a_file_that_only_says_how_large_it_is_takes_no_disk(tmp_path: Path) -> None:
    volume, kept = tmp_path / "volume", tmp_path / "kept"
    volume.mkdir()
    with (volume / "vast").open("wb") as file:
        for place in (0, 3 << 20, 1 << 40):
            file.seek(place)
            file.write(b"something")
        file.truncate((1 << 40) + 100)

    copy(volume, kept)

    with (kept / "vast").open("rb") as file:
        for place in (0, 3 << 20, 1 << 40):
            file.seek(place)
            assert file.read(12) == b"something\0\0\0"
    assert (kept / "vast").stat().st_size == (1 << 40) + 100
    assert (kept / "vast").stat().st_blocks * 512 < 1 << 20


def test_an_archive_without_end_is_refused_when_it_takes_more_memory_than_is_allowed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(memory, "_allowed_mb", 3)
    with pytest.raises(HarnessError, match="the volume of node 1, as far as it came, would take about 4 MB"):
        joined(itertools.repeat(bytes(1 << 20)), "the volume of node 1")
    assert joined([b"a", b"bc"], "it") == b"abc"


def test_a_copy_is_not_written_through_a_link_that_waits_for_it(tmp_path: Path, secret: Path) -> None:
    (tmp_path / "volume").mkdir()
    (tmp_path / "volume" / "log").write_bytes(b"lines")
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "log").symlink_to(secret)
    with pytest.raises(OSError, match="symbolic link"):
        copy(tmp_path / "volume", tmp_path / "kept")
    assert secret.read_text() == "this machine's own"


def _archive(*members: tuple[str, bytes, str]) -> bytes:
    """(name, kind of tar member, content or where it leads)."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, kind, content in members:
            entry = tarfile.TarInfo(name)
            entry.type = kind
            if kind == tarfile.REGTYPE:
                entry.size = len(content)
                archive.addfile(entry, io.BytesIO(content.encode()))
            else:
                entry.linkname = content
                archive.addfile(entry)
    return buffer.getvalue()


def test_an_archive_is_taken_without_what_leads_elsewhere(tmp_path: Path, secret: Path) -> None:
    target = tmp_path / "taken" / "here"
    archive = _archive(
        ("./", tarfile.DIRTYPE, ""),
        ("./data", tarfile.DIRTYPE, ""),
        ("./data/0.log", tarfile.REGTYPE, "records"),
        ("../beside", tarfile.REGTYPE, "beside"),
        ("./data/../../../above", tarfile.REGTYPE, "above"),
        ("./link", tarfile.SYMTYPE, str(secret)),
        ("./within", tarfile.SYMTYPE, "data/0.log"),
        ("./way", tarfile.SYMTYPE, ".."),
        ("./way/through", tarfile.REGTYPE, "through"),
        ("./hard", tarfile.LNKTYPE, "link"),
        ("./far", tarfile.LNKTYPE, "../../secret"),
        ("./device", tarfile.CHRTYPE, ""),
        ("./disk", tarfile.BLKTYPE, ""),
        ("./pipe", tarfile.FIFOTYPE, ""),
        ("./log", tarfile.REGTYPE, "lines"),
    )
    left_out = extract(archive, target)

    assert _files(target) == {"data/0.log": b"records", "log": b"lines", "way/through": b"through"}
    assert _files(tmp_path) == {
        "secret": b"this machine's own",
        **{f"taken/here/{name}": content for name, content in _files(target).items()},
    }
    assert len(left_out) == 10
    assert "'../beside': outside of the folder\n" in left_out
    assert "'./device': no plain file\n" in left_out


def test_an_absolute_name_is_taken_into_the_folder(tmp_path: Path) -> None:
    extract(_archive((f"{tmp_path}/absolute", tarfile.REGTYPE, "x")), tmp_path / "taken")
    assert not (tmp_path / "absolute").exists()
    assert list(_files(tmp_path / "taken").values()) == [b"x"]


def test_an_archive_is_not_written_through_a_link_that_waits_for_it(tmp_path: Path, secret: Path) -> None:
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "log").symlink_to(secret)
    left_out = extract(_archive(("./log", tarfile.REGTYPE, "lines")), tmp_path / "taken")
    assert left_out == ["'./log': outside of the folder\n"]
    assert secret.read_text() == "this machine's own"


def test_what_was_left_out_is_noted_and_nothing_else_is(tmp_path: Path) -> None:
    note([], tmp_path)
    assert not (tmp_path / LEFT_OUT).exists()
    note(["'link': a link\n"], tmp_path)
    assert (tmp_path / LEFT_OUT).read_text().splitlines()[1:] == ["'link': a link"]


def test_folders_that_are_nested_without_end_are_left_out_and_the_rest_is_copied(tmp_path: Path) -> None:
    volume = tmp_path / "volume"
    (volume / "data").mkdir(parents=True)
    (volume / "log").write_bytes(b"lines")
    here = os.open(volume / "data", os.O_RDONLY)
    for _ in range(60):
        os.mkdir("d" * 200, dir_fd=here)
        inner = os.open("d" * 200, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)
    deep = _archive(*((f"./{'d/' * count}", tarfile.DIRTYPE, "") for count in range(1, 40)))

    (copied,) = copy(volume, tmp_path / "kept")
    extracted = extract(deep, tmp_path / "taken")

    assert _files(tmp_path / "kept") == {"log": b"lines"}
    assert copied.endswith("folders nested more than 12 deep\n")
    assert len(extracted) == 39 - 13
    assert all(line.endswith("nested more than 12 deep\n") for line in extracted)


def test_a_note_of_what_was_left_out_is_made_where_nothing_else_was_taken(tmp_path: Path) -> None:
    note(["all of it\n"], tmp_path / "kept")
    assert (tmp_path / "kept" / LEFT_OUT).read_text().splitlines()[1:] == ["all of it"]
