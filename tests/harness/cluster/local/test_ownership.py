"""The sweep ends what a dead run left behind, and nothing else."""

import errno
import json
import os
import select
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.cluster.local.ownership import LOCK, LeftRun, RunOwnership, processes_of, sweep
from harness.cluster.local.processes import MARKER, PROCESSES, Spawner, boot_id, start_time, state_of
from harness.errors import HarnessError
from harness.host.user_folders import state_directory
from tests.little_room import with_little_room
from tests.waiting import until

_HOLDER = """
import os, pathlib, signal, sys
from harness.cluster.local.ownership import RunOwnership
with RunOwnership(pathlib.Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    folder = tmp_path / "run"
    folder.mkdir()
    return folder


@pytest.fixture
def children() -> Iterator[list[subprocess.Popen[Any]]]:
    started: list[subprocess.Popen[Any]] = []
    yield started
    for child in started:
        child.kill()
        child.wait()
        for stream in (child.stdin, child.stdout):
            if stream is not None:
                stream.close()


def _sleeper(children: list[subprocess.Popen[Any]], marker: str | None) -> int:
    environment = {key: value for key, value in os.environ.items() if key != MARKER}
    child = subprocess.Popen(["sleep", "60"], env=environment | ({MARKER: marker} if marker else {}))
    children.append(child)
    # Popen returns while the kernel is still laying the new program's environment, which is empty until then.
    until(lambda: Path(f"/proc/{child.pid}/environ").read_bytes(), "the child has its environment")
    return child.pid


def _write_down(run: Path, pid: int, **changed: Any) -> None:
    entry = {"pid": pid, "start": start_time(pid), "boot": boot_id(), "command": "sleep 60", **changed}
    with (run / PROCESSES).open("a", encoding="utf-8") as file:
        file.write(json.dumps(entry) + "\n")


def _holder(children: list[subprocess.Popen[Any]], run: Path) -> subprocess.Popen[str]:
    holder = subprocess.Popen(
        [sys.executable, "-c", _HOLDER, str(run)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    children.append(holder)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    return holder


def test_after_the_death_of_the_harness_exactly_its_processes_are_ended(
    run: Path, children: list[subprocess.Popen[Any]]
) -> None:
    holder = _holder(children, run)
    ours, reused, unmarked, other_run, other_boot = (
        _sleeper(children, marker) for marker in (str(run), str(run), None, str(run) + "2", str(run))
    )
    _write_down(run, ours)
    _write_down(run, reused, start=(start_time(reused) or 0) - 1)
    _write_down(run, unmarked)
    _write_down(run, other_run)
    _write_down(run, other_boot, boot="another")
    with (run / PROCESSES).open("a", encoding="utf-8") as file:
        file.write('{"pid": 1, "sta')  # killed while writing

    assert sweep() == []
    assert list(processes_of(run)) == [ours]
    holder.kill()
    holder.wait()
    (sentence,) = sweep()
    assert f"process {ours} " in sentence
    assert str(run) in sentence
    assert children[1].wait(5) == -signal.SIGKILL
    assert [child.poll() for child in children[2:]] == [None] * 4
    assert sweep() == []


def test_a_run_is_worked_on_once_at_a_time(run: Path) -> None:
    with RunOwnership(run):
        with pytest.raises(HarnessError, match="another kafka-chaos is at work"), RunOwnership(run):
            pass
        assert sweep() == []
    with RunOwnership(run):
        pass


def _entries(run: Path) -> Path:
    return run.parent / "state" / "kafka-chaos" / "runs"


@pytest.fixture
def over(run: Path, children: list[subprocess.Popen[Any]]) -> Path:
    """A run whose harness was killed, with a process of it that goes on."""
    holder = _holder(children, run)
    _write_down(run, _sleeper(children, str(run)))
    holder.kill()
    holder.wait()
    return run


def test_the_sweep_forgets_runs_whose_folder_is_gone(over: Path) -> None:
    shutil.rmtree(over)
    assert sweep() == []
    assert list(_entries(over).iterdir()) == []


def _another_in_its_place(run: Path) -> None:
    run.rename(run.with_name("moved"))
    shutil.copytree(run.with_name("moved"), run)


def _a_link_in_its_place(run: Path) -> None:
    run.rename(run.with_name("moved"))
    run.symlink_to("moved")


def _another_users(run: Path) -> None:
    os.chown(run, 65534, 65534)


def _open_to_all(run: Path) -> None:
    run.chmod(0o777)


@pytest.mark.parametrize(
    ("tamper", "expected"),
    [
        (_another_in_its_place, "another folder was put in its place"),
        (_a_link_in_its_place, "it cannot be opened as a folder"),
        (_open_to_all, "others than its owner may write in it"),
        pytest.param(
            _another_users,
            "it belongs to user 65534",
            marks=pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away"),
        ),
    ],
)
def test_nothing_is_read_or_done_in_a_folder_that_is_not_the_runs(
    over: Path, children: list[subprocess.Popen[Any]], tamper: Callable[[Path], None], expected: str
) -> None:
    undone: list[LeftRun] = []

    def undo(left: LeftRun) -> tuple[list[str], bool]:
        undone.append(left)
        return [], True

    tamper(over)
    (over / LOCK).unlink()
    (sentence,) = sweep(undo)
    assert sentence.startswith(f"{over} is not the folder of the run that was entered ({expected}")
    assert undone == []
    assert children[1].poll() is None
    assert not (over / LOCK).exists()
    assert list(_entries(over).iterdir()) == []


def test_a_folder_that_is_moved_away_while_it_is_swept_is_still_the_one_that_is_read(over: Path) -> None:
    (over / "owed").write_text("ours")

    def undo(left: LeftRun) -> tuple[list[str], bool]:
        _another_in_its_place(over)
        (over / "owed").write_text("theirs")
        return [f"{left.path.name} owed {(left.folder / 'owed').read_text()}"], True

    assert sweep(undo)[-1] == "run owed ours"


def test_a_link_in_the_place_of_the_lock_makes_no_file_elsewhere(over: Path) -> None:
    (over / LOCK).unlink()
    (over / LOCK).symlink_to(over.parent / "elsewhere")
    (sentence,) = sweep()
    assert sentence.startswith(f"{over / LOCK} is no lock of a run (Too many levels of symbolic links)")
    with pytest.raises(HarnessError, match="cannot be locked"), RunOwnership(over):
        pass
    assert not (over.parent / "elsewhere").exists()


@pytest.mark.parametrize("room", [0, 20])
def test_an_entry_that_finds_no_room_refuses_the_run_names_its_place_and_leaves_nothing(
    run: Path, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    with monkeypatch.context() as full:
        full.setattr(os, "write", with_little_room(room))
        with pytest.raises(HarnessError, match="No space left on device") as refused, RunOwnership(run):
            pytest.fail("it is not entered")
    assert str(state_directory() / "runs") in str(refused.value)
    assert "see XDG_STATE_HOME" in str(refused.value)
    assert list((state_directory() / "runs").iterdir()) == []
    with RunOwnership(run):
        assert len(list((state_directory() / "runs").iterdir())) == 1


def test_a_device_with_another_number_after_a_restart_is_the_same_device(over: Path) -> None:
    (entry,) = _entries(over).iterdir()
    written = json.loads(entry.read_text())
    entry.write_text(json.dumps(written | {"device": written["device"] + 1}))
    assert "another folder" in sweep()[0]
    entry.write_text(json.dumps(written | {"device": written["device"] + 1, "boot": "another"}))
    assert "ended process" in sweep()[0]


def _file(content: str) -> Callable[[Path], object]:
    return lambda path: path.write_text(content)


_WHOLE = {"run": "/nowhere", "device": 1, "inode": 1, "uid": 0, "boot": "b"}


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(_file(""), id="empty"),
        pytest.param(_file('{"run": '), id="half written"),
        pytest.param(_file("[]"), id="a list"),
        pytest.param(_file("[" * 60_000), id="deep"),
        pytest.param(_file('{"run": "/nowhere"}'), id="of an older version"),
        pytest.param(_file(json.dumps(_WHOLE | {"run": 5})), id="a run that is a number"),
        pytest.param(_file(json.dumps(_WHOLE | {"run": "near"})), id="a run that is nowhere"),
        pytest.param(_file(json.dumps(_WHOLE | {"run": "/a\0b"})), id="a run with a zero byte"),
        pytest.param(_file(json.dumps(_WHOLE | {"run": "/\ud800"})), id="a run with half a character"),
        pytest.param(_file(json.dumps(_WHOLE | {"inode": "many"})), id="an inode in words"),
        pytest.param(_file(json.dumps(_WHOLE | {"boot": None})), id="no boot"),
        pytest.param(_file(" " * (1 << 20)), id="large"),
        pytest.param(lambda path: path.write_bytes(b"\xff\xfe{"), id="no text"),
        pytest.param(lambda path: path.symlink_to("/etc/passwd"), id="a link"),
        pytest.param(os.mkfifo, id="a pipe"),
    ],
)
def test_an_entry_that_is_none_costs_a_sentence_and_itself_and_the_others_are_swept(
    over: Path, children: list[subprocess.Popen[Any]], damage: Callable[[Path], object]
) -> None:
    before, after = _entries(over) / "0.json", _entries(over) / "z.json"
    damage(before)
    damage(after)
    first, ended, last = sweep()
    assert first.startswith(f"removed {before} is no entry of a run (")
    assert last.startswith(f"removed {after} is no entry of a run (")
    assert "\n" not in first
    assert f"process {children[1].pid} " in ended
    assert sweep() == []


def test_a_folder_among_the_entries_is_reported_and_left(over: Path) -> None:
    folder = _entries(over) / "0.json"
    folder.mkdir()
    first, ended = sweep()
    assert first.startswith(f"{folder} is no entry of a run (it is no file), and cannot be removed")
    assert "ended process" in ended


def test_lines_that_name_no_process_cost_nothing_but_themselves(
    over: Path, children: list[subprocess.Popen[Any]]
) -> None:
    listed = (over / PROCESSES).read_text()
    entry = json.loads(listed)
    for wrong in ({"pid": 1 << 70}, {"pid": -1}, {"pid": 0}, {"pid": "1"}, {"pid": None}, {"start": "x"}, {"boot": 1}):
        listed = json.dumps(entry | wrong) + "\n" + listed
    deep = json.dumps(entry).replace("}", ', "more": ' + "[" * 50_000)
    (over / PROCESSES).write_text(f"[]\n5\nnull\n{deep}\n{listed}")
    (sentence,) = sweep()
    assert f"process {children[1].pid} " in sentence


def test_a_process_that_got_the_pid_in_the_last_moment_is_not_hit(
    over: Path, children: list[subprocess.Popen[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The signal goes to what was asked about, and not to whoever has its number when it is sent."""
    signalled = signal.pidfd_send_signal

    def late(held: int, number: signal.Signals) -> None:
        signalled(held, number)
        children[1].wait()  # from here on the number is free for anybody
        signalled(held, number)

    monkeypatch.setattr(signal, "pidfd_send_signal", late)
    monkeypatch.setattr(os, "kill", lambda *_: pytest.fail("by number"))
    assert sweep() == []


