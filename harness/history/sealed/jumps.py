"""The table `jumps`: first records of polls that do not continue where their consumer's previous poll ended.

A consumer usually continues, so there are few, whatever the run's size; the detection query (checks/spark/detection.py)
decides which went back and which left something out. A failed poll's records count, but the consumer may not have moved
on.
"""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from harness.history.schema.schemas import KIND_SEND, STATUS_OK, TABLES

_READER = ("run", "process", "assignment", "partition_id")
_COLUMNS = (*_READER, "operation", "position", "offset", "status", "value")
_ABSENT = -(2**62)


class Jumps:
    """Takes the records one row group at a time, in order of the operations."""

    def __init__(self) -> None:
        self._ends: dict[tuple[int, ...], int] = {}  # the last offset of a reader's previous polls
        self._found: list[pa.Table] = []

    def add(self, records: pa.Table) -> None:
        first = pc.is_null(records.column("offset_step"))
        read = pc.not_equal(records.column("kind"), KIND_SEND)
        edges = pc.and_(read, pc.or_(first, pc.fill_null(records.column("last_of_poll"), False)))
        rows = records.append_column("first", first).filter(edges).select([*_COLUMNS, "first"])
        if len(rows):
            self._take({name: _numbers(rows, name) for name in (*_COLUMNS, "first")})

    def table(self) -> pa.Table:
        return pa.concat_tables([TABLES["jumps"].empty_table(), *self._found])

    def _take(self, rows: dict[str, Any]) -> None:
        order = np.lexsort([rows[name] for name in ("position", "operation", *reversed(_READER))])
        rows = {name: column[order] for name, column in rows.items()}
        count = len(order)
        new = np.append(True, np.any([rows[name][1:] != rows[name][:-1] for name in _READER], axis=0))
        heads = np.flatnonzero(new)
        head = np.repeat(heads, np.diff(np.append(heads, count)))
        moved_on = (rows["status"] == STATUS_OK) & (rows["offset"] != _ABSENT)
        latest = np.maximum.accumulate(np.where(moved_on, np.arange(count), -1))
        before = np.append(-1, latest[:-1])
        known = before >= head
        end = np.where(known, rows["offset"][before], _ABSENT)
        for place in np.flatnonzero(~known):
            end[place] = self._ends.get(_reader(rows, place), _ABSENT)
        for place in np.append(heads[1:], count) - 1:
            if latest[place] >= head[place]:
                self._ends[_reader(rows, place)] = int(rows["offset"][latest[place]])
        jump = rows["offset"] - end
        chosen = (rows["first"] == 1) & (end != _ABSENT) & (rows["offset"] != _ABSENT) & (jump != 1)
        if chosen.any():
            found = {name: rows[name][chosen] for name in ("run", "partition_id", "value", "offset")} | {
                "jump": jump[chosen]
            }
            columns = {name: pa.array(column, mask=column == _ABSENT) for name, column in found.items()}
            self._found.append(pa.table(columns).cast(TABLES["jumps"]))


def jumps_of(records: pa.Table) -> pa.Table:
    """The jumps of all the runs in a table of records."""
    jumps = Jumps()
    jumps.add(records)
    return jumps.table()


def _reader(rows: dict[str, Any], place: Any) -> tuple[int, ...]:
    return tuple(int(rows[name][place]) for name in _READER)


def _numbers(rows: pa.Table, name: str) -> Any:
    return pc.fill_null(rows.column(name).cast(pa.int64()), _ABSENT).combine_chunks().to_numpy()
