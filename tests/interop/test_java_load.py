"""A load of Kafka's own clients in Java: whatever becomes of its JVMs, each record that is there had been journalled,
and nothing of them is left."""

import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from harness.clients.java import KAFKA
from harness.history.schema.schemas import KIND_FINAL_POLL, KIND_SEND, STATUS_INFO, STATUS_OK
from tests.end_to_end.shell import Shell
from tests.interop.kafka_tools import kafka_home
from tests.waiting import until

kafka_home(KAFKA)
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

SCENARIO = """
[[topics]]
name = "orders"
settings = { "min.insync.replicas" = 2 }
[workload]
client = "java"
name = "consumer_groups"
group = "readers"
producers = 1
consumers = 1
[[steps]]
wait = { acks = 100 }
[[steps]]
act = { kill = "leader(orders/0)" }
[[steps]]
wait = { acks = "+700" }
within = "120 s"
"""


def jvms_of(folder: Path, tool: str) -> Sequence[int]:
    """Those of the run in this folder."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words, mark = (place / "cmdline").read_bytes(), f"KAFKA_CHAOS_RUN={folder.resolve()}\0".encode()
            if tool.encode() in words and mark in (place / "environ").read_bytes():
                found.append(int(place.name))
    return found


def both_run(folder: Path) -> bool:
    return all(jvms_of(folder, tool) for tool in ("VerifiableProducer", "VerifiableConsumer"))


def test_jvms_that_are_killed_leave_no_phantom_and_others_take_over(fresh_shell: Shell) -> None:
    (fresh_shell.directory / "mine.toml").write_text(SCENARIO)
    with fresh_shell.start("run", "mine.toml", "--no-check") as process:
        try:
            until(lambda: fresh_shell.has_begun() and both_run(fresh_shell.folder), "both JVMs run", timeout_s=120)
            journal = fresh_shell.folder / "history" / "producer-1.jsonl"
            until(lambda: b'["S",' in journal.read_bytes(), "a record was answered", timeout_s=120)
            [sends] = jvms_of(fresh_shell.folder, "VerifiableProducer")
            [reads] = jvms_of(fresh_shell.folder, "VerifiableConsumer")
            for jvm in (sends, reads):
                os.kill(jvm, signal.SIGKILL)
            assert process.wait(300) == 0, fresh_shell.output.read_text()
        finally:
            process.terminate()  # which heals

    rows = pq.read_table(fresh_shell.folder / "tables" / "records.parquet").to_pylist()
    planned = {(row["partition"], row["value"]): row for row in rows if row["kind"] == KIND_SEND}
    final = {(row["partition"], row["value"]) for row in rows if row["kind"] == KIND_FINAL_POLL}
    assert final <= planned.keys()
    assert {row["process"] for row in planned.values() if row["status"] == STATUS_OK} > {0}  # the next one's, too
    first = [row["status"] for row in planned.values() if row["process"] == 0]
    assert {STATUS_OK, STATUS_INFO} == set(first)
    clients = pq.read_table(fresh_shell.folder / "tables" / "processes.parquet").to_pylist()
    assert len([row for row in clients if row["group"] == "readers" and row["library"] == "java"]) > 1
    assert jvms_of(fresh_shell.folder, "Verifiable") == []
    assert fresh_shell.processes() == []
