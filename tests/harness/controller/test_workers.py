"""Worker processes: they wait for the word, count as they go, stop when told, and never outlive the harness."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness import __main__
from harness.cli import client_process
from harness.controller.context import Acknowledgements
from harness.controller.workers.processes import WorkerProcesses, worker_specs
from harness.errors import HarnessError
from harness.history.facts.values import ValueNames
from harness.history.sealed.tables import Conversion
from harness.ports.cluster import ClientId
from harness.scenario.file import parse
from harness.scenario.model import Traits
from tests.harness.controller.conftest import MemoryCluster
from tests.waiting import PATIENCE_S

TEXT = """
[[topics]]
name = "t"
[workload]
producers = 1
consumers = 1
rate_per_second = 500
delivery_timeout_ms = 200
"""
SCENARIO = replace(parse(TEXT, name="s", place="s.toml"), seed=1)


class Names(MemoryCluster):
    def names_for(self, client: ClientId | None) -> Mapping[str, str]:
        return {"node1": f"127.9.{128 + (client or 0)}.2"}


PROGRAM = """
import sys, time
from harness.controller.workers.acting import run_worker
from harness.ports.cluster import SendOutcome

class Client:
    def __init__(self): self.offset = 0
    async def send(self, records):
        self.offset += len(records)
        return [SendOutcome(status="ok", offset=self.offset + i, error=None, end_ns=time.monotonic_ns())
                for i, _ in enumerate(records)]
    async def assign(self, partitions, *, from_beginning): pass
    async def poll(self, limit, *, timeout_s):
        import asyncio
        await asyncio.sleep(0.02)
        return []
    async def close(self): pass

run_worker(sys.argv[1], clients={"kafka-python": lambda **settings: Client()})
"""


@pytest.fixture
def workers(tmp_path: Path) -> Any:
    program = tmp_path / "worker.py"
    program.write_text(PROGRAM)
    acks = Acknowledgements()

    def make(code: Path = program) -> tuple[WorkerProcesses, Acknowledgements, Path]:
        root = str(Path(__file__).parents[3])
        command = ["env", f"PYTHONPATH={root}", sys.executable, str(code)]
        history = tmp_path / "history"
        processes = WorkerProcesses(
            scenario=SCENARIO, cluster=MemoryCluster(), command=command, history=history, folder=tmp_path
        )
        return processes, acks, history

    return make


async def test_workers_act_between_start_and_stop_and_their_journals_hold_what_they_counted(workers: Any) -> None:
    processes, acks, history = workers()
    await processes.prepare(acks)
    assert acks.ok == 0

    processes.start()
    async with asyncio.timeout(PATIENCE_S):
        await acks.wait_for(50)
    assert await processes.stop() == []

    conversion = Conversion(names=ValueNames())
    for path in sorted(history.glob("*.jsonl")):
        conversion.add(path)
    records = conversion.finish().records
    assert len(records) == acks.ok >= 50


async def test_a_worker_that_cannot_start_is_reported_with_its_log(workers: Any, tmp_path: Path) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text("raise SystemExit(3)")
    processes, acks, _ = workers(broken)

    with pytest.raises(HarnessError, match=r"producer-1 ended at its start; see .*producer-1\.log"):
        await processes.prepare(acks)
    await processes.kill()


async def test_a_worker_that_dies_on_the_way_is_reported(workers: Any) -> None:
    processes, acks, _ = workers()
    await processes.prepare(acks)
    processes.start()
    async with asyncio.timeout(PATIENCE_S):
        await acks.wait_for(1)
    victim = processes._workers[0]._process
    victim.kill()

    complaints = await processes.stop()

    assert len(complaints) == 1
    assert "producer-1 ended with exit code -9" in complaints[0]


async def test_workers_end_when_the_harness_closes_their_pipe(workers: Any) -> None:
    processes, acks, _ = workers()
    await processes.prepare(acks)
    processes.start()
    async with asyncio.timeout(PATIENCE_S):
        await acks.wait_for(1)
        children = [worker._process for worker in processes._workers]
        for child in children:
            child.stdin.close()
        for child in children:
            await child.wait()

    for child in children:
        with pytest.raises(ProcessLookupError):
            os.kill(child.pid, 0)
    await processes.kill()


def test_each_worker_is_told_where_brokers_names_lead_by_its_own_link(tmp_path: Path) -> None:
    old = replace(SCENARIO, traits=Traits(kind="kafka", version=(0, 9, 0, 1)))
    specs = worker_specs(old, Names(), history=tmp_path)

    assert [spec.names for spec in specs] == [{"node1": "127.9.129.2"}, {"node1": "127.9.130.2"}]
    assert {tuple(spec.brokers_version) for spec in specs} == {(0, 9, 0, 1)}


def test_a_client_process_reads_neither_the_command_line_nor_what_starts_clusters() -> None:
    asked = "import sys, harness.__main__, harness.cli.client_process; print(*sys.modules)"
    read = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True).stdout.split()
    assert "harness.controller.workers.acting" in read
    of_the_harness = {"harness.cli.main", "harness.compose", "harness.cluster.catalogue"}
    assert (of_the_harness | {"typer", "rich", "kafka"}).isdisjoint(read)


def test_the_command_worker_is_a_client_process(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[str] = []
    monkeypatch.setattr(client_process, "work", begun.append)
    monkeypatch.setattr(sys, "argv", ["kafka-chaos", "worker", "producer-0.json"])
    __main__.main()
    assert begun == ["producer-0.json"]


def test_a_client_process_that_cannot_begin_says_so_in_one_line_and_accuses_nobody(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "argv", ["kafka-chaos", "worker", str(tmp_path)])
    with pytest.raises(SystemExit) as ended:
        __main__.main()
    assert ended.value.code == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
