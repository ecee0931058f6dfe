"""A history's rows as Jepsen writes its errors: maps with operations by index, in Jepsen's order.

Jepsen lists by key as Clojure's maps give keys out, then by operation and place; what it lists by number is sorted.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.checks.cycles.champ import in_trie_order
from harness.checks.jepsen.columns import RuleRow
from harness.checks.jepsen.rules import ABORTED, IN_OK, LOST, NO_WRITER, OWN, PHANTOM, UNSEEN
from harness.history.jepsen.clojure_order import ARRAY_MAP_MAX, clojure_hash, signed
from harness.history.jepsen.edn_reader import Keyword, written
from harness.history.jepsen.imported import ImportedHistory
from harness.history.schema.schemas import KIND_POLL, KIND_SEND

Error = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class HistoryAnswer:
    """errors: Jepsen's name -> its errors. bad: the names that make the history invalid; bad_assign, bad_subscribe:
    those that would if consumers assigned, or subscribed. inconclusive: names that say why there is no verdict.
    unknown: the exception that Jepsen's checker dies of instead of answering (compatible answers only)."""

    name: str
    errors: Mapping[str, Any] = field(default_factory=dict)
    bad: Sequence[str] = ()
    bad_assign: Sequence[str] = ()
    bad_subscribe: Sequence[str] = ()
    inconclusive: Sequence[str] = ()
    unknown: str | None = None

    def as_json(self) -> str:
        if self.unknown is not None:
            return json.dumps({"name": self.name, "unknown": self.unknown})
        answer = {
            "bad-assign": list(self.bad_assign),
            "bad-subscribe": list(self.bad_subscribe),
            "errors": self.errors,
            "name": self.name,
        }
        return json.dumps(answer, sort_keys=True)


def plain(value: Any) -> Any:
    """A key or value in JSON: a keyword by its name, what JSON has not as EDN."""
    if isinstance(value, Keyword):
        return str(value)[1:]
    return value if value is None or isinstance(value, (str, bool, int)) else written(value)


def op_index(index: int | None) -> dict[str, int] | None:
    return None if index is None else {"op-index": index}


class RunRows:
    """The rows of one history, and how it calls and orders things."""

    def __init__(self, history: ImportedHistory, rows: Mapping[str, list[RuleRow]]) -> None:
        self.history = history
        self.rows = defaultdict(list, rows)
        self.bounds = {row["partition_id"]: row["number"] for row in self.rows["bound"] if row["number"] is not None}
        self._values_in_log = {row["partition_id"]: row["number"] for row in self.rows["key"]}
        self._value_at: dict[int, dict[int, int]] = defaultdict(dict)
        for rule in ("value-at", "value-at-head"):
            for row in self.rows[rule]:
                self._value_at[row["partition_id"]][row["at"]] = row["value"]

    def key(self, partition_id: int) -> Any:
        return plain(self.history.keys[partition_id])

    def value(self, number: int) -> Any:
        return plain(self.history.values[number])

    def flagged(self, bit: int) -> list[RuleRow]:
        """Rows of values with this bit, in order of key, place in the log and value."""
        return sorted(
            (row for row in self.rows["value"] if row["number"] & bit),
            key=lambda row: (self.sort_key(self.history.keys[row["partition_id"]]), _or_last(row["at"]), row["value"]),
        )

    def between(self, low: int, high: int, partition_id: int) -> list[Any]:
        """The values of a gap, indexes low to high without its ends."""
        at = self._value_at[partition_id]
        return [self.value(at[index]) for index in range(low + 1, high)]

    @staticmethod
    def sort_key(value: Any) -> tuple[str, Any]:
        kind = type(value).__name__
        return (kind, value) if isinstance(value, (int, str)) else (kind, written(value))

    def listed(self, numbers: Iterable[int]) -> list[Any]:
        """A set of values as the golden answers write sets: in order of their texts."""
        return sorted((self.value(number) for number in set(numbers)), key=str)

    def log_order(self) -> dict[int, int]:
        """partition_id -> its place among the keys that have a log."""
        partition_ids = sorted(self._values_in_log)
        if len(partition_ids) <= ARRAY_MAP_MAX:
            partition_ids = in_trie_order(partition_ids, lambda number: signed(clojure_hash(self.history.keys[number])))
        return {partition_id: place for place, partition_id in enumerate(partition_ids)}

    def few_values(self, partition_id: int) -> bool:
        return int(self._values_in_log[partition_id]) <= ARRAY_MAP_MAX

    def in_operation(self, row: RuleRow) -> tuple[int, int]:
        """Sorts rows of keys as Jepsen walks the keys of an operation."""
        wide = self.history.wide_reads if row["kind"] == KIND_POLL else self.history.wide_writes
        return row["operation"], row["partition_id"] if row["operation"] in wide else row["i_first"]


