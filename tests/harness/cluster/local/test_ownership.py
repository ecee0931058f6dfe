"""The sweep ends what a dead run left behind, and nothing else."""

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.cluster.local.ownership import RunOwnership, processes_of, sweep
from harness.cluster.local.processes import MARKER, PROCESSES, Spawner, boot_id, start_time, state_of
from harness.errors import HarnessError

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


def test_the_sweep_forgets_runs_whose_folder_is_gone_and_entries_half_written(run: Path) -> None:
    entries = run.parent / "state" / "kafka-chaos" / "runs"
    entries.mkdir(parents=True)
    (entries / "a.json").write_text(json.dumps({"run": str(run / "gone")}))
    (entries / "b.json").write_text('{"run": ')
    assert sweep() == []
    assert list(entries.iterdir()) == []


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
