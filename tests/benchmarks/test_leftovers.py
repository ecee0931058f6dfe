"""What a benchmark keeps in the temporary folder goes with the next sweep, where the benchmark was killed."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from harness.host.scratch import left_behind

_KILLED = """
import os, signal, sys
from benchmarks import check_history
check_history.write_many = lambda place, count: os.kill(os.getpid(), signal.SIGKILL)
sys.argv = ["check_history", "--runs", "1"]
check_history.main()
"""


def test_a_killed_benchmark_leaves_what_the_next_command_removes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = {"XDG_STATE_HOME": str(tmp_path / "state"), "TMPDIR": str(tmp_path / "temporary")}
    (tmp_path / "temporary").mkdir()
    ended = subprocess.run(
        [sys.executable, "-c", _KILLED],
        env={**os.environ, **environment},
        check=False,
        timeout=120,
        cwd=Path(__file__).parents[2],
        stdout=subprocess.DEVNULL,
    )
    assert ended.returncode == -signal.SIGKILL
    (left,) = (tmp_path / "temporary").iterdir()
    monkeypatch.setenv("XDG_STATE_HOME", environment["XDG_STATE_HOME"])
    with left_behind() as remove:
        assert [str(left) in sentence for sentence in remove()] == [True]
    assert not left.exists()
