"""What a cluster leaves when it is ended in no order: nothing that the next command does not remove."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.end_to_end.shell import HARNESS, Shell
from tests.waiting import until


@pytest.fixture(autouse=True)
def hangups_are_not_ignored() -> Iterator[None]:
    """Whoever runs the tests below nohup has SIGHUP ignored, and every process inherits that."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


def temporary(shell: Shell) -> list[str]:
    return [path.name for path in shell.directory.iterdir() if path.name.startswith(("kafka-chaos-", "kc-"))]


@pytest.mark.parametrize(
    "signals", [[signal.SIGKILL], [signal.SIGHUP], [signal.SIGTERM, signal.SIGTERM], [signal.SIGTERM]]
)
def test_a_cluster_that_is_ended_leaves_nothing_after_a_sweep(tmp_path: Path, signals: list[signal.Signals]) -> None:
    shell = Shell(directory=tmp_path.resolve())
    ready = tmp_path / "ready.json"
    ready.write_text("of an older one")
    process = shell.start("cluster", "--brokers", "1", "--ready-file", str(ready))
    try:
        until(lambda: not ready.exists(), "the old ready file is gone before the cluster starts")
        until(ready.exists, "the cluster is ready")
        for number in signals:
            process.send_signal(number)
        process.wait(60)
    finally:
        process.kill()
        process.wait()
    if process.returncode == 0:
        assert not ready.exists()
        assert temporary(shell) == []
    said = shell.run("sweep")
    assert said.stdout == "Nothing is left behind.\n"
    assert temporary(shell) == []
    until(lambda: not shell.processes(), "no process is left")


_TESTS = """
import sys
from kafka_chaos_pytest import ChaosCluster
cluster = ChaosCluster(command=sys.argv[1], brokers=1).start()
print("ready", flush=True)
sys.stdin.read()
"""


def test_tests_that_are_killed_leave_nothing_of_their_cluster(tmp_path: Path) -> None:
    shell = Shell(directory=tmp_path.resolve())
    environment = shell.environment | {"PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        [sys.executable, "-c", _TESTS, " ".join(HARNESS)],
        cwd=tmp_path,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as tests:
        assert tests.stdout is not None
        assert tests.stdout.readline() == b"ready\n"
        assert len(temporary(shell)) == 2
        tests.kill()
    until(lambda: not temporary(shell), "the cluster has ended with its tests, and taken their folder along")
    until(lambda: not shell.processes(), "no process is left")