def test_where_the_kernel_has_no_descriptors_of_processes_they_are_ended_by_number(
    over: Path, children: list[subprocess.Popen[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(pid: int) -> int:
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(os, "pidfd_open", refused)
    (sentence,) = sweep()
    assert f"process {children[1].pid} " in sentence
    assert children[1].wait(5) == -signal.SIGKILL


def test_the_state_directory_is_its_users_alone(run: Path) -> None:
    state_directory().chmod(0o755)  # as an older version made it
    with RunOwnership(run):
        (entry,) = _entries(run).iterdir()
        assert stat.S_IMODE(entry.stat().st_mode) & 0o077 == 0
    assert stat.S_IMODE(state_directory().stat().st_mode) == 0o700


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_nobody_obeys_what_another_user_has_entered(over: Path, children: list[subprocess.Popen[Any]]) -> None:
    os.chown(_entries(over).parent, 65534, 65534)
    with pytest.raises(HarnessError, match=r"belongs to user 65534 .* XDG_STATE_HOME chooses another place"):
        sweep()
    assert children[1].poll() is None


def test_a_state_directory_that_cannot_be_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    with pytest.raises(HarnessError, match=r"^[^\n]*XDG_STATE_HOME chooses another$"):
        state_directory()


def test_a_file_in_the_place_of_the_entries_is_one_line(run: Path) -> None:
    (state_directory() / "runs").write_text("")
    with pytest.raises(HarnessError, match=r"^[^\n]*runs: no folder for what runs leave word of [^\n]*; remove it$"):
        sweep()


def test_two_sweeps_at_once_do_not_trip_over_each_other(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with RunOwnership(run):
        entries = run.parent / "state" / "kafka-chaos" / "runs"
        (entry,) = entries.iterdir()
    listed = Path.glob

    def stale(folder: Path, pattern: str) -> list[Path]:
        return [*listed(folder, pattern), entry]  # removed by its owner since

    monkeypatch.setattr(Path, "glob", stale)
    assert sweep() == []


async def test_a_spawned_process_is_written_down_and_marked(run: Path) -> None:
    process = await Spawner(run=run).spawn(["sleep", "60"], log=run / "log")
    try:
        # exec has happened once spawn returns: asyncio waits for it
        assert list(processes_of(run)) == [process.pid]
        assert state_of(process.pid) in ("R", "S", "D")
    finally:
        process.kill()
        await process.wait()
    assert list(processes_of(run)) == []
    assert state_of(process.pid) == ""
    assert start_time(process.pid) is None


def test_a_child_dies_with_the_harness(run: Path, children: list[subprocess.Popen[Any]]) -> None:
    code = """
import asyncio, pathlib, sys
from harness.cluster.local.processes import Spawner
async def main():
    run = pathlib.Path(sys.argv[1])
    process = await Spawner(run=run).spawn(["sleep", "60"], log=run / "log")
    print(process.pid, flush=True)
    await process.wait()
asyncio.run(main())
"""
    harness = subprocess.Popen([sys.executable, "-c", code, str(run)], stdout=subprocess.PIPE, text=True)
    children.append(harness)
    assert harness.stdout is not None
    pid = int(harness.stdout.readline())
    descriptor = os.pidfd_open(pid)
    harness.kill()
    try:
        ended, _, _ = select.select([descriptor], [], [], 5)
    finally:
        os.close(descriptor)
    assert ended, "its end is readable on the descriptor"
