"""Folders that were sealed before tables and columns were added are judged and shown as they were."""

import hashlib
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from harness.checks.judge import judge_many
from harness.checks.spark.tables import check_tables
from harness.errors import UsageError
from harness.history.jepsen.edn import export
from harness.history.run_folder import RunFolder
from harness.history.schema.schemas import ADDED_COLUMNS, ADDED_TABLES, TABLES
from reports.run.page import build

STORED = Path(__file__).parents[1] / "history" / "data" / "sealed_before_tables_grew"
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


def findings_in(folder: Path) -> list[dict[str, Any]]:
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
        for now, then in zip(findings_in(folder), findings_in(STORED), strict=True):
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


def test_it_lacks_what_was_added() -> None:
    for table, columns in ADDED_COLUMNS.items():
        assert not set(columns) & set(pq.read_schema(STORED / "tables" / f"{table}.parquet").names), table
    assert not (STORED / "tables" / f"{ADDED_TABLES[-1]}.parquet").exists()


def test_a_table_of_the_version_before_is_refused_in_one_line(tmp_path: Path) -> None:
    folder = received(tmp_path / "run")
    path = folder / "tables" / "faults.parquet"
    table = pq.read_table(path)
    pq.write_table(table.replace_schema_metadata({b"kafka_chaos_schema": b"1"}), path)
    with pytest.raises(UsageError, match=r"schema 1 is of kafka-chaos 0\.1"):
        check_tables(folder / "tables")
