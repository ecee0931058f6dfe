"""Estimates how many records a run folder contains without reading them, to prepare the right
resources for its check."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from harness.errors import HarnessError
from harness.history.files_below import FilesBelow

MANY_ROWS = 10_000_000  # records from which on a check takes long: it is compiled and split accordingly
FEW_ROWS = 50_000  # rows of the large tables up to which planning a query takes longer than answering it
_BYTES_PER_RECORD = 25  # bytes of journal per record, if most records are read in polls of 25


def records_in(folder: Path) -> int:
    """The number of records: exact for a sealed folder, otherwise estimated from the journals' size."""
    try:
        files = FilesBelow(folder)
        files.refuse_links("history")
        with files.open("tables/records.parquet") as table:
            return int(pq.read_metadata(table).num_rows)
    except (FileNotFoundError, pa.ArrowException):  # no table yet, or one that will be written again
        return sum(path.lstat().st_size for path in (folder / "history").glob("*.jsonl")) // _BYTES_PER_RECORD
    except (HarnessError, OSError):  # unreadable; the check reports it later
        return 0
