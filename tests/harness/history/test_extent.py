"""The number of records is estimated without reading them."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.history_writing import write_run
from harness.history.facts.extent import records_in
from harness.history.run_folder import RunFolder
from harness.history.sealed.sealing import seal


def test_a_sealed_run_reports_its_records_and_one_that_is_not_about_as_many(tmp_path: Path) -> None:
    wrote = write_run(tmp_path / "run", 5_000)
    assert wrote.rows / 2 < records_in(tmp_path / "run") < wrote.rows * 2

    seal(RunFolder(tmp_path / "run"))
    assert records_in(tmp_path / "run") == wrote.rows


def test_an_empty_folder_holds_none_and_a_broken_table_is_no_reason_to_fail(tmp_path: Path) -> None:
    assert records_in(tmp_path) == 0
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables" / "records.parquet").write_bytes(b"half of a fi")
    assert records_in(tmp_path) == 0


@pytest.mark.parametrize("name", ["tables", "tables/records.parquet", "history"])
@pytest.mark.parametrize("make", [lambda path: path.symlink_to("/etc"), os.mkfifo], ids=["link", "pipe"])
def test_what_is_not_the_folders_own_is_not_looked_at(
    name: str, make: Callable[[Path], object], tmp_path: Path
) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    make(tmp_path / name)
    assert records_in(tmp_path) == 0
