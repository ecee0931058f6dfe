"""Tables computed from the records while these are written, so that checks and pages need not compute them."""

import pyarrow as pa
import pyarrow.parquet as pq

from harness.errors import HarnessError
from harness.history.run_folder import RunFolder
from harness.history.schema.parquet_tables import check_footer, unsound
from harness.history.schema.schemas import DERIVED, TABLES
from harness.history.sealed.activity import Activity, activity_of
from harness.history.sealed.bins import Bins
from harness.history.sealed.jumps import Jumps, jumps_of


class Derived:
    """Takes one run's records one row group at a time, in order of the operations."""

    def __init__(self) -> None:
        self._takers: dict[str, Activity | Bins | Jumps] = {"bins": Bins(), "activity": Activity(), "jumps": Jumps()}

    def add(self, records: pa.Table) -> None:
        for taker in self._takers.values():
            taker.add(records)

    def tables(self) -> dict[str, pa.Table]:
        return {name: taker.table() for name, taker in self._takers.items()}


def derived_of(records: pa.Table) -> dict[str, pa.Table]:
    """The tables that a check needs, for records of any number of runs."""
    return {"activity": activity_of(records), "jumps": jumps_of(records)}


def complete(folder: RunFolder) -> None:
    """Writes the tables that a run sealed by an older version lacks; its other tables stay as they are.

    An empty table `activity` counts as missing, and so do the tables written with it.
    """
    is_counted = folder.has_table("activity") and folder.table("activity").num_rows
    missing = [name for name in DERIVED if not (is_counted and folder.has_table(name))]
    if not missing:
        return
    from pyarrow.dataset import dataset  # with pandas: a third of what a command takes to begin

    derived, schema = Derived(), TABLES["records"]
    if folder.has_table("records"):
        path = folder.path / "tables" / "records.parquet"
        try:
            check_footer(path, pq.read_metadata(path), "records")
            for batch in dataset(path, schema=schema).to_batches():
                derived.add(pa.Table.from_batches([batch]))
        except (pa.ArrowException, OSError) as error:
            raise HarnessError(unsound(path, error)) from error
    tables = derived.tables()
    for name in missing:
        folder.write_table(name, tables[name])
