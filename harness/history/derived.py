"""The tables that are derived from the records while these are written: a check and a page then need not."""

import pyarrow as pa

from harness.history.activity import Activity, activity_of
from harness.history.bins import Bins
from harness.history.jumps import Jumps, jumps_of
from harness.history.run_folder import RunFolder
from harness.history.schemas import DERIVED, TABLES


class Derived:
    """Takes one run's records a row group at a time, in order of the operations."""

    def __init__(self) -> None:
        self._takers: dict[str, Activity | Bins | Jumps] = {"bins": Bins(), "activity": Activity(), "jumps": Jumps()}

    def add(self, records: pa.Table) -> None:
        for taker in self._takers.values():
            taker.add(records)

    def tables(self) -> dict[str, pa.Table]:
        return {name: taker.table() for name, taker in self._takers.items()}


def derived_of(records: pa.Table) -> dict[str, pa.Table]:
    """Those that a check needs, for records of any number of runs."""
    return {"activity": activity_of(records), "jumps": jumps_of(records)}


def complete(folder: RunFolder) -> None:
    """Writes what a run that was sealed by an older version lacks; its other tables stay as they are."""
    missing = [name for name in DERIVED if not folder.has_table(name)]
    if not missing:
        return
    from pyarrow.dataset import dataset  # with pandas: a third of what a command takes to begin

    derived = Derived()
    if folder.has_table("records"):
        schema = TABLES["records"]
        for batch in dataset(folder.path / "tables" / "records.parquet", schema=schema).to_batches():
            derived.add(pa.Table.from_batches([batch]))
    tables = derived.tables()
    for name in missing:
        folder.write_table(name, tables[name])
