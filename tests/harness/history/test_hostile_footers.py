"""Parquet footers that contradict themselves: one line, and the process goes on.

pyarrow ends the process on some of them, since what throws there is not declared to.
"""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness.errors import HarnessError
from harness.history.files_below import FilesBelow
from harness.history.schema.kept_tables import kept_rows
from harness.history.schema.parquet_tables import read_table
from harness.history.schema.schemas import TABLES
from harness.host import memory
from tests.harness.spoilt_runs import contradict

KEPT = pa.schema([pa.field("name", pa.string()), pa.field("faults", pa.list_(pa.string()))])


def read_kept(folder: Path) -> list[dict[str, object]]:
    files = FilesBelow(folder)
    return kept_rows(files, "kept.parquet", KEPT, held=memory.Together(), wrong=": wrong", remedy="remove it")


@pytest.mark.parametrize("rows", [3, 30_000])
def test_a_histogram_that_does_not_fit_its_column_is_one_line(tmp_path: Path, rows: int) -> None:
    path = tmp_path / "value_names.parquet"
    columns = {"run": [0] * rows, "value": list(range(rows)), "name": [f"v{each}" for each in range(rows)]}
    pq.write_table(pa.table(columns, schema=TABLES["value_names"]), path)
    contradict(path, "value")

    with pytest.raises(HarnessError, match=r"value_names\.parquet is no sound table \(Definition level histogram"):
        read_table(path, "value_names")


def test_a_table_of_a_campaign_or_a_night_is_refused_likewise(tmp_path: Path) -> None:
    pq.write_table(pa.table({"name": ["a"], "faults": [["kill"]]}, schema=KEPT), tmp_path / "kept.parquet")
    contradict(tmp_path / "kept.parquet", "name")

    with pytest.raises(HarnessError, match=r"kept\.parquet: wrong \(Definition level histogram .*: remove it"):
        read_kept(tmp_path)


def test_texts_in_lists_are_counted_with_all_repetitions(tmp_path: Path) -> None:
    places = pa.DictionaryArray.from_arrays(pa.array([0] * 300_000, pa.int32()), pa.array(["x" * 10_000]))
    lists = pa.ListArray.from_arrays(pa.array(range(0, 300_001, 10), pa.int32()), places)
    names = pa.array(["a"] * 30_000)
    pq.write_table(pa.table({"name": names, "faults": lists}), tmp_path / "kept.parquet", store_schema=False)

    with pytest.raises(HarnessError, match=r"its 30000 rows would take about 28\d\d MB .* give --memory-mb"):
        read_kept(tmp_path)
