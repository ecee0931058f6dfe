"""The tables that are derived from the records while these are written: a check and a page then need not."""

import pyarrow as pa

from harness.history.activity import Activity, activity_of
from harness.history.bins import Bins
from harness.history.jumps import Jumps, jumps_of


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
