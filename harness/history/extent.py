"""How many records a run folder holds, without reading them: what decides how much to prepare for its check."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from harness.errors import HarnessError
from harness.history.files_below import FilesBelow

MANY_ROWS = 10_000_000  # from here on a check is long: it is compiled, shared out and asked for accordingly
_BYTES_PER_RECORD = 25  # of the journals, where most of the records are read in polls of 25


def records_in(folder: Path) -> int:
    """Exact once the folder is sealed; before, estimated from the journals as far as they are written."""
    try:
        files = FilesBelow(folder)
        files.refuse_links("history")
        with files.open("tables/records.parquet") as table:
            return int(pq.read_metadata(table).num_rows)
    except (FileNotFoundError, pa.ArrowException):  # none yet, or one that will be written anew
        return sum(path.lstat().st_size for path in (folder / "history").glob("*.jsonl")) // _BYTES_PER_RECORD
    except (HarnessError, OSError):  # it cannot be judged, which is told in its turn
        return 0
