"""The table ops, grown as machine integers: an operation has a place from its call on, a number by its completion."""

from array import array
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from harness.history.group_tables import IN_ABORTED, IN_UNKNOWN, NO_TRANSACTION, Transactions
from harness.history.journal import Process
from harness.history.record_columns import NONE, NULL_ERROR, texts
from harness.history.schemas import STATUS_FAIL, STATUS_INFO, TABLES

_SETTLED = ("send", "commit")


class Operations:
    """`begin` gives the place of an operation; `end` what became of it. Never ended: nobody knows."""

    def __init__(self) -> None:
        self._process = array("q")
        self._f = array("q")
        self._t0 = array("q")
        self._t1 = array("q")
        self._status = array("q")
        self._count = array("q")
        self._error = array("q")
        self._txn = array("q")
        self._fs: dict[str, int] = {}
        self._errors: dict[str, int] = {}

    def begin(self, process: int, f: str, t0: int, txn: int) -> int:
        """`process`: the place of the client among those of the run."""
        self._process.append(process)
        self._f.append(self._fs.setdefault(f, len(self._fs)))
        self._t0.append(t0)
        self._t1.append(NONE)
        self._status.append(STATUS_INFO)
        self._count.append(0)
        self._error.append(NULL_ERROR)
        self._txn.append(txn)
        return len(self._f) - 1

    def end(
        self, place: int, *, t1: int | None, status: int, count: int, error: str | None, txn: int | None = None
    ) -> None:
        """`t1` None: it never ended, and does so with the run. `txn`: where it is known only now."""
        if t1 is not None:
            self._t1[place] = t1
        self._status[place], self._count[place] = status, count
        if error is not None:
            self._error[place] = self._errors.setdefault(error, len(self._errors))
        if txn is not None:
            self._txn[place] = txn

    def table(
        self, processes: Sequence[Process], transactions: Transactions, *, run: int, last_t: int
    ) -> tuple[pa.Table, Any, Any]:
        """The table; the number of the operation at each place; the time of its end."""
        t0, t1 = np.array(self._t0, np.int64), np.array(self._t1, np.int64)
        unanswered = t1 == NONE
        t1[unanswered] = last_t
        number = len(t0)
        order = np.lexsort((np.arange(number), t0, unanswered, t1))
        rank = np.empty(number, np.int64)
        rank[order] = np.arange(number)
        process, f, txn = (np.array(column, np.int64)[order] for column in (self._process, self._f, self._txn))
        status, error = self._settled(transactions, order, f, txn)
        inside = txn != NO_TRANSACTION
        names = [each.client for each in processes]
        table = pa.table(
            {
                "run": np.full(number, run, np.int32),
                "op": np.arange(number, dtype=np.int64),
                "process": np.array([each.process for each in processes], np.int32)[process],
                "client": texts(process, names),
                "f": texts(f, list(self._fs)),
                "status": status.astype(np.int8),
                "t0": t0[order],
                "t1": t1[order],
                "count": np.array(self._count, np.int32)[order],
                "error": texts(error, list(self._errors)),
                "txn": pa.array(np.append(transactions.numbers(), 0)[txn], pa.int64(), mask=~inside),
                "i0": pa.nulls(number, pa.int64()),
                "i1": pa.nulls(number, pa.int64()),
            },
            schema=TABLES["ops"],
        )
        return table, rank, t1

    def _settled(self, transactions: Transactions, order: Any, f: Any, txn: Any) -> tuple[Any, Any]:
        """Sends and commits inside a transaction became what it became."""
        status, error = np.array(self._status, np.int64)[order], np.array(self._error, np.int64)[order]
        codes = [code for name, code in self._fs.items() if name in _SETTLED]
        mine = np.flatnonzero((txn != NO_TRANSACTION) & np.isin(f, codes))
        if len(mine):
            before = status[mine]
            status[mine] = after = transactions.settled_column(before, txn[mine])
            aborted, unknown = (self._errors.setdefault(why, len(self._errors)) for why in (IN_ABORTED, IN_UNKNOWN))
            why = np.where(after == STATUS_FAIL, aborted, unknown)
            error[mine] = np.where((after != before) & (error[mine] == NULL_ERROR), why, error[mine])
        return status, error
