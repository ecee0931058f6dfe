"""Folders of schema version 1 are judged and shown as they were: here one that was stored by its last version."""

import hashlib
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from harness.checks.judge import judge_many
from harness.checks.spark.tables import check_tables
from harness.history.jepsen.edn import export
from harness.history.journals.controller_rows import ROWS, read_rows
from harness.history.run_folder import RunFolder
from harness.history.schema import version_1
from harness.history.schema.cluster_rows import FAULTS
from harness.history.schema.schemas import TABLES
from reports.run.page import build

STORED = Path(__file__).parents[1] / "history" / "data" / "version_1_unclean_election"
_WRITTEN_ANEW = ("findings", "evidence_")


def received(folder: Path) -> Path:
    shutil.copytree(STORED, folder)
    return folder


def of_today(folder: Path) -> Path:
    """The same run with its tables written as they are today."""
    received(folder)
    tables = {name: RunFolder(STORED).table(name) for name in TABLES if RunFolder(STORED).has_table(name)}
    shutil.rmtree(folder / "tables")
    for name, table in tables.items():
        RunFolder(folder).write_table(name, table)
    return folder


def told(folder: Path) -> list[dict[str, Any]]:
    """What its findings say, without what later versions add to their evidence."""
    rows = RunFolder(folder).table("findings").to_pylist()
    return [{name: value for name, value in row.items() if name not in ("evidence", "fingerprint")} for row in rows]


def sums(folder: Path) -> dict[str, str]:
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in (folder / "tables").iterdir()
        if not path.name.startswith(_WRITTEN_ANEW)
    }


@pytest.fixture(scope="module")
def judged(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Both in one job: as it was received, and as it would be stored today."""
    place = tmp_path_factory.mktemp("versions")
    folders = received(place / "received"), of_today(place / "today")
    judge_many(folders, spark)
    return folders


def test_it_has_the_verdict_and_the_findings_that_it_had(judged: tuple[Path, Path]) -> None:
    for folder in judged:
        verdict, stored = (json.loads((run / "verdict.json").read_text()) for run in (folder, STORED))
        for name in ("verdict", "exit_code", "counts"):
            assert verdict[name] == stored[name], name
        for now, then in zip(told(folder), told(STORED), strict=True):
            for name in ("check", "classification", "kind", "topic", "partition", "offsets", "count", "first_ns"):
                assert now[name] == then[name], (now["finding"], name)


def test_in_one_job_with_the_same_of_today_both_say_the_same(judged: tuple[Path, Path]) -> None:
    first, second = (RunFolder(folder).table("findings").drop_columns("run").to_pylist() for folder in judged)
    assert first == second


def test_the_tables_that_were_received_stay_as_they_were(judged: tuple[Path, Path]) -> None:
    assert sums(judged[0]) == sums(STORED)


def test_its_page_is_that_of_the_same_run_stored_today(judged: tuple[Path, Path]) -> None:
    first, second = (build(folder) for folder in judged)
    assert first.problems == []
    assert first.headline == second.headline
    assert first.overview == second.overview
    here, there = (str(folder.resolve()) for folder in judged)  # commands name the folder
    findings = [replace(each, issue=each.issue.replace(here, there)) for each in first.findings]
    assert findings == second.findings


def test_its_page_is_made_from_the_findings_that_it_brought(tmp_path: Path) -> None:
    page = build(received(tmp_path / "run"))
    assert page.problems == []
    assert sum(group.total for group in page.groups) == RunFolder(STORED).table("findings").num_rows


def test_its_tables_are_sound_and_its_history_can_be_exported(tmp_path: Path) -> None:
    check_tables(received(tmp_path / "run") / "tables")
    assert export(RunFolder(tmp_path / "run"), tmp_path / "history.edn") > 100


def test_rows_that_an_older_controller_left_unsealed_have_todays_names(tmp_path: Path) -> None:
    row = {"fault": 0, "kind": "kill", "label": "kill 1", "nodes": [1], "t_asked": 5, "proof": "gone"}
    (tmp_path / ROWS).write_text(json.dumps({"table": "faults", "row": row, "identity": ["fault", 0]}) + "\n")
    (read,) = read_rows(tmp_path / ROWS)[FAULTS]
    assert {name: value for name, value in read.items() if value is not None} == {
        "fault": 0, "kind": "kill", "label_text": "kill 1", "nodes": [1], "asked_ns": 5, "proof_text": "gone",
        "run": 0, "proved": True,
    }  # fmt: skip


def test_no_name_of_today_was_another_column_before() -> None:
    """Else a row that says no version could not be told apart."""
    for table, names in version_1.NAMES.items():
        assert not set(names) & set(names.values()), table
        assert len(set(names.values())) == len(names), table
