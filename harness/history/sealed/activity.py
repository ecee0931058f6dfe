"""The table `activity`: totals of a run, which show whether some queries can find anything at all.

They are counted while the records are written, at almost no cost; queries about what did not occur are then skipped.
"""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from harness.history.schema.schemas import KIND_FINAL_POLL, KIND_POLL, KIND_SEND, STATUS_OK, TABLES

SLOW_NS = 500_000_000  # for a send that took longer, the partition may have paused meanwhile
_COUNTS = ("sends", "reads", "final_reads")
_MARKS = ("transactional", "halting", "log_append")


class Activity:
    """Takes the records one row group at a time."""

    def __init__(self) -> None:
        self._counts = dict.fromkeys(_COUNTS, 0)
        self._marks = dict.fromkeys(_MARKS, False)
        self._t_last: int | None = None
        self._apart: int | None = None  # time of the first read from a single replica

    def add(self, records: pa.Table) -> None:
        if not len(records):
            return
        kind, invoked_ns, completed_ns = (
            records.column(name).to_numpy() for name in ("kind", "invoked_ns", "completed_ns")
        )
        apart = np.asarray(records.column("replica").is_valid()) & (kind == KIND_FINAL_POLL)
        self._counts["sends"] += int((kind == KIND_SEND).sum())
        self._counts["reads"] += int((kind == KIND_POLL).sum())
        self._counts["final_reads"] += int(((kind == KIND_FINAL_POLL) & ~apart).sum())
        latest = int(completed_ns.max())
        self._t_last = latest if self._t_last is None else max(latest, self._t_last)
        if apart.any():
            began = int(invoked_ns[apart].min())
            self._apart = began if self._apart is None else min(began, self._apart)
        self._marks["transactional"] |= records.column("transaction").null_count < len(records)
        self._marks["log_append"] |= bool(pc.any(pc.fill_null(records.column("log_append"), False)).as_py())
        self._marks["halting"] |= _halting(records, kind == KIND_SEND, completed_ns - invoked_ns)

    def table(self, *, run: int = 0) -> pa.Table:
        if self._t_last is None:
            return TABLES["activity"].empty_table()
        row = {
            "run": run,
            **self._counts,
            **self._marks,
            "last_ns": self._t_last,
            "replica_reads_began_ns": self._apart,
        }
        return pa.Table.from_pylist([row], schema=TABLES["activity"])


def activity_of(records: pa.Table) -> pa.Table:
    """The rows of all the runs in a table of records."""
    parts = [TABLES["activity"].empty_table()]
    for run in pc.unique(records.column("run")).to_pylist():
        one = Activity()
        one.add(records.filter(pc.equal(records.column("run"), run)))
        parts.append(one.table(run=run))
    return pa.concat_tables(parts)


def _halting(records: pa.Table, sent: Any, took_ns: Any) -> bool:
    """True if a send that its partition should answer failed or took long (checks/families/cluster/availability.py)."""
    asked = sent & (np.asarray(pc.fill_null(records.column("acks"), -1)) != 0)
    bound = np.asarray(records.column("transaction").is_valid()) & np.asarray(records.column("offset").is_valid())
    taken = (records.column("status").to_numpy() == STATUS_OK) | bound
    return bool((asked & (~taken | (took_ns > SLOW_NS))).any())
