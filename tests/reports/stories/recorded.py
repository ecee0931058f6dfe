"""Adds rows to the tables of a run folder, as if they had been recorded too."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tests.reports.stories.judged_folder import Rows


def recorded(run: Path, name: str, rows: Rows) -> None:
    path = run / "tables" / f"{name}.parquet"
    before = pq.read_table(path)
    added = pa.Table.from_pylist([{"run": 0, **row} for row in rows], schema=before.schema)
    pq.write_table(pa.concat_tables([before, added]), path)
