"""Operations of Jepsen's Kafka workload that were read as maps: what their events say, as rows of the columns."""

from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import Any

from harness.errors import HarnessError, UsageError
from harness.history.jepsen.edn_reader import Keyword, frozen, written
from harness.history.jepsen.jepsen_columns import Columns, Moment
from harness.history.jepsen.micro_operations import REMEDY, WITH_RECORDS, elements_of, groups_of, whole
from harness.history.jepsen.skeletons import INVOKED, PROCESS_MAX, STATUSES
from harness.history.schema.schemas import STATUS_OK

_K = {
    name: Keyword(name)
    for name in (
        "index",
        "time",
        "process",
        "type",
        "f",
        "value",
        "error",
        "invoke",
        "assign",
        "keys",
        "partitions",
        "seek-to-beginning?",
        "rebalance-log",
        "debug-topic-partitions",
        "end-offset",
        "offset",
        "batch?",
    )
}


@dataclass(frozen=True, slots=True)
class Head:
    """kind: a status, or INVOKED."""

    process: int
    kind: int
    index: int
    time: int


def head_of(place: str, event: Any, position: int) -> Head | None:
    """None: the nemesis'."""
    if not isinstance(event, dict):
        raise UsageError(f"{place}: {written(event)[:60]} is no event (a map): {REMEDY}")
    process, kind = event.get(_K["process"]), event.get(_K["type"])
    if not isinstance(process, int) or isinstance(process, bool):
        if process is None:
            raise UsageError(f"{place}: the event has no :process: {REMEDY}")
        return None
    if not -PROCESS_MAX <= process <= PROCESS_MAX:
        raise HarnessError(f"{place}: :process is {written(process)[:60]}, more than 32 bits: {REMEDY}")
    index = whole(place, event.get(_K["index"], position), ":index")
    time = whole(place, event.get(_K["time"], index), ":time")
    if kind == _K["invoke"]:
        return Head(process, INVOKED, index, time)
    if isinstance(kind, Keyword) and kind in STATUSES:
        return Head(process, STATUSES[kind], index, time)
    found = "no :type" if kind is None else f":type {written(kind)[:60]}"
    raise UsageError(f"{place}: the event has {found}, not :invoke, :ok, :fail or :info: {REMEDY}")


class Operations:
    """Operations that were read as maps."""

    def __init__(self) -> None:
        self.columns = Columns()

    def completed(self, place: str, event: Mapping[Any, Any], status: int, when: Moment) -> None:
        """event: its completion, or its invocation if it has none."""
        f = event.get(_K["f"])
        if not isinstance(f, Keyword):
            raise UsageError(f"{place}: the event has no :f: {REMEDY}")
        process, value, error = event[_K["process"]], event.get(_K["value"]), event.get(_K["error"])
        moved = self._rebalanced(place, event, status, when) if event.get(_K["rebalance-log"]) else ()
        if f.name in WITH_RECORDS:
            self.columns.with_records(when, groups_of(place, f.name, value), moved=moved)
        elif f.name in ("assign", "subscribe") and when.completion_index is not None:
            self._assigned(place, event, when, status, process, value)
        elif f == _K["debug-topic-partitions"] and status == STATUS_OK:
            self._end_offsets(place, when, process, value)
        self.columns.operation(
            f.name,
            status,
            process,
            when,
            error=None if error is None else written(error),
            batch=f.name in WITH_RECORDS and event.get(_K["batch?"]) is True,
        )

    # -- keys that an operation named without a record -------

    def _assigned(
        self, place: str, event: Mapping[Any, Any], when: Moment, status: int, process: int, value: Any
    ) -> None:
        columns, sought = self.columns, event.get(_K["seek-to-beginning?"]) is True
        for name in dict.fromkeys(map(frozen, elements_of(place, value, ":value"))):
            key = columns.keys.of(name)
            columns.key(when, status, process, "assigned", key)
            if event[_K["f"]] == _K["assign"] and status == STATUS_OK:
                columns.key(when, status, process, "direct", key)
            if sought:
                columns.key(when, status, process, "sought", key)

    def _rebalanced(self, place: str, event: Mapping[Any, Any], status: int, when: Moment) -> Container[int]:
        process = event[_K["process"]]
        last: dict[int, Any] = {}
        for entry in elements_of(place, event[_K["rebalance-log"]], ":rebalance-log"):
            if not isinstance(entry, dict):
                raise UsageError(f"{place}: {written(entry)[:60]} is no map of a rebalance log: {REMEDY}")
            for name in elements_of(place, entry.get(_K["keys"]), ":keys of a rebalance log"):
                last[self.columns.keys.of(name)] = entry.get(_K["type"])
        for key, kind in last.items():
            self.columns.key(when, status, process, "rebalanced", key)
            if isinstance(kind, Keyword) and kind.name in ("revoked", "lost"):
                self.columns.key(when, status, process, "left", key)
        return last

    def _end_offsets(self, place: str, when: Moment, process: int, value: Any) -> None:
        states = value.get(_K["partitions"], value) if isinstance(value, dict) else {}
        for name, state in states.items() if isinstance(states, dict) else ():
            end = state.get(_K["end-offset"], state.get(_K["offset"])) if isinstance(state, dict) else None
            if isinstance(end, int) and not isinstance(end, bool):
                end = whole(place, end, "an end offset")
                self.columns.key(when, STATUS_OK, process, "end", self.columns.keys.of(name), end)
