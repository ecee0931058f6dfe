"""The simulated world: one seed gives one history, byte for byte, wherever and however often it is made."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.compose import recording
from harness.controller.run import RunOutcome
from harness.history.run_folder import RunFolder
from harness.worlds.simulated import simulate

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

# Answers to fetches are held, a leader dies and comes back, and somebody stands still when that is told.
SCENARIO = """
[[topics]]
name = "orders"
partitions = 2
settings = { "min.insync.replicas" = 2 }
[workload]
duration = "6 s"
rate_per_second = 40
[[faults]]
kind = "crash"
target = "leader(orders/0)"
at = "1 s"
for = "1 s"
[[faults]]
kind = "hold-requests"
options = { request = "Fetch", held = "answers" }
target = "leader(orders/1)"
at = "500 ms"
for = "700 ms"
[[faults]]
kind = "pause"
target = "random(1)"
when = "request(LeaderAndIsr)"
for = "500 ms"
[[faults]]
kind = "power-off"
target = "leader(orders/1)"
at = "3500 ms"
for = "500 ms"
[[faults]]
kind = "kill-at-write"
options = { nth = 3, torn = true }
target = "leader(orders/0)"
at = "4800 ms"
for = "500 ms"
"""


def _run(folder: Path, *, seed: int = 5) -> Path:
    """By the command, in a process whose working directory is that folder."""
    folder.mkdir()
    (folder / "mine.toml").write_text(SCENARIO, encoding="utf-8")
    command = [sys.executable, "-m", "harness", "run", "mine.toml", "--world", "simulated", "--no-check"]
    ended = subprocess.run(
        [*command, "--seed", str(seed)], cwd=folder, capture_output=True, text=True, check=False, timeout=300
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return folder / "runs" / f"simulated-{seed}-mine"


def _files(run: Path) -> Iterator[tuple[str, bytes]]:
    for path in sorted(run.rglob("*")):
        if path.is_file():
            yield str(path.relative_to(run)), path.read_bytes()


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _run(tmp_path_factory.mktemp("simulated") / "first")


def test_two_processes_in_two_folders_make_the_same_folder_byte_for_byte(run: Path, tmp_path: Path) -> None:
    again = _run(tmp_path / "elsewhere")

    assert dict(_files(again)) == dict(_files(run))


def test_another_seed_is_another_history(run: Path, tmp_path: Path) -> None:
    other = _run(tmp_path / "other", seed=6)

    assert (other / "history").is_dir()
    assert dict(_files(other / "history")) != dict(_files(run / "history"))


def test_twice_in_one_process_is_the_same_too(run: Path, tmp_path: Path) -> None:
    first, second = (dict(_files(_simulated_here(run, tmp_path / name))) for name in ("a", "b"))

    assert first == second


def _simulated_here(run: Path, folder: Path) -> Path:
    """In this process, whose hashes have a seed of their own."""
    folder.mkdir()
    for part in ("history", "tables", "nodes"):
        (folder / part).mkdir()
    for name in ("scenario.toml", "run.json"):
        (folder / name).write_bytes((run / name).read_bytes())
    here = RunFolder(folder)
    here.update(status="started", phases=[], anchors=here.run["anchors"][:1])
    outcome: RunOutcome = simulate(
        here,
        make_run=lambda scenario, world, interrupt: recording(scenario, here, world, interrupt, lambda _: None),
        hear=lambda stop: None,
    )
    assert outcome.status == "complete", outcome
    return folder


def test_the_run_has_its_world_and_did_what_it_says(run: Path) -> None:
    folder = RunFolder(run)

    assert folder.run["world"] == "simulated"
    assert folder.run["status"] == "complete"
    assert folder.run["inconclusive"] == []
    assert folder.run["skipped_faults"] == []
    records = folder.table("records")
    assert records.num_rows > 200
    assert {row["kind"] for row in folder.table("faults").to_pylist()} == {"kill", "pause", "power-loss", "slow"}
    assert (run / "nodes" / "1" / "log").read_text().count("registered") >= 1
