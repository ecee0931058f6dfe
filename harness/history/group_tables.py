"""The tables processes, transactions and group_events, and what a transaction's outcome means for what it sent.

Journals number their transactions each for itself; over the run they are numbered by their beginnings.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from harness.history.journal import OUTCOME, Process
from harness.history.journal_columns import NO_TRANSACTION, NO_WORD, NONE
from harness.history.schemas import STATUS_FAIL, STATUS_INFO, STATUS_OK, TABLES

COMMITTED, ABORTED, UNKNOWN = (OUTCOME[name] for name in ("committed", "aborted", "unknown"))  # transactions.outcome
IN_ABORTED, IN_UNKNOWN = "transaction aborted", "outcome of the transaction unknown"
NO_ACKS = ("consumer",)  # roles that send nothing


class Transactions:
    """All transactions of the run. The arguments are integers by column, as journal_columns.FIELDS names them."""

    def __init__(self, *, begun: Mapping[str, Any], ended: Mapping[str, Any], took: Mapping[str, Any]) -> None:
        count = len(begun["t0"])
        self.client, self.t0 = begun["client"], begun["t0"]
        self.t1, self.error = np.full(count, NONE, np.int64), np.full(count, NO_WORD, np.int64)
        self.outcome = np.full(count, UNKNOWN, np.int64)
        self.group_of = np.full(count, -1, np.int64)  # the client whose group's offsets it took
        for mine, told in ((self.t1, "t1"), (self.error, "error"), (self.outcome, "outcome")):
            mine[ended["txn"]] = ended[told]
        self.group_of[took["txn"]] = took["client"]

    def numbers(self) -> Any:
        """The number over the run of the transaction at each place."""
        numbers = np.empty(len(self.t0), np.int64)
        numbers[np.argsort(self.t0, kind="stable")] = np.arange(len(self.t0))
        return numbers

    def table(self, clients: Sequence[Process], words: Sequence[str], *, run: int, last_t: int) -> pa.Table:
        order = np.argsort(self.t0, kind="stable")
        client, t0, t1 = self.client[order], self.t0[order], self.t1[order]
        columns = {
            "run": np.full(len(order), run, np.int32),
            "txn": np.arange(len(order), dtype=np.int64),
            "process": numbers_of(clients)[client],
            "transactional_id": texts_of(client, [each.transactional_id for each in clients]),
            "group": texts_of(self.group_of[order], [each.group for each in clients]),
            "t0": t0,
            "t1": np.where(t1 == NONE, np.maximum(t0, last_t), t1),
            "outcome": self.outcome[order].astype(np.int8),
            "error": texts_of(self.error[order], words),
        }
        schema = TABLES["transactions"]
        return pa.table({name: columns[name] for name in schema.names}, schema=schema)

    # -- what the outcome means ---------------------------

    def settled(self, status: Any, places: Any) -> Any:
        """What became of sends, or of offsets, that were answered with `status`; NO_TRANSACTION: as they were."""
        outcomes = np.append(self.outcome, COMMITTED)[places]  # NO_TRANSACTION is the last
        settled = np.where(outcomes == ABORTED, STATUS_FAIL, np.where(outcomes == UNKNOWN, STATUS_INFO, status))
        return np.where(status == STATUS_FAIL, status, settled)

    def why(self, places: Any, *, aborted: int, unknown: int) -> Any:
        """The words for what became of the transactions; NO_WORD for those that committed."""
        of_outcome = np.array([NO_WORD, aborted, unknown], np.int64)
        return of_outcome[np.append(self.outcome, COMMITTED)[places]]


def group_events_table(
    events: Mapping[str, Any], places: Mapping[str, Any], transactions: Transactions, *, run: int,
    clients: Sequence[Process], names: Sequence[tuple[str, int]], words: dict[str, int],
) -> pa.Table:  # fmt: skip
    """One row per event and partition, in order of their ends. `names`: the topic-partitions by number."""
    count = events["count"]
    of_event = np.repeat(np.arange(len(count)), count)
    row = np.lexsort((np.arange(len(of_event)), events["t0"][of_event], events["t1"][of_event]))
    told = {name: column[of_event[row]] for name, column in events.items()}
    tp, txn = places["tp"][row], told["txn"]
    status = transactions.settled(told["status"], txn)
    aborted, unknown = (words.setdefault(why, len(words)) for why in (IN_ABORTED, IN_UNKNOWN))
    why = np.where(status != STATUS_OK, transactions.why(txn, aborted=aborted, unknown=unknown), NO_WORD)
    spoken = list(words)
    columns = {
        "run": np.full(len(row), run, np.int32),
        "process": numbers_of(clients)[told["client"]],
        "group": texts_of(told["client"], [each.group for each in clients]),
        "event": texts_of(told["word"], spoken),
        "generation": nullable(told["generation"], TABLES["group_events"].field("generation").type),
        "member": texts_of(told["member"], spoken),
        "topic": texts_of(tp, [topic for topic, _ in names]),
        "part": np.array([part for _, part in names], np.int32)[tp],
        "off": nullable(places["off"][row], pa.int64()),
        "status": status.astype(np.int8),
        "t0": told["t0"],
        "t1": told["t1"],
        "txn": pa.array(np.append(transactions.numbers(), 0)[txn], pa.int64(), mask=txn == NO_TRANSACTION),
        "error": texts_of(np.where(told["error"] == NO_WORD, why, told["error"]), spoken),
    }
    schema = TABLES["group_events"]
    return pa.table({name: columns[name] for name in schema.names}, schema=schema)


def processes_table(processes: Sequence[Process], *, complete: Sequence[bool | None], run: int) -> pa.Table:
    """One row per client, in order of its number."""
    rows = [
        {
            "run": run,
            "process": each.process,
            "client": each.client,
            "library": each.library,
            "role": each.role,
            "acks": None if each.role in NO_ACKS else each.acks,
            "idempotent": each.idempotent,
            "isolation": each.isolation,
            "group": each.group,
            "transactional_id": each.transactional_id,
            "offset_reset": each.offset_reset,
            "tells_attempts": each.tells_attempts,
            "journal_complete": is_complete,
        }
        for each, is_complete in sorted(zip(processes, complete, strict=True), key=lambda pair: pair[0].process)
    ]
    return pa.Table.from_pylist(rows, schema=TABLES["processes"])


def numbers_of(clients: Sequence[Process]) -> Any:
    return np.array([each.process for each in clients], np.int32)


def texts_of(codes: Any, words: Sequence[str | None]) -> pa.Array:
    """The word for each code; null for a negative one."""
    absent = codes < 0
    if absent.all():
        return pa.nulls(len(codes), pa.string())
    indices = pa.array(codes.astype(np.int32), mask=absent)
    return pa.DictionaryArray.from_arrays(indices, pa.array(words, pa.string())).cast(pa.string())


def nullable(column: Any, kind: pa.DataType) -> pa.Array:
    absent = column == NONE
    if absent.all():
        return pa.nulls(len(column), kind)
    if not absent.any():
        return pa.array(column).cast(kind)
    return pa.array(np.where(absent, 0, column), mask=absent).cast(kind)
