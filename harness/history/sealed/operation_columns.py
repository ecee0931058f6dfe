"""The table operations: operations are indexes in their journal until the run numbers them by completion."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from harness.history.journals.journal_columns import NO_TRANSACTION, NO_WORD, NONE
from harness.history.journals.merging import Merged
from harness.history.schema.schemas import TABLES
from harness.history.sealed.group_tables import Transactions, numbers_of, texts_of

_SETTLED = ("send", "commit")


@dataclass(frozen=True, kw_only=True)
class Operations:
    """rank: the number of the operation at each place; completed_ns: the time of its end."""

    table: pa.Table
    rank: Any
    completed_ns: Any


def operations_of(merged: Merged, transactions: Transactions, *, run: int, last_ns: int) -> Operations:
    """An operation that was never answered ends with the run, at `last_ns`."""
    merged_columns = merged.columns["operations"]
    number, unanswered = len(merged_columns["invoked_ns"]), merged_columns["completed_ns"] == NONE
    completed_ns = np.where(unanswered, last_ns, merged_columns["completed_ns"])
    order = np.lexsort((merged_columns["begun"], merged_columns["invoked_ns"], unanswered, completed_ns))
    rank = np.empty(number, np.int64)
    rank[order] = np.arange(number)
    row = {name: column[order] for name, column in merged_columns.items()}
    status, error = _settled(row, merged.words, transactions)
    inside = row["transaction"] != NO_TRANSACTION
    words = list(merged.words)
    columns = {
        "run": np.full(number, run, np.int32),
        "operation": np.arange(number, dtype=np.int64),
        "process": numbers_of(merged.clients)[row["client"]],
        "client": texts_of(row["client"], [each.client for each in merged.clients]),
        "function": texts_of(row["word"], words),
        "status": status.astype(np.int8),
        "invoked_ns": row["invoked_ns"],
        "completed_ns": completed_ns[order],
        "count": row["count"].astype(np.int32),
        "error": texts_of(error, words),
        "transaction": pa.array(np.append(transactions.numbers(), 0)[row["transaction"]], pa.int64(), mask=~inside),
        "invocation_index": pa.nulls(number, pa.int64()),
        "completion_index": pa.nulls(number, pa.int64()),
    }
    return Operations(table=pa.table(columns, schema=TABLES["operations"]), rank=rank, completed_ns=completed_ns)


def _settled(row: Mapping[str, Any], words: dict[str, int], transactions: Transactions) -> tuple[Any, Any]:
    """Sends and commits in a transaction get its outcome."""
    status, error = row["status"], row["error"]
    codes = [words[f] for f in _SETTLED if f in words]
    mine = np.flatnonzero((row["transaction"] != NO_TRANSACTION) & np.isin(row["word"], codes))
    if len(mine):
        before = status[mine]
        status[mine] = after = transactions.settled(before, row["transaction"][mine])
        why = transactions.why(row["transaction"][mine], words)
        error[mine] = np.where((after != before) & (error[mine] == NO_WORD), why, error[mine])
    return status, error
