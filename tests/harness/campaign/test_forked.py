"""Simulated runs of a campaign are forks of one process: each is what it would be alone, and ends as it ended."""

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from harness.campaign.forked import ForkedRun, ForkedRuns

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

SCENARIO = """
[cluster]
world = "simulated"
[[topics]]
name = "orders"
[workload]
duration = "2 s"
rate_per_second = 20
[[faults]]
kind = "crash"
target = "leader(orders/0)"
at = "500 ms"
for = "500 ms"
"""


@pytest.fixture
async def forked() -> AsyncIterator[ForkedRuns]:
    runs = ForkedRuns()
    yield runs
    await runs.close()


async def _begun(forked: ForkedRuns, folder: Path, *, seed: int, text: str = SCENARIO) -> ForkedRun:
    """Its scenario lies beside its folder."""
    scenario = folder.parent / "mine.toml"
    scenario.write_text(text, encoding="utf-8")
    folder.mkdir()
    output = folder / "output.txt"
    output.touch()
    command = ["kafka-chaos", "run", str(scenario), "--no-check", "--seed", str(seed), "--runs", str(folder)]
    return await forked.begin(scenario=scenario, seed=seed, runs=folder, command=command, output=output)


def _files(run: Path) -> Iterator[tuple[str, bytes]]:
    for path in sorted(run.rglob("*")):
        if path.is_file():
            yield str(path.relative_to(run)), path.read_bytes()


def _alone(arguments: list[str]) -> "subprocess.CompletedProcess[str]":
    """As a user's command, which its run.json names."""
    program = f"import sys; sys.argv = ['kafka-chaos', *{arguments!r}]\nimport harness.__main__ as m\nm.command()"
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=300)


async def test_a_fork_after_others_makes_the_folder_that_a_process_of_its_own_makes(
    forked: ForkedRuns, tmp_path: Path
) -> None:
    runs = tmp_path / "runs"
    other = await _begun(forked, tmp_path / "other", seed=4)
    assert await other.wait() == 0, (tmp_path / "other" / "output.txt").read_text()
    fork = await _begun(forked, runs, seed=5)
    assert await fork.wait() == 0, (runs / "output.txt").read_text()
    forks = dict(_files(runs / "simulated-5-mine"))
    runs.rename(tmp_path / "forks")

    arguments = ["run", str(tmp_path / "mine.toml"), "--no-check", "--seed", "5", "--runs", str(runs)]
    alone = _alone(arguments)

    assert alone.returncode == 0, alone.stdout + alone.stderr
    assert forks == dict(_files(runs / "simulated-5-mine"))


async def test_a_run_that_is_killed_costs_no_other(forked: ForkedRuns, tmp_path: Path) -> None:
    endless = SCENARIO.replace("2 s", "3600 s")
    killed = await _begun(forked, tmp_path / "killed", seed=1, text=endless)
    killed.kill()
    assert await killed.wait() == -signal.SIGKILL

    wrong = await _begun(forked, tmp_path / "wrong", seed=1, text="[cluster]\nbrokers = 0\n")

    assert await wrong.wait() == 2
    assert "brokers" in (tmp_path / "wrong" / "output.txt").read_text()


async def test_runs_end_with_the_process_that_they_are_forked_from_and_the_next_begins_another(
    forked: ForkedRuns, tmp_path: Path
) -> None:
    lost = await _begun(forked, tmp_path / "lost", seed=1, text=SCENARIO.replace("2 s", "3600 s"))
    assert forked._process is not None
    os.kill(forked._process.pid, signal.SIGKILL)

    assert await lost.wait() == -signal.SIGKILL
    wrong = await _begun(forked, tmp_path / "wrong", seed=1, text="[cluster]\nbrokers = 0\n")
    assert await wrong.wait() == 2
