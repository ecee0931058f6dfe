"""The tables processes, transactions and group_events, and what a transaction's outcome means for what it sent.

Journals number their transactions each for itself; over the run they are numbered by their beginnings.
"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from harness.history.journal import Begin, End, Group, Process
from harness.history.schemas import STATUS_FAIL, STATUS_INFO, STATUS_OK, TABLES

COMMITTED, ABORTED, UNKNOWN = 0, 1, 2  # transactions.outcome
NO_TRANSACTION: Final = -1
IN_ABORTED, IN_UNKNOWN = "transaction aborted", "outcome of the transaction unknown"
NO_ACKS = ("consumer",)  # roles that send nothing


class Transactions:
    """All transactions of the run; `begin` gives the place by which the rows refer to it until they are numbered."""

    def __init__(self) -> None:
        self._rows: list[dict[str, Any]] = []

    def begin(self, line: Begin, process: Process) -> int:
        self._rows.append(
            {
                "process": process.process,
                "transactional_id": process.transactional_id,
                "t0": line.t,
                "t1": None,
                "outcome": UNKNOWN,
                "error": None,
                "group": None,
            }
        )
        return len(self._rows) - 1

    def end(self, place: int, line: End) -> None:
        self._rows[place] |= {"t1": line.t, "outcome": line.outcome, "error": line.error}

    def took_offsets_of(self, place: int, group: str | None) -> None:
        self._rows[place]["group"] = group

    def numbers(self) -> Any:
        """The number over the run of the transaction at each place."""
        begun = np.array([row["t0"] for row in self._rows], np.int64)
        numbers = np.empty(len(begun), np.int64)
        numbers[np.argsort(begun, kind="stable")] = np.arange(len(begun))
        return numbers

    def outcomes(self) -> Any:
        return np.array([row["outcome"] for row in self._rows], np.int64)

    def table(self, *, run: int, last_t: int) -> pa.Table:
        numbers = self.numbers().tolist()
        ends = [row["t1"] if row["t1"] is not None else max(last_t, row["t0"]) for row in self._rows]
        rows = [
            {**row, "run": run, "txn": number, "t1": end}
            for number, row, end in sorted(zip(numbers, self._rows, ends, strict=True), key=lambda each: each[0])
        ]
        return pa.Table.from_pylist(rows, schema=TABLES["transactions"])

    # -- what the outcome means ---------------------------

    def settled(self, status: int, place: int) -> int:
        """The status of a send, or of offsets, that was answered with `status` inside the transaction at `place`."""
        outcome = self._rows[place]["outcome"]
        if outcome == COMMITTED or status == STATUS_FAIL:
            return status
        return STATUS_FAIL if outcome == ABORTED else STATUS_INFO

    def settled_column(self, status: Any, places: Any) -> Any:
        """The same for the sends among rows of records; `places`: NO_TRANSACTION where there is none."""
        outcomes = np.append(self.outcomes(), COMMITTED)[places]  # NO_TRANSACTION is the last
        settled = np.where(outcomes == ABORTED, STATUS_FAIL, np.where(outcomes == UNKNOWN, STATUS_INFO, status))
        return np.where(status == STATUS_FAIL, status, settled)

    def why(self, place: int) -> str | None:
        return {COMMITTED: None, ABORTED: IN_ABORTED, UNKNOWN: IN_UNKNOWN}[self._rows[place]["outcome"]]


class GroupEvents:
    """One row per event and partition. `topic`, `part` and `txn` are filled in when their numbers are known."""

    def __init__(self) -> None:
        self._rows: list[tuple[Group, Process, int]] = []

    def add(self, line: Group, process: Process, transaction: int) -> None:
        self._rows.append((line, process, transaction))

    def table(
        self, places_of: Sequence[Sequence[tuple[str, int]]], transactions: Transactions, *, run: int
    ) -> pa.Table:
        """`places_of`: the topic-partitions of each event, in the order in which they were added."""
        numbers = transactions.numbers()
        rows = []
        for (line, process, place), places in zip(self._rows, places_of, strict=True):
            inside = place != NO_TRANSACTION
            status = transactions.settled(line.status, place) if inside else line.status
            why = transactions.why(place) if inside and status != STATUS_OK else None
            for (topic, part), off in zip(places, line.offsets, strict=True):
                rows.append(
                    {
                        "run": run,
                        "process": process.process,
                        "group": process.group,
                        "event": line.event,
                        "generation": line.generation,
                        "member": line.member,
                        "topic": topic,
                        "part": part,
                        "off": off,
                        "status": status,
                        "t0": line.t0,
                        "t1": line.t1,
                        "txn": int(numbers[place]) if inside else None,
                        "error": line.error or why,
                    }
                )
        rows.sort(key=lambda row: (row["t1"], row["t0"]))
        return pa.Table.from_pylist(rows, schema=TABLES["group_events"])


def processes_table(processes: Sequence[Process], *, run: int) -> pa.Table:
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
        }
        for each in sorted(processes, key=lambda process: process.process)
    ]
    return pa.Table.from_pylist(rows, schema=TABLES["processes"])
