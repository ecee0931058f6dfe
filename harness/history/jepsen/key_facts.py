"""What the operations of an imported history did with keys beside their records: empty polls, and what was read last.

Jepsen's answers depend on these few facts, for which the tables of a run have no column.
"""

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from harness.history.jepsen.clojure_order import ARRAY_MAP_MAX
from harness.history.schema.schemas import KIND_POLL, KIND_SEND, STATUS_OK

Column: TypeAlias = Any  # an array of NumPy

NEVER = -(1 << 62)  # in the columns of completions, of an operation that never completed


def operation_of(operations: Mapping[str, Column]) -> Column:
    """What an operation is called: the index of its completion, or of its invocation if it never completed."""
    never = operations["completed_ns"] == NEVER
    return np.where(never, operations["invocation_index"], operations["completion_index"])


class KeyFacts:
    """operations, groups: in order. with_records: which operations may send or poll. operation: of each group the row
    of its operation."""

    def __init__(
        self, operations: Mapping[str, Column], groups: Mapping[str, Column], keys: int, with_records: Column
    ) -> None:
        self._operations = operations
        self._groups = groups
        self._keys = max(keys, 1)
        self.operation: Column = np.searchsorted(operations["order"], groups["order"])
        self._reads = groups["kind"] == KIND_POLL
        self._ok = operations["status"] == STATUS_OK
        known = np.flatnonzero(self._ok & with_records)
        self._last = int(known[-1]) if len(known) else None

    def counts(self) -> Column:
        """How many records each operation has."""
        summed = np.concatenate([[0], np.cumsum(self._groups["count"])])
        rows = np.arange(len(self._ok))
        ends = np.searchsorted(self.operation, rows, side="right")
        return summed[ends] - summed[np.searchsorted(self.operation, rows)]

    def read_nothing(self) -> dict[str, Column]:
        """By operation and key: that it polled the key, and got nothing of it."""
        empty = np.flatnonzero(self._reads & (self._groups["count"] == 0))
        here = np.zeros(len(self._ok), bool)
        here[self.operation[empty]] = True
        some = np.flatnonzero(self._reads & here[self.operation] & (self._groups["count"] > 0))
        empty = empty[~np.isin(self._of_key(empty), self._of_key(some))]
        _, first = np.unique(self._of_key(empty), return_index=True)
        empty = empty[np.sort(first)]
        rows = self.operation[empty]
        return {
            **{name: self._operations[name][rows] for name in ("order", "process", "status")},
            "operation": operation_of(self._operations)[rows],
            "key": self._groups["key"][empty],
        }

    def _of_key(self, groups: Column) -> Column:
        return self.operation[groups] * self._keys + self._groups["key"][groups]

    def read_by_ok(self) -> Column:
        """The keys that ok operations polled, in order of the first time."""
        keys = pa.array(self._groups["key"][self._reads & self._ok[self.operation]]).dictionary_encode()
        return keys.dictionary.to_numpy()

    def wide(self, chosen: Column) -> frozenset[int]:
        """The operations with so many keys in these groups that Clojure's maps of them are not in order."""
        many = np.bincount(self.operation[chosen], minlength=len(self._ok)) > ARRAY_MAP_MAX
        groups = np.flatnonzero(chosen & many[self.operation])
        rows, keys = np.unique(np.unique(self._of_key(groups)) // self._keys, return_counts=True)
        return frozenset(operation_of(self._operations)[rows[keys > ARRAY_MAP_MAX]].tolist())

    def last_ok(self) -> tuple[int, int] | None:
        """The index and time of the last ok operation that may send or poll."""
        if self._last is None:
            return None
        return tuple(int(self._operations[name][self._last]) for name in ("completion_index", "completed_ns"))  # type: ignore[return-value]

    def first_read(self, numbers: Column) -> dict[int, list[int]]:
        """Of the last ok operation: what it polled of keys that no earlier ok one had sent to or polled."""
        if self._last is None:
            return {}
        kind, key, count = (self._groups[name] for name in ("kind", "key", "count"))
        used = (kind == KIND_SEND) | self._reads
        before = used & self._ok[self.operation] & (self.operation < self._last)
        low, high = np.searchsorted(self.operation, [self._last, self._last + 1])
        mine = slice(int(low), int(high))
        touched = set(np.unique(key[before]).tolist()) | set(key[mine][kind[mine] == KIND_SEND].tolist())
        found: dict[int, set[int]] = {
            each: set() for each in key[mine][self._reads[mine]].tolist() if each not in touched
        }
        starts = np.cumsum(count) - count
        for group in range(int(low), int(high)) if found else ():
            if (each := int(key[group])) in found:
                found[each].update(numbers[starts[group] : starts[group] + count[group]].tolist())
        return {each: sorted(values) for each, values in found.items()}