def _or_last(index: int | None) -> int:
    return 1 << 62 if index is None else index


def death(run: RunRows) -> str | None:
    """The exception that ends Jepsen's analysis, if any."""
    if _unsortable(run):
        return "ClassCastException"
    if any(partition_id not in run.bounds for partition_id in run.history.read_order):
        return "IndexOutOfBoundsException"
    if run.flagged(NO_WRITER):
        return "no-writer-of"
    return "no-writer-of-value" if run.flagged(PHANTOM) else None


def _unsortable(run: RunRows) -> bool:
    """Jepsen sorts the keys of unseen values, and the values at one offset: Clojure sorts no keyword with a number."""
    unseen = {row["partition_id"] for row in run.rows["value"] if row["number"] & UNSEEN}
    unseen |= {partition_id for partition_id, values in run.history.first_read.items() if values}
    kinds: dict[tuple[int, int] | None, set[str]] = defaultdict(set)
    for partition_id in unseen:
        kinds[None].add(_sort_class(run.history.keys[partition_id]))
    for row in run.rows["inconsistent-offsets"]:
        kinds[row["partition_id"], row["offset"]].add(_sort_class(run.history.values[row["value"]]))
    return any(len(mixed) > 1 for mixed in kinds.values())


def _sort_class(value: Any) -> str:
    return "number" if isinstance(value, int) and not isinstance(value, bool) else type(value).__name__


def log_errors(run: RunRows, *, compatible: bool) -> dict[str, Any]:
    """Jepsen's errors but those of cycles. compatible: with its false `unseen`."""
    internal, external = run.rows["inside"], run.rows["between"]
    found: dict[str, Any] = {
        "inconsistent-offsets": _inconsistent_offsets(run),
        "duplicate": _duplicates(run),
        "G1a": _aborted_reads(run),
        "precommitted-read": _precommitted_reads(run),
        "lost-write": _lost_writes(run),
        "unseen": _unseen(run, run.history.first_read if compatible else {}),
        "int-poll-skip": _inside(run, internal, KIND_POLL, skip=True),
        "int-nonmonotonic-poll": _inside(run, internal, KIND_POLL, skip=False),
        "int-send-skip": _inside(run, internal, KIND_SEND, skip=True),
        "int-nonmonotonic-send": _inside(run, internal, KIND_SEND, skip=False),
        "poll-skip": _between(run, external, KIND_POLL, skip=True),
        "nonmonotonic-poll": _between(run, external, KIND_POLL, skip=False),
        "nonmonotonic-send": _between(run, external, KIND_SEND, skip=False),
    }
    return {name: errors for name, errors in found.items() if errors}


def _inconsistent_offsets(run: RunRows) -> list[Error]:
    places, by_offset = run.log_order(), defaultdict(list)
    for row in run.rows["inconsistent-offsets"]:
        by_offset[places[row["partition_id"]], row["offset"], row["partition_id"], row["at"]].append(row["value"])
    return [
        {
            "key": run.key(partition_id),
            "offset": offset,
            "index": index,
            "values": run.listed(by_offset[place, offset, partition_id, index]),
        }
        for place, offset, partition_id, index in sorted(by_offset)
    ]


def _duplicates(run: RunRows) -> list[Error]:
    places, by_value = run.log_order(), defaultdict(list)
    for row in run.rows["duplicate"]:
        by_value[row["partition_id"], row["value"]].append(row["offset"])

    def order(item: tuple[tuple[int, int], list[int]]) -> tuple[int, int, int]:
        (partition_id, value), offsets = item
        return places[partition_id], min(offsets) if run.few_values(partition_id) else 0, value

    return [
        {"key": run.key(partition_id), "value": run.value(value), "count": len(offsets), "offsets": sorted(offsets)}
        for (partition_id, value), offsets in sorted(by_value.items(), key=order)
    ]


