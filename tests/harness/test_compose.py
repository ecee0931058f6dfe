"""What is set going beside a run waits until its faults are over."""

import datetime
import subprocess
import sys
from pathlib import Path

import pytest

from harness import compose
from harness.checks import early_session
from harness.controller.run import Progress
from harness.history.accepted import Accepted, accepted_of, by_fingerprint
from harness.history.run_folder import RunFolder
from harness.scenario.file import parse, scenario_of

ROOT = Path(__file__).parents[2]


def at(phase: str) -> Progress:
    return Progress(phase=phase, elapsed_s=1.0, acknowledged=0, unknown=0, failed=0, polled=0, faults=())


def test_the_end_of_the_last_fault_is_reported_once_and_every_progress_goes_on() -> None:
    received: list[str] = []
    show = compose._noticing_healing(lambda seen: received.append(seen.phase), lambda: received.append("healed"))

    for phase in ("start", "prepare", "act", "heal", "recover", "recover", "drain", "seal"):
        show(at(phase))

    assert received == ["start", "prepare", "act", "heal", "healed", "recover", "recover", "drain", "seal"]


def test_the_folder_has_the_whole_schedule_before_the_run_begins(tmp_path: Path) -> None:
    fault = '[[faults]]\nkind = "pause"\ntarget = "random(1)"\nevery = "3 s"\nfor = "1 s"\n'
    scenario = parse(f'[[topics]]\nname = "t"\n{fault}', name="s", place="s.toml")

    begun, folder = compose._begun(scenario, runs=tmp_path, seed=3, command=["kafka-chaos"])

    stored = scenario_of(folder)
    assert stored.faults == begun.faults
    assert len(stored.faults) > 1
    assert all(each.every_s is None and each.at_s is not None for each in stored.faults)


def test_what_is_accepted_of_a_run_is_kept_when_it_begins_for_it_may_be_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario = parse('[[topics]]\nname = "t"\n', name="s", place="s.toml")
    known = by_fingerprint([Accepted(fingerprint="0a", reason="known", until=datetime.date(2999, 12, 31))])
    monkeypatch.setattr(compose, "RunOwnership", killed)
    with pytest.raises(InterruptedError):
        compose.run_scenario(scenario, runs=tmp_path, seed=1, command=[], progress=print, accepted=known)
    (path,) = tmp_path.glob("*/run.json")
    assert accepted_of(RunFolder(path.parent).run) == known


def killed(_: Path) -> None:
    raise InterruptedError


def test_a_run_that_never_came_to_its_faults_is_judged_too() -> None:
    received: list[str] = []
    show = compose._noticing_healing(lambda _: None, lambda: received.append("healed"))

    show(at("start"))
    show(at("stop"))

    assert received == ["healed"]


def test_a_bench_knows_how_much_there_is_to_judge_and_passes_on_the_wish_to_warm_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []

    class Early:
        def __init__(self, *, master: str, records: int) -> None:
            asked.append((master, records))

        def warm_up(self) -> None:
            asked.append("warm up")

        def close(self) -> None:
            asked.append("close")

    monkeypatch.setattr(early_session, "EarlySession", Early)
    monkeypatch.setattr(compose, "import_module", lambda name: asked.append(f"read {name}"))
    for name, size in (("one", 25_000), ("two", 50_000)):
        (tmp_path / name / "history").mkdir(parents=True)
        (tmp_path / name / "history" / "producer-1.jsonl").write_bytes(b"x" * size)

    session = compose.JudgingSession(master="local[1]", folders=[tmp_path / "one", tmp_path / "two"])
    session.warm_up(tmp_path / "one")
    session.close()

    assert asked == [("local[1]", 3_000), "warm up", "read reports.render", "close"]


_OUT_OF_MEMORY = """
from harness import compose
from harness.host import memory
from harness.errors import HarnessError

memory._allowed_mb = memory.LEAST_MB
session = compose.JudgingSession(master="local[2]")
try:
    with session.spark() as spark:
        spark.sql("select length(repeat(cast(id as string), 900000000)) from range(1, 2)").collect()
except HarnessError as error:
    print(error)
finally:
    session.close()
"""


@pytest.mark.jvm
def test_a_check_that_runs_out_of_memory_says_which_option_gives_more() -> None:
    """In a process of its own, for a JVM of its own: the tests' one has more memory."""
    command = [sys.executable, "-c", _OUT_OF_MEMORY]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=200, check=False)
    assert "512 MB are too little memory for this check: give --memory-mb 1024" in ran.stdout, ran
