"""The table `activity`: how much was done in a run, and whether there is anything that some questions could find.

Counted while the records are written, where it costs next to nothing; a question about what did not occur need then
not be asked.
"""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from harness.history.schemas import KIND_FINAL_POLL, KIND_POLL, KIND_SEND, STATUS_OK, TABLES

SLOW_NS = 500_000_000  # of a send that took longer, the partition may have paused meanwhile
_COUNTS = ("sends", "reads", "final_reads")
_MARKS = ("transactional", "halting", "log_append")


class Activity:
    """Takes the records a row group at a time."""

    def __init__(self) -> None:
        self._counts = dict.fromkeys(_COUNTS, 0)
        self._marks = dict.fromkeys(_MARKS, False)
        self._t_last: int | None = None
        self._apart: int | None = None  # when the first replica was read by itself

    def add(self, records: pa.Table) -> None:
        if not len(records):
            return
        kind, t0, t1 = (records.column(name).to_numpy() for name in ("kind", "t0", "t1"))
        apart = np.asarray(records.column("replica").is_valid()) & (kind == KIND_FINAL_POLL)
        self._counts["sends"] += int((kind == KIND_SEND).sum())
        self._counts["reads"] += int((kind == KIND_POLL).sum())
        self._counts["final_reads"] += int(((kind == KIND_FINAL_POLL) & ~apart).sum())
        latest = int(t1.max())
        self._t_last = latest if self._t_last is None else max(latest, self._t_last)
        if apart.any():
            began = int(t0[apart].min())
            self._apart = began if self._apart is None else min(began, self._apart)
        self._marks["transactional"] |= records.column("txn").null_count < len(records)
        self._marks["log_append"] |= bool(pc.any(pc.fill_null(records.column("log_append"), False)).as_py())
        self._marks["halting"] |= _halting(records, kind == KIND_SEND, t1 - t0)

    def table(self, *, run: int = 0) -> pa.Table:
        if self._t_last is None:
            return TABLES["activity"].empty_table()
        row = {"run": run, **self._counts, **self._marks, "t_last": self._t_last, "replica_reads_began": self._apart}
        return pa.Table.from_pylist([row], schema=TABLES["activity"])


def activity_of(records: pa.Table) -> pa.Table:
    """The rows of all the runs in a table of records."""
    told = [TABLES["activity"].empty_table()]
    for run in pc.unique(records.column("run")).to_pylist():
        one = Activity()
        one.add(records.filter(pc.equal(records.column("run"), run)))
        told.append(one.table(run=run))
    return pa.concat_tables(told)


def _halting(records: pa.Table, sent: Any, took_ns: Any) -> bool:
    """Whether a send that its partition was to answer was not answered well, or late (checks/availability.py)."""
    asked = sent & (np.asarray(pc.fill_null(records.column("acks"), -1)) != 0)
    bound = np.asarray(records.column("txn").is_valid()) & np.asarray(records.column("off").is_valid())
    taken = (records.column("status").to_numpy() == STATUS_OK) | bound
    return bool((asked & (~taken | (took_ns > SLOW_NS))).any())