def _aborted_reads(run: RunRows) -> list[Error]:
    rows = [row for row in run.rows["read"] if row["number"] & ABORTED and row["number"] & IN_OK]
    return [aborted_read(run, row) for row in sorted(rows, key=lambda row: (*run.in_operation(row), row["position"]))]


def aborted_read(run: RunRows, row: RuleRow) -> Error:
    return {
        "key": run.key(row["partition_id"]),
        "value": run.value(row["value"]),
        "writer": op_index(row["op2"]),
        "reader": op_index(row["operation"]),
    }


def _precommitted_reads(run: RunRows) -> list[Error]:
    """The first key of each operation only, and of it the first value in set order."""
    first: dict[int, tuple[int, int, int]] = {}
    senders = {(row["operation"], row["partition_id"], row["value"]) for row in run.rows["writer"]}
    for row in run.rows["read"]:
        sent = row["operation"] == row["op2"] or (row["operation"], row["partition_id"], row["value"]) in senders
        if row["number"] & OWN and sent:
            place = row["partition_id"] if row["operation"] in run.history.wide_writes else row["at"]
            found = (place, row["value"], row["partition_id"])
            first[row["operation"]] = min(first.get(row["operation"], found), found)
    return [
        {"op": op_index(op), "key": run.key(partition_id), "value": run.value(value)}
        for op, (_, value, partition_id) in sorted(first.items())
    ]


def _lost_writes(run: RunRows) -> list[Error]:
    places = {partition_id: place for place, partition_id in enumerate(run.history.read_order)}
    readers = {row["partition_id"]: row["operation"] for row in run.rows["reader"]}
    rows = [row for row in run.rows["value"] if row["number"] & LOST]
    rows.sort(key=lambda row: (places[row["partition_id"]], row["at2"], row["value"]))
    return [
        {
            "key": run.key(row["partition_id"]),
            "value": run.value(row["value"]),
            "index": row["at"],
            "max-read-index": run.bounds[row["partition_id"]],
            "writer": op_index(row["operation"]),
            "max-read": op_index(readers.get(row["partition_id"])),
        }
        for row in rows
    ]


def _unseen(run: RunRows, though_read: Mapping[int, Sequence[int]]) -> Error | None:
    unseen: dict[int, list[int]] = defaultdict(list)
    for row in run.rows["value"]:
        if row["number"] & UNSEEN:
            unseen[row["partition_id"]].append(row["value"])
    for partition_id, values in though_read.items():
        unseen[partition_id].extend(values)
    partition_ids = sorted(
        (each for each in unseen if unseen[each]), key=lambda each: run.sort_key(run.history.keys[each])
    )
    if not partition_ids:
        return None
    assert run.history.last_ok is not None, "something was acknowledged or read"
    messages = {str(run.key(each)): run.listed(unseen[each]) for each in partition_ids}
    counts = {key: len(values) for key, values in messages.items()}
    return {"time": run.history.last_ok[1], "unseen": counts, "messages": messages}


def _inside(run: RunRows, rows: Iterable[RuleRow], kind: int, *, skip: bool) -> list[Error]:
    wanted = [row for row in rows if row["kind"] == kind and (row["at"] > row["at2"]) == skip]
    return [
        {
            "key": run.key(row["partition_id"]),
            "values": [run.value(row["value"]), run.value(row["value2"])],
            "delta": row["at"] - row["at2"],
            "op": op_index(row["operation"]),
            **({"skipped": run.between(row["at2"], row["at"], row["partition_id"])} if skip else {}),
        }
        for row in sorted(wanted, key=lambda row: (*run.in_operation(row), row["position"]))
    ]


def _between(run: RunRows, rows: Iterable[RuleRow], kind: int, *, skip: bool) -> list[Error]:
    wanted = [row for row in rows if row["kind"] == kind and (row["at"] > row["at2"]) == skip]
    processes = run.history.process_order
    key: Callable[[RuleRow], Any] = lambda row: (processes[row["process"]], *run.in_operation(row))  # noqa: E731
    return [
        {
            "key": run.key(row["partition_id"]),
            "delta": row["at"] - row["at2"],
            "ops": [op_index(row["op2"]), op_index(row["operation"])],
            **(
                {"skipped": run.between(row["at2"], row["at"], row["partition_id"])}
                if skip
                else {"values": [run.value(row["value"]), run.value(row["value2"])]}
            ),
        }
        for row in sorted(wanted, key=key)
    ]
