"""Operations of Jepsen's Kafka workload, read in bulk: which event completes which, in columns.

A process does one thing at a time, so its events are invocations and completions by turns; a history in which they are
not is reported by whoever reads it event by event. Events that were read as maps stand among the columns by their
process and times; what they did is read from the maps.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from harness.history.jepsen.edn_bulk import Block, Column, NotInBulk, blocks_of, events_of_line
from harness.history.jepsen.imported import ImportedHistory
from harness.history.jepsen.jepsen_columns import Moment
from harness.history.jepsen.operations import Operations, head_of
from harness.history.jepsen.skeletons import INVOKED, Skeletons
from harness.history.schema.schemas import STATUS_INFO

_NOBODY = -3  # in the place of an event's kind: it is the nemesis'
_NONE = -1  # in the place of a position
_NARROW = 1 << 16
_KINDS = {"kind": np.int8, "process": np.int32, "index": np.int64, "time": np.int64}


def import_in_bulk(name: str, text: bytes, *, place: str) -> ImportedHistory:
    """Raises NotInBulk or HarnessError if the history has to be read event by event."""
    operations, skeletons = Operations(), Skeletons()
    blocks = []
    for block in blocks_of(text, skeletons, place=place):
        operations.columns.records(block.keys, block.groups, block.offsets, block.values)
        blocks.append(block)
    events = _Events(text, place, blocks)
    events.add_to(operations, skeletons)
    return operations.columns.finished(name, events.processes)


class _Events:
    """By their positions: kind (or _NOBODY), process, index and time. before: of a completion its invocation.
    processes: in order of their first events."""

    def __init__(self, text: bytes, place: str, blocks: Sequence[Block]) -> None:
        self._text = text
        self._place = place
        self._odd: dict[int, Any] = dict(pair for block in blocks for pair in block.odd)
        self._count = sum(block.events for block in blocks)
        self._position = _joined(blocks, "position")
        self._skeleton = _joined(blocks, "skeleton")
        self._lines = _joined(blocks, "begin"), _joined(blocks, "end")
        self._column: dict[str, Column] = {}
        for name, kind in _KINDS.items():
            column = self._column[name] = np.full(self._count, _NOBODY, kind)
            column[self._position] = _joined(blocks, name)
        for position, event in self._odd.items():
            if (head := head_of(place, event, position)) is not None:
                for name, column in self._column.items():
                    column[position] = getattr(head, name)
        self._pair()

    def _pair(self) -> None:
        kind, process = self._column["kind"], self._column["process"]
        rows = np.flatnonzero(kind != _NOBODY)
        order = process[rows]
        if len(rows) and order.min() >= 0 and order.max() < _NARROW:
            order = order.astype(np.uint16)  # sorted by counting
        rows = rows[np.argsort(order, kind="stable")]
        invoked = kind[rows] == INVOKED
        first = np.ones(len(rows), bool)
        first[1:] = process[rows[1:]] != process[rows[:-1]]
        by_turns = first | np.concatenate([[True], invoked[1:] != invoked[:-1]])
        if not (invoked[first].all() and by_turns.all()):
            raise NotInBulk
        self._before = np.full(self._count, _NONE)
        completed = np.flatnonzero(~invoked)
        self._before[rows[completed]] = rows[completed - 1]
        self._open = np.sort(rows[np.append(first[1:], np.ones(min(1, len(rows)), bool)) & invoked])
        self.processes: list[int] = process[np.sort(rows[first])].tolist()

    def add_to(self, operations: Operations, skeletons: Skeletons) -> None:
        self._add_completed(operations, skeletons)
        column = self._column
        for position in sorted(self._odd):
            if (before := int(self._before[position])) != _NONE:
                when = Moment(
                    order=position,
                    invocation_index=int(column["index"][before]),
                    invoked_ns=int(column["time"][before]),
                    completion_index=int(column["index"][position]),
                    completed_ns=int(column["time"][position]),
                )
                operations.completed(self._place, self._odd[position], int(column["kind"][position]), when)
        for order, position in enumerate(self._open.tolist(), start=self._count):
            when = Moment(order, int(column["index"][position]), int(column["time"][position]), None, None)
            operations.completed(self._place, self._event(position), STATUS_INFO, when)

    def _add_completed(self, operations: Operations, skeletons: Skeletons) -> None:
        """Those of lines in bulk."""
        column, shapes, columns = self._column, skeletons.shapes, operations.columns
        rows = np.flatnonzero(column["kind"][self._position] != INVOKED)
        position, skeleton = self._position[rows], self._skeleton[rows]
        before = self._before[position]
        functions, errors, batches = (
            np.array([columns.name(shape.function) for shape in shapes], np.int64),
            np.array([columns.name(shape.error) for shape in shapes], np.int64),
            np.array([shape.batch for shape in shapes], bool),
        )
        columns.operations(
            order=position,
            process=column["process"][position],
            function=functions[skeleton],
            status=column["kind"][position],
            invocation_index=column["index"][before],
            invoked_ns=column["time"][before],
            completion_index=column["index"][position],
            completed_ns=column["time"][position],
            error=errors[skeleton],
            batch=batches[skeleton],
        )

    def _event(self, position: int) -> Any:
        if position in self._odd:
            return self._odd[position]
        row = int(np.searchsorted(self._position, position))
        begin, end = (int(column[row]) for column in self._lines)
        (event,) = events_of_line(self._text[begin:end], self._place)
        return event


def _joined(blocks: Sequence[Block], name: str) -> Column:
    return np.concatenate([np.empty(0, _KINDS.get(name, np.int64)), *(getattr(block, name) for block in blocks)])
