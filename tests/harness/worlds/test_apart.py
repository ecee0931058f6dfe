"""The process of a simulated run: it hears an interrupt, and makes no run a second time."""

import asyncio
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from harness import compose
from harness.cli import simulated_run
from harness.controller.run import RunOutcome
from harness.errors import UsageError
from harness.history.run_folder import RunFolder
from harness.host.clock import SystemClock
from harness.preflight.looking import all_ready
from harness.worlds.apart import simulate_apart


def test_a_run_that_was_made_is_not_made_over(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, scenario="s", clock=SystemClock(), seed=1, stamp="simulated-1")
    folder.update(phases=[{"name": "start", "t": 1}])

    with pytest.raises(UsageError, match="this run was made already"):
        simulated_run.work(str(folder.path))


@pytest.mark.cluster
def test_an_interrupt_before_the_process_hears_any_is_not_lost(tmp_path: Path) -> None:
    (scenario,) = all_ready([("no-faults", ["cluster.world=simulated"])])
    _, folder = compose._begun(scenario, runs=tmp_path, seed=1, command=[])

    async def interrupted_at_once() -> RunOutcome:
        interrupt = asyncio.Event()
        interrupt.set()
        return await simulate_apart(folder, interrupt=interrupt, progress=lambda _: None)

    outcome = asyncio.run(interrupted_at_once())

    assert (outcome.status, folder.run["status"]) == ("interrupted", "interrupted")


@pytest.mark.cluster
@pytest.mark.slow
def test_an_interrupt_ends_the_plan_and_keeps_what_was_recorded(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "harness", "run", "no-faults", "--world", "simulated", "--no-check"]
    process = subprocess.Popen(
        [*command, "--runs", str(tmp_path), "--set", "workload.duration=3600 s"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    said = []
    for line in process.stdout:
        said.append(line)
        if line.split()[-1:] == ["act"]:
            process.send_signal(signal.SIGINT)
            break
    said.append(process.stdout.read())
    code = process.wait(timeout=300)

    run = json.loads((tmp_path / "simulated-1-no-faults" / "run.json").read_text())
    assert code == 3, "".join(said)
    assert (run["status"], run["interrupted"]) == ("interrupted", True)
    assert (tmp_path / "simulated-1-no-faults" / "tables" / "records.parquet").is_file()
