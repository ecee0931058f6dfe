"""The process that converts beside a run: it ends as told or by itself, and a run goes well without it."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from benchmarks.history_writing import write_run
from harness.controller import follower
from harness.controller.context import RunContext
from harness.controller.follower import Follower
from harness.controller.workers import spawn_plainly
from harness.history.journals.pieces import FOLDER, Journals
from harness.history.run_folder import RunFolder
from harness.history.schema.schemas import TABLES
from harness.history.sealed.sealing import seal
from tests.waiting import PATIENCE_S, comes_true


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run on a busy machine gives it up after a second, and converts again: not what is looked at here."""
    monkeypatch.setattr(follower, "END_S", PATIENCE_S)


async def started(run: Path) -> tuple[Follower, Any]:
    (run / FOLDER).mkdir(exist_ok=True)
    processes = []

    async def spawn(arguments: Any, *, log: Path) -> Any:
        processes.append(await spawn_plainly(arguments, log=log))
        return processes[-1]

    return await Follower.start(run, spawn=spawn), processes[0]


async def until_it_has_begun(process: Any) -> None:
    """It is at work as soon as it has gone to the end of the queue."""

    async def last_in_the_queue() -> bool:
        return os.getpriority(os.PRIO_PROCESS, process.pid) == 19

    await comes_true(last_in_the_queue, "the follower's priority")


async def test_it_puts_away_what_it_has_when_told_to_end_and_the_seal_takes_it(tmp_path: Path) -> None:
    write_run(tmp_path / "run", 2_000)
    run = RunFolder(tmp_path / "run")
    seal(run)
    ordinary = {name: run.table(name) for name in TABLES}
    follower, process = await started(run.path)
    await until_it_has_begun(process)
    assert os.sched_getscheduler(process.pid) in (os.SCHED_BATCH, os.SCHED_OTHER)

    assert await follower.end() is None

    assert [path.name for path in (run.path / FOLDER).glob("piece-*")] == ["piece-00000"]
    seal(run)
    assert {name: run.table(name) for name in TABLES} == ordinary
    assert not (run.path / FOLDER).exists()


async def test_what_it_put_away_before_it_was_killed_is_taken_by_the_seal(tmp_path: Path) -> None:
    write_run(tmp_path / "run", 320_000)
    run = RunFolder(tmp_path / "run")
    seal(run)
    ordinary = {name: run.table(name) for name in TABLES}
    pieces = run.path / FOLDER
    _, process = await started(run.path)

    async def one_piece() -> bool:
        return (pieces / "piece-00000").exists()

    await comes_true(one_piece, "what the follower put away")
    process.kill()
    await process.wait()

    taken = Journals.resumed(pieces, run.history)
    assert len(taken.ended()) > 5
    seal(run)
    assert {name: run.table(name) for name in TABLES} == ordinary
    assert not (run.path / "harness.log").exists()


async def test_it_is_gone_once_the_harness_is(tmp_path: Path) -> None:
    write_run(tmp_path / "run", 2_000)
    follower, process = await started(tmp_path / "run")

    process.stdin.close()  # as the kernel does with a process that was killed

    assert await process.wait() == 1
    assert await follower.end() == "the conversion beside the run ended with code 1: no last words"


async def test_a_run_whose_follower_was_killed_is_sealed_all_the_same_and_harness_log_says_so(stage: Any) -> None:
    async def story(context: RunContext) -> None:
        await context.acks.wait_for(60)
        (process,) = processes
        process.send_signal(signal.SIGKILL)
        await process.wait()

    processes = []
    staged = stage(story)

    async def follow() -> Follower:
        follower, process = await started(staged.folder.path)
        processes.append(process)
        return follower

    staged.run.follow = follow
    outcome = await staged.run.go()

    assert (outcome.status, outcome.inconclusive) == ("complete", ())
    sent = [row for row in staged.folder.table("records").to_pylist() if row["kind"] == 0]
    assert len(sent) >= 60
    (line,) = (staged.folder.path / "harness.log").read_text().splitlines()
    assert line.endswith("the conversion beside the run ended with code -9: no last words")
    assert not (staged.folder.path / FOLDER).exists()


async def test_a_run_with_a_follower_has_the_tables_of_a_run_sealed_from_the_beginning(stage: Any) -> None:
    async def story(context: RunContext) -> None:
        await context.acks.wait_for(60)
        await until_it_has_begun(processes[0])

    processes = []
    staged = stage(story)

    async def follow() -> Follower:
        follower, process = await started(staged.folder.path)
        processes.append(process)
        return follower

    staged.run.follow = follow
    await staged.run.go()

    assert processes[0].returncode == 0
    assert not (staged.folder.path / FOLDER).exists()
    tables = {name: staged.folder.table(name) for name in TABLES}
    seal(staged.folder)
    assert {name: staged.folder.table(name) for name in TABLES} == tables
    assert not (staged.folder.path / "harness.log").exists()


async def test_a_run_whose_follower_cannot_be_started_does_without(stage: Any) -> None:
    async def story(context: RunContext) -> None:
        await context.acks.wait_for(20)

    async def follow() -> Follower:
        raise OSError(11, "Resource temporarily unavailable")

    staged = stage(story)
    staged.run.follow = follow

    assert (await staged.run.go()).status == "complete"
    (line,) = (staged.folder.path / "harness.log").read_text().splitlines()
    assert line.endswith("no conversion beside the run: [Errno 11] Resource temporarily unavailable")
