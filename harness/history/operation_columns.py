"""The table ops: an operation has a place among those of its journal until the run numbers it by its completion."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from harness.history.group_tables import IN_ABORTED, IN_UNKNOWN, Transactions, numbers_of, texts_of
from harness.history.journal_columns import NO_TRANSACTION, NO_WORD, NONE
from harness.history.merging import Merged
from harness.history.schemas import STATUS_FAIL, TABLES

_SETTLED = ("send", "commit")


@dataclass(frozen=True, kw_only=True)
class Operations:
    """rank: the number of the operation at each place; t1: the time of its end."""

    table: pa.Table
    rank: Any
    t1: Any


def operations_of(merged: Merged, transactions: Transactions, *, run: int, last_t: int) -> Operations:
    """One that was never answered ends with the run, at `last_t`."""
    told = merged.columns["operations"]
    number, unanswered = len(told["t0"]), told["t1"] == NONE
    t1 = np.where(unanswered, last_t, told["t1"])
    order = np.lexsort((told["begun"], told["t0"], unanswered, t1))
    rank = np.empty(number, np.int64)
    rank[order] = np.arange(number)
    row = {name: column[order] for name, column in told.items()}
    status, error = _settled(row, merged.words, transactions)
    inside = row["txn"] != NO_TRANSACTION
    words = list(merged.words)
    columns = {
        "run": np.full(number, run, np.int32),
        "op": np.arange(number, dtype=np.int64),
        "process": numbers_of(merged.clients)[row["client"]],
        "client": texts_of(row["client"], [each.client for each in merged.clients]),
        "f": texts_of(row["word"], words),
        "status": status.astype(np.int8),
        "t0": row["t0"],
        "t1": t1[order],
        "count": row["count"].astype(np.int32),
        "error": texts_of(error, words),
        "txn": pa.array(np.append(transactions.numbers(), 0)[row["txn"]], pa.int64(), mask=~inside),
        "i0": pa.nulls(number, pa.int64()),
        "i1": pa.nulls(number, pa.int64()),
    }
    return Operations(table=pa.table(columns, schema=TABLES["ops"]), rank=rank, t1=t1)


def _settled(row: Mapping[str, Any], words: dict[str, int], transactions: Transactions) -> tuple[Any, Any]:
    """Sends and commits inside a transaction became what it became."""
    status, error = row["status"], row["error"]
    codes = [words[f] for f in _SETTLED if f in words]
    mine = np.flatnonzero((row["txn"] != NO_TRANSACTION) & np.isin(row["word"], codes))
    if len(mine):
        before = status[mine]
        status[mine] = after = transactions.settled(before, row["txn"][mine])
        aborted, unknown = (words.setdefault(why, len(words)) for why in (IN_ABORTED, IN_UNKNOWN))
        why = np.where(after == STATUS_FAIL, aborted, unknown)
        error[mine] = np.where((after != before) & (error[mine] == NO_WORD), why, error[mine])
    return status, error
