"""The benchmark's history is what it says, and its arithmetic is right; nothing here starts Spark."""

import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.check_history import line_of, medians
from benchmarks.history_writing import write_run
from benchmarks.process_tree import ProcessTree
from harness.history.run_folder import RunFolder
from harness.history.sealed.sealing import seal


def sealed(folder: Path, *, hot: bool = False) -> tuple[Any, list[dict[str, Any]]]:
    wrote = write_run(folder, 5_000, reads_per_send=10, hot=hot)
    run = RunFolder(folder)
    seal(run)
    rows: list[dict[str, Any]] = run.table("records").to_pylist()
    return wrote, rows


def test_a_written_history_seals_to_the_records_it_says_all_of_them_in_order(tmp_path: Path) -> None:
    wrote, rows = sealed(tmp_path / "run")

    assert (len(rows), sum(row["kind"] > 0 for row in rows)) == (wrote.rows, wrote.reads) == (5_500, 5_000)
    sent = {(row["partition_id"], row["offset"]): row["value"] for row in rows if row["kind"] == 0}
    assert len(sent) == 500
    assert all(sent[row["partition_id"], row["offset"]] == row["value"] for row in rows)
    assert {row["offset_step"] for row in rows} == {None, 1}
    began = {row["value"]: row["invoked_ns"] for row in rows if row["kind"] == 0}
    assert all(row["completed_ns"] > began[row["value"]] for row in rows if row["kind"] > 0)


def test_a_hot_history_has_four_fifths_of_its_records_in_one_partition(tmp_path: Path) -> None:
    _, rows = sealed(tmp_path / "hot", hot=True)

    assert 0.7 < sum(row["partition_id"] == 0 for row in rows) / len(rows) < 0.9


def test_several_measures_are_reported_as_their_medians_and_growth_as_one_line() -> None:
    rows = [{"seconds": seconds, "verdict": "Pass"} for seconds in (3.0, 9.0, 4.0)]
    assert medians(rows) == {"seconds": 4.0, "verdict": "Pass"}
    assert line_of([1.0, 2.0, 4.0], [5.0, 7.0, 11.0]) == {"fixed_s": 3.0, "per_million_records_s": 2.0}


def test_the_memory_and_cpu_of_a_childs_child_count() -> None:
    work = "block = bytearray(80_000_000); block[::4096] = b'x' * len(block[::4096]); sum(range(30_000_000))"
    child = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {work!r}], check=True)"
    process = subprocess.Popen([sys.executable, "-c", child])
    with ProcessTree(process.pid) as tree:
        assert process.wait() == 0

    assert tree.peak_bytes > 80_000_000
    assert tree.cpu_s > 0.1
