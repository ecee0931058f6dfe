"""Evidence of another shape than the checks write is one line that names the table, whoever asks."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from harness.cli.main import app
from harness.errors import HarnessError
from harness.history.run_folder import RunFolder
from harness.history.schema.client_rows import VALUE_NAMES
from harness.history.schema.cluster_rows import CONTROLLERS
from harness.history.schema.schemas import EVIDENCE, FINDINGS
from harness.host import memory
from reports.run_data import RunData
from tests.reports.stories.unclean_story import loss_run


def refusal(command: str, run: Path, *more: str) -> str:
    ended = CliRunner().invoke(app, [command, str(run), *more])
    assert isinstance(ended.exception, HarnessError), (ended.exception, ended.output)
    assert "\n" not in str(ended.exception)
    return str(ended.exception)


def change(run: Path, name: str, schema: pa.Schema, **columns: Any) -> None:
    path = run / "tables" / f"{name}.parquet"
    first, *others = pq.read_table(path).to_pylist()
    pq.write_table(pa.Table.from_pylist([first | columns, *others], schema=schema), path)


@pytest.mark.parametrize(
    ("evidence", "why"),
    [
        ("no JSON", "line 1 is no JSON"),
        ("[1]", "Expected `object`, got `array`"),
        ("[" * 100_000, "nested more than 100 deep"),
        ('{"cause_chain": 5}', "at `$.cause_chain`"),
        ('{"cause_chain": [{"t_ns": "soon", "event": "fault", "sentence": "x"}]}', "at `$.cause_chain[0].t_ns`"),
        ('{"rules": [{"rule": "r"}]}', "at `$.rules[0]`"),
        ('{"lost_range": [1, 2]}', "at `$.lost_range`"),
        ('{"log_ends": [{"replica": null}]}', "at `$.log_ends[0]"),
        ('{"transactions": "all"}', "at `$.transactions`"),
    ],
)
@pytest.mark.parametrize("command", [("report",), ("show",), ("show", "F1")])
def test_the_evidence_of_a_finding_in_another_shape_is_reported_by_table_and_finding(
    tmp_path: Path, evidence: str, why: str, command: tuple[str, ...]
) -> None:
    run = loss_run(tmp_path)
    change(run, "findings", FINDINGS, evidence=evidence)

    name, *more = command
    line = refusal(name, run, *more)

    assert line.startswith(f"{run}/tables/findings.parquet: the evidence of F1 is unfit (")
    assert why in line
    assert line.endswith(f"`kafka-chaos check {run}` writes it again")


def test_a_finding_without_its_sentence_is_reported(tmp_path: Path) -> None:
    run = loss_run(tmp_path)
    change(run, "findings", FINDINGS, sentence_text=None)
    assert f"{run}/tables/findings.parquet: column sentence_text is null in 1 row" in refusal("show", run)


@pytest.mark.parametrize("name", ["log_rows", "operations"])
def test_a_row_of_evidence_that_belongs_to_no_finding_is_reported(tmp_path: Path, name: str) -> None:
    run = loss_run(tmp_path)
    change(run, f"evidence_{name}", EVIDENCE[name], finding=None)
    line = refusal("show", run, "F1")
    assert line.startswith(f"{run}/tables/evidence_{name}.parquet: column finding is null in 1 row: ")


def test_tables_of_a_page_that_fit_one_by_one_and_not_together_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = loss_run(tmp_path)
    for name in ("controllers", "value_names"):
        (row,) = RunFolder(run).table(name).slice(0, 1).to_pylist() or [{"run": 0, "value": 1, "name": "a"}]
        one = pa.Table.from_pylist([row], schema=RunFolder(run).table(name).schema)
        RunFolder(run).write_table(name, one.take(pa.array([0] * 90_000)))
    monkeypatch.setattr(memory, "_allowed_mb", 64)
    data = RunData(run)

    data.rows(CONTROLLERS)
    with pytest.raises(HarnessError, match=r"value_names\.parquet: its 90000 rows .* with what was read before it"):
        data.rows(VALUE_NAMES)
