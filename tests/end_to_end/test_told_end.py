"""A whole run on brokers that answer their end too low: every record is read all the same, and none is called lost."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.end_to_end.shell import Shell

pytestmark = pytest.mark.timeout(300)
SCENARIO = """
[cluster]
flaws = ["answer-end-as-of-election"]
[[topics]]
name = "orders"
[workload]
duration = "2 s"
[expect]
verdict = "violation"
"""


def test_a_broker_that_answers_its_end_too_low_is_told_and_loses_nothing(tmp_path: Path) -> None:
    shell = Shell(directory=tmp_path)
    (tmp_path / "told.toml").write_text(SCENARIO, encoding="utf-8")

    ended = shell.run("run", "told.toml", timeout_s=250)

    tables = shell.folder / "tables"
    verdict = json.loads((shell.folder / "verdict.json").read_text(encoding="utf-8"))
    checks = {row["check"] for row in pq.read_table(tables / "findings.parquet").to_pylist()}
    (answer,) = pq.read_table(tables / "final_reads.parquet").to_pylist()
    assert (ended.returncode, verdict["verdict"], checks) == (1, "violation", {"end-told-too-low"}), ended.stdout
    assert (answer["event"], answer["to_offset"]) == ("end", 0)
    assert answer["from_offset"] == verdict["accounting"]["in_final_log"] > 100
    assert answer["node"] in (1, 2, 3)
