"""A node that ends while no fault had it down: what the run recorded of it stands in its verdict and on its page."""

import json
import os
import signal
from collections.abc import Sequence
from pathlib import Path

import pytest

from harness.cluster.brokers.kafka_jars import installed
from harness.cluster.brokers.kafka_versions import resolve_version
from harness.cluster.docker.engine import connect, is_there
from harness.cluster.docker.images import BASE_VARIABLE
from harness.cluster.docker.labels import NODE, RUN
from harness.history.run_folder import RunFolder
from tests.end_to_end.shell import Shell, phase_of
from tests.waiting import until

QUIET = """
[[topics]]
name = "orders"
settings = { "min.insync.replicas" = 2 }
[workload]
duration = "8 s"
"""
WIPED_CONTROLLER = """
[run]
recovery_timeout = "5 s"
[[topics]]
name = "orders"
settings = { "min.insync.replicas" = 2 }
[workload]
duration = "15 s"
[[faults]]
kind = "wipe"
target = "controller"
at = "3 s"
for = "2 s"
"""


def written(shell: Shell, text: str) -> str:
    path = shell.directory / "mine.toml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def process_of_node(folder: Path, node: int) -> int:
    """By its command line, which names its folder: no other process of this machine has that."""
    entries = [json.loads(line) for line in (folder / "processes.jsonl").read_text(encoding="utf-8").splitlines()]
    (found,) = [entry["pid"] for entry in entries if f"/nodes/{node}/" in entry["command"]]
    return int(found)


def ends(folder: Path) -> Sequence[tuple[int, int | None, int | None, str | None]]:
    rows = RunFolder(folder).table("node_ends").to_pylist()
    return [(row["node"], row["exit_status"], row["signal"], row["reason"]) for row in rows]


def test_a_broker_that_somebody_kills_is_no_pass_and_what_ended_it_is_told(fresh_shell: Shell) -> None:
    running = fresh_shell.start("run", written(fresh_shell, QUIET))
    try:
        until(lambda: fresh_shell.has_begun() and phase_of(fresh_shell.folder) == "act", "the load runs")
        os.kill(process_of_node(fresh_shell.folder, 1), signal.SIGKILL)
        code = running.wait(120)
    finally:
        if running.poll() is None:
            running.kill()
        running.wait(30)

    printed = fresh_shell.output.read_text(encoding="utf-8")
    assert code == 3, printed
    assert "Broker 1 ended by SIGKILL" in printed
    assert ends(fresh_shell.folder) == [(1, None, signal.SIGKILL, "none")]
    page = (fresh_shell.folder / "report.html").read_text(encoding="utf-8").replace("<wbr>", "")
    assert "Broker 1 ended by SIGKILL, not ordered" in page
    assert "nothing was done to the cluster" not in page
    assert fresh_shell.processes() == []


@pytest.mark.docker
@pytest.mark.further
def test_of_a_container_that_somebody_kills_the_same_is_told(fresh_shell: Shell) -> None:
    if not is_there() or BASE_VARIABLE not in os.environ:
        pytest.skip(f"no Docker engine, or {BASE_VARIABLE} names no base image: .ci/prepare-docker makes both")
    running = fresh_shell.start("run", written(fresh_shell, QUIET), "--world", "docker")
    try:
        until(lambda: fresh_shell.has_begun() and phase_of(fresh_shell.folder) == "act", "the load runs", timeout_s=120)
        engine = connect()
        try:
            labels = [f"{RUN}={fresh_shell.folder.resolve()}", f"{NODE}=1"]
            of_node = engine.client.containers.list(filters={"label": labels})
            (broker,) = [container for container in of_node if not container.name.endswith("-net")]
            broker.kill()
        finally:
            engine.close()
        code = running.wait(200)
    finally:
        if running.poll() is None:
            running.kill()
        running.wait(30)

    assert code == 3, fresh_shell.output.read_text(encoding="utf-8")
    assert ends(fresh_shell.folder) == [(1, 137, signal.SIGKILL, "none")]


@pytest.mark.further
def test_brokers_that_end_after_their_controllers_disk_was_wiped_are_explained_by_that(fresh_shell: Shell) -> None:
    if installed(resolve_version("4.3.1")) is None:
        pytest.skip("Kafka 4.3.1 is not on this machine: kafka-chaos fetch-kafka 4.3.1")
    ended = fresh_shell.run("run", written(fresh_shell, WIPED_CONTROLLER), "--system", "kafka:4.3.1", timeout_s=280)

    assert ended.returncode == 3, ended.stdout + ended.stderr
    assert sorted(ends(fresh_shell.folder)) == [(node, 1, None, "metadata-truncation-refused") for node in (1, 2, 3)]
    verdict = RunFolder(fresh_shell.folder).verdict()
    assert (verdict["counts"]["permitted"], verdict["counts"]["violation"]) == (3, 0)
    assert "after wipe of controller" in verdict["sentence"]
