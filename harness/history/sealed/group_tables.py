"""The tables processes, transactions and group_events, and the effect of a transaction's outcome on its sends.

Each journal numbers its transactions by itself; in the run they are numbered by their begin times.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from harness.history.journals.journal import OUTCOME, Process
from harness.history.journals.journal_columns import NO_TRANSACTION, NO_WORD, NONE
from harness.history.schema.schemas import STATUS_FAIL, STATUS_INFO, STATUS_OK, TABLES

COMMITTED, UNKNOWN = OUTCOME["committed"], OUTCOME["unknown"]  # transactions.outcome
# Why what was sent to a transaction has another status than its answer: by the transaction's outcome.
_WHY = {
    OUTCOME["aborted"]: "transaction aborted",
    UNKNOWN: "outcome of the transaction unknown",
    OUTCOME["never_begun"]: "transaction never begun",
}
NO_ACKS = ("consumer",)  # roles without sends


class Transactions:
    """All transactions of the run. The arguments are integers by column, named as in journal_columns.FIELDS."""

    def __init__(
        self, *, begun: Mapping[str, Any], ended: Mapping[str, Any], in_transactions: Mapping[str, Any]
    ) -> None:
        count = len(begun["invoked_ns"])
        self.client, self.invoked_ns = begun["client"], begun["invoked_ns"]
        self.completed_ns, self.error = np.full(count, NONE, np.int64), np.full(count, NO_WORD, np.int64)
        self.outcome = np.full(count, UNKNOWN, np.int64)
        self.group_of = np.full(count, -1, np.int64)  # the client whose group's offsets it contains
        for mine, column in ((self.completed_ns, "completed_ns"), (self.error, "error"), (self.outcome, "outcome")):
            mine[ended["transaction"]] = ended[column]
        self.group_of[in_transactions["transaction"]] = in_transactions["client"]

    def numbers(self) -> Any:
        """The number in the run of the transaction at each index."""
        numbers = np.empty(len(self.invoked_ns), np.int64)
        numbers[np.argsort(self.invoked_ns, kind="stable")] = np.arange(len(self.invoked_ns))
        return numbers

    def table(self, clients: Sequence[Process], words: Sequence[str], *, run: int, last_ns: int) -> pa.Table:
        order = np.argsort(self.invoked_ns, kind="stable")
        client, invoked_ns, completed_ns = self.client[order], self.invoked_ns[order], self.completed_ns[order]
        columns = {
            "run": np.full(len(order), run, np.int32),
            "transaction": np.arange(len(order), dtype=np.int64),
            "process": numbers_of(clients)[client],
            "transactional_id": texts_of(client, [each.transactional_id for each in clients]),
            "group": texts_of(self.group_of[order], [each.group for each in clients]),
            "invoked_ns": invoked_ns,
            "completed_ns": np.where(completed_ns == NONE, np.maximum(invoked_ns, last_ns), completed_ns),
            "outcome": self.outcome[order].astype(np.int8),
            "error": texts_of(self.error[order], words),
        }
        schema = TABLES["transactions"]
        return pa.table({name: columns[name] for name in schema.names}, schema=schema)

    # -- effect of the outcome ---------------------------

    def settled(self, status: Any, places: Any) -> Any:
        """The status of sends, or offsets, that were answered with `status`; NO_TRANSACTION: unchanged."""
        outcomes = np.append(self.outcome, COMMITTED)[places]  # NO_TRANSACTION is the last
        of_outcome = np.where(outcomes == UNKNOWN, STATUS_INFO, STATUS_FAIL)
        return np.where((status == STATUS_FAIL) | (outcomes == COMMITTED), status, of_outcome)

    def why(self, places: Any, words: dict[str, int]) -> Any:
        """The words for the outcomes of transactions; NO_WORD for those that committed."""
        of_outcome = np.full(len(OUTCOME), NO_WORD, np.int64)
        for outcome, why in _WHY.items():
            of_outcome[outcome] = words.setdefault(why, len(words))
        return of_outcome[np.append(self.outcome, COMMITTED)[places]]


def group_events_table(
    events: Mapping[str, Any],
    places: Mapping[str, Any],
    transactions: Transactions,
    *,
    run: int,
    clients: Sequence[Process],
    names: Sequence[tuple[str, int]],
    words: dict[str, int],
) -> pa.Table:
    """One row per event and partition, ordered by end time. `names`: the topic-partitions by number."""
    count = events["count"]
    of_event = np.repeat(np.arange(len(count)), count)
    row = np.lexsort((np.arange(len(of_event)), events["invoked_ns"][of_event], events["completed_ns"][of_event]))
    event_columns = {name: column[of_event[row]] for name, column in events.items()}
    partition_id, txn = places["partition_id"][row], event_columns["transaction"]
    status = transactions.settled(event_columns["status"], txn)
    why = np.where(status != STATUS_OK, transactions.why(txn, words), NO_WORD)
    spoken = list(words)
    columns = {
        "run": np.full(len(row), run, np.int32),
        "process": numbers_of(clients)[event_columns["client"]],
        "group": texts_of(event_columns["client"], [each.group or "" for each in clients]),
        "event": texts_of(event_columns["word"], spoken),
        "generation": nullable(event_columns["generation"], TABLES["group_events"].field("generation").type),
        "member": texts_of(event_columns["member"], spoken),
        "topic": texts_of(partition_id, [topic for topic, _ in names]),
        "partition": np.array([part for _, part in names], np.int32)[partition_id],
        "offset": nullable(places["offset"][row], pa.int64()),
        "status": status.astype(np.int8),
        "invoked_ns": event_columns["invoked_ns"],
        "completed_ns": event_columns["completed_ns"],
        "transaction": pa.array(np.append(transactions.numbers(), 0)[txn], pa.int64(), mask=txn == NO_TRANSACTION),
        "error": texts_of(np.where(event_columns["error"] == NO_WORD, why, event_columns["error"]), spoken),
        "require_stable": nullable(event_columns["require_stable"], pa.bool_()),
    }
    schema = TABLES["group_events"]
    return pa.table({name: columns[name] for name in schema.names}, schema=schema)


def processes_table(processes: Sequence[Process], *, complete: Sequence[bool | None], run: int) -> pa.Table:
    """One row per client, ordered by number."""
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
            "group_instance_id": each.group_instance_id,
            "group_protocol": each.group_protocol,
            "reads_for": each.reads_for,
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
