"""What the comparison of systems makes of its numbers, and whose memory it counts."""

import json
import os
import subprocess
import sys
from pathlib import Path

from benchmarks.systems import Summary, as_json, memory_mb, node_processes, summaries, table, turns
from harness.cluster.local.processes import MARKER, PROCESSES, boot_id, start_time

RUNS = [
    ("reference", {"records/s": 30_000.0, "start, s": 1.5}),
    ("kafka:4.3.1", {"records/s": 10_000.0, "start, s": 6.0}),
    ("reference", {"records/s": 50_000.0, "start, s": 1.0}),
    ("kafka:4.3.1", {"records/s": 20_000.0, "start, s": 5.0}),
    ("reference", {"records/s": 40_000.0, "start, s": 9.0}),
    ("kafka:4.3.1", {"records/s": 30_000.0, "start, s": 4.0}),
]


def test_systems_take_turns() -> None:
    assert turns(["a", "b"], 3) == ["a", "b", "a", "b", "a", "b"]


def test_a_measure_is_told_system_beside_system_with_the_median_of_its_turns() -> None:
    found = summaries(RUNS)

    assert [(each.measure, each.system, each.median) for each in found] == [
        ("records/s", "reference", 40_000.0),
        ("records/s", "kafka:4.3.1", 20_000.0),
        ("start, s", "reference", 1.5),
        ("start, s", "kafka:4.3.1", 5.0),
    ]
    assert found[0].ratio_to(found[1]) == 2.0


def test_the_table_holds_median_least_most_and_the_ratio_to_the_last_system() -> None:
    rows = [line.split() for line in table(summaries(RUNS)).splitlines()]

    assert rows[1] == ["records/s", "reference", "40,000", "30,000", "50,000", "2.00"]
    assert rows[2] == ["records/s", "kafka:4.3.1", "20,000", "10,000", "30,000"]
    assert rows[3] == ["start,", "s", "reference", "1.5", "1.0", "9.0", "0.30"]


def test_json_holds_every_value_in_the_order_of_the_turns() -> None:
    stored = json.loads(as_json(summaries(RUNS)))

    assert stored["records/s"]["reference"] == {
        "median": 40_000.0,
        "values": [30_000.0, 50_000.0, 40_000.0],
        "ratio_to_kafka:4.3.1": 2.0,
    }


def test_one_system_alone_has_no_ratio_to_tell() -> None:
    alone = [Summary(system="reference", measure="records/s", values=(1.0,))]

    assert table(alone).splitlines()[1].split() == ["records/s", "reference", "1.0", "1.0", "1.0"]


def test_the_link_fabric_s_memory_is_no_system_s(tmp_path: Path) -> None:
    named = ("broker", "harness.cluster.local.fabric_process")
    code = "import sys; print(flush=True); sys.stdin.read()"
    started = [
        subprocess.Popen(
            [sys.executable, "-c", code, name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, MARKER: str(tmp_path)},
        )
        for name in named
    ]
    try:
        lines = []
        for process in started:
            assert process.stdout is not None
            process.stdout.readline()
            lines.append(json.dumps({"pid": process.pid, "start": start_time(process.pid), "boot": boot_id()}))
        (tmp_path / PROCESSES).write_text("\n".join(lines) + "\n")

        assert list(node_processes(tmp_path)) == [started[0].pid]
        assert 1 < memory_mb(node_processes(tmp_path)) < 100
    finally:
        for process in started:
            process.communicate()
