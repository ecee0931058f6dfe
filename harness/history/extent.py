"""How many records a run folder holds, without reading them: what decides how much to prepare for its check."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from harness.errors import HarnessError
from harness.history.run_folder import RunFolder

MANY_ROWS = 10_000_000  # from here on a check is long: it is compiled, shared out and asked for accordingly
_BYTES_PER_RECORD = 25  # of the journals, where most of the records are read in polls of 25


def records_in(folder: Path) -> int:
    """Exact once the folder is sealed; before, estimated from the journals as far as they are written.

    0 where it is no run folder, or has links in it: whoever judges it says so.
    """
    try:
        RunFolder(folder)
    except HarnessError:
        return 0
    table = folder / "tables" / "records.parquet"
    try:
        return int(pq.read_metadata(table).num_rows)
    except (OSError, pa.ArrowInvalid):  # none yet, or one that will be written anew
        return sum(path.stat().st_size for path in (folder / "history").glob("*.jsonl")) // _BYTES_PER_RECORD
