"""A run that is ended early: by Ctrl-C it still heals, stops and judges; by kill -9 the next command cleans up and
judges what there is. Neither leaves a process, and neither is an error."""

import json
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.end_to_end.shell import Shell, phase_of, read_json
from tests.waiting import until


@pytest.fixture
def running(fresh_shell: Shell) -> Iterator[subprocess.Popen[bytes]]:
    """A run of unclean-election that has its folder."""
    process = fresh_shell.start("run", "unclean-election")
    try:
        until(lambda: fresh_shell.has_begun() or process.poll() is not None, "the run folder")
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(30)


def has_started_a_node(folder: Path) -> bool:
    return (folder / "processes.jsonl").is_file()


def is_inside_a_fault(folder: Path) -> bool:
    """The leader was cut from its followers, and clients go on."""
    rows = folder / "history" / "controller.jsonl"
    return phase_of(folder) == "act" and rows.is_file() and '"table":"faults"' in rows.read_text()


def has_acknowledged(folder: Path) -> bool:
    return any('["S",' in path.read_text() for path in folder.glob("history/producer-*.jsonl"))


def test_an_interrupt_heals_stops_and_judges(fresh_shell: Shell, running: subprocess.Popen[bytes]) -> None:
    folder = fresh_shell.folder
    until(lambda: is_inside_a_fault(folder), "a fault")

    running.send_signal(signal.SIGINT)
    code = running.wait(90)

    printed = fresh_shell.output.read_text()
    assert code == 3, printed
    assert "INCONCLUSIVE" in printed
    assert "Traceback" not in printed
    run = read_json(folder / "run.json")
    assert run["interrupted"]
    names = [each["name"] for each in run["phases"]]
    assert names.index("act") < names.index("heal") < names.index("stop") < names.index("seal")
    assert (folder / "report.html").is_file()
    assert fresh_shell.processes() == []


@pytest.mark.parametrize(
    ("moment", "has_operations"),
    [(has_started_a_node, False), (is_inside_a_fault, True)],
    ids=["while-nodes-start", "inside-a-fault"],
)
def test_a_killed_harness_leaves_nothing_after_the_next_command_and_its_run_can_be_judged(
    fresh_shell: Shell, running: subprocess.Popen[bytes], moment: Callable[[Path], bool], has_operations: bool
) -> None:
    folder = fresh_shell.folder
    until(lambda: moment(folder), moment.__name__)

    running.kill()
    running.wait(30)
    swept = fresh_shell.run("sweep")
    assert swept.returncode == 0, swept.stderr
    until(lambda: not fresh_shell.processes(), "the end of what was left behind")
    assert has_acknowledged(folder) == has_operations

    judged = fresh_shell.run("check", folder.name)

    assert judged.returncode in (0, 1, 3), judged.stdout + judged.stderr
    verdict = json.loads((folder / "verdict.json").read_text())
    assert verdict["exit_code"] == judged.returncode
    assert "he harness was ended in phase" in json.dumps(verdict) + judged.stdout
    assert verdict["counts"]["violation"] == 0
    assert read_json(folder / "run.json")["status"] == "unfinished"
    assert (folder / "report.html").is_file()
    assert fresh_shell.processes() == []
