"""Converts Jepsen's histories of the Kafka workload to the tables of a run.

A completion becomes one row of `operations` (operation = its :index) and one row of `records` per send and polled pair.
Keys become topic-partitions: `topic` is the key as EDN, `partition_id` its number. Keys and values are numbered in the
order of Clojure's sets, so "the first of a set" is the smallest number. An invocation without completion becomes an
info operation with completed_ns and completion_index null. IMPORTED_KEYS has what the tables have no column for.

edn_bulk.py reads lines in the form that Jepsen prints; edn_reader.py reads all other EDN as maps.
"""

import contextlib
import gc
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.errors import HarnessError, UsageError
from harness.history.files_below import all_below
from harness.history.jepsen.clojure_order import map_order
from harness.history.jepsen.edn_bulk import BulkPoll, BulkSend, Line, Micro, NotInBulk, OddLine, lines_of, reads
from harness.history.jepsen.edn_reader import Keyword, bytes_of, frozen, read_bytes, read_text, written
from harness.history.jepsen.imported import KIND_STRAY_POLL, KIND_STRAY_SEND, ImportedHistory
from harness.history.jepsen.jepsen_columns import NO_OFFSET, Columns, Group, Moment
from harness.history.schema.schemas import KIND_POLL, KIND_SEND, STATUS_FAIL, STATUS_INFO, STATUS_OK

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
        "ok",
        "fail",
        "info",
        "send",
        "poll",
        "txn",
        "assign",
        "subscribe",
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
_STATUS = {"ok": STATUS_OK, "fail": STATUS_FAIL, "info": STATUS_INFO}
_STATUS_OF = {_K[name]: status for name, status in _STATUS.items()}
_WITH_RECORDS = ("txn", "send", "poll")
_REMEDY = "Jepsen's Kafka histories are wanted (jepsen.tests.kafka)"
_OF_A_TEST = "history.edn"  # in the folder that Jepsen makes for each test
_OTHER_FORMS = ("history.txt", "test.jepsen")
_BIG = 1 << 62
_PROCESS_MAX = 2**31 - 1


@dataclass(frozen=True, kw_only=True)
class HistoryFile:
    """through_links: it was named itself, so a link may stand for it."""

    path: Path
    name: str
    through_links: bool


def read_history(path: Path, *, through_links: bool = True, name: str = "") -> ImportedHistory:
    """The history of one .edn file. Raises HarnessError."""
    text = bytes_of(path, through_links=through_links)
    return _imported(name or _name_of(path), text, str(path), lambda: read_bytes(text, place=str(path)))


def import_text(name: str, text: str) -> ImportedHistory:
    return _imported(name, text.encode(), name, lambda: read_text(text, place=name))


def history_files(paths: Sequence[Path]) -> list[HistoryFile]:
    """The named files, and the histories below named folders, by name.

    Jepsen's folder of a test has history.edn, and other .edn files that are none (results.edn, consume-counts.edn,
    those of its nodes): there it is the history, named by its folder. Elsewhere every .edn file is one. Links such as
    its `latest` are not followed, unless they are named themselves.
    """
    files: list[HistoryFile] = []
    for path in paths:
        if not path.is_dir():
            _refuse_other_forms(path)
            files.append(HistoryFile(path=path, name=_name_of(path), through_links=True))
            continue
        found = sorted(Path(entry.path) for entry in all_below(path) if entry.name.endswith(".edn"))
        tests = {file.parent for file in found if file.name == _OF_A_TEST}
        own = [file for file in found if file.name == _OF_A_TEST or tests.isdisjoint(file.parents)]
        if not own:
            raise UsageError(f"{path} has no .edn file: name files of Jepsen histories, or a folder of them")
        files += [HistoryFile(path=file, name=_name_below(path, file), through_links=False) for file in own]
    return files


def _refuse_other_forms(path: Path) -> None:
    if path.name in _OTHER_FORMS:
        beside = path.with_name(_OF_A_TEST)
        where = f"give {beside}, which lies beside it" if beside.is_file() else f"give the test's {_OF_A_TEST}"
        raise UsageError(f"{path}: this form of a history is not read: {where}")


def _name_of(path: Path) -> str:
    """The file's stem; of Jepsen's history.edn the test's folder."""
    return path.resolve().parent.name if path.name == _OF_A_TEST else path.stem


def _name_below(folder: Path, file: Path) -> str:
    """So that the tests of a store differ: with the folders between."""
    between = file.parent.relative_to(folder)
    if file.name != _OF_A_TEST:
        return file.stem
    return _name_of(file) if between == Path() else between.as_posix()


def _imported(name: str, text: bytes, place: str, plainly: Callable[[], Iterable[tuple[int, Any]]]) -> ImportedHistory:
    """In bulk if possible; only the plain reader knows line numbers for messages."""
    if text:
        with _no_garbage(), contextlib.suppress(NotInBulk, HarnessError):
            return import_lines(name, lines_of(text, place=place))
    return import_events(name, ((f"{place}:{line}", event) for line, event in plainly()))


@contextlib.contextmanager
def _no_garbage() -> Iterator[None]:
    """Switches the garbage collector off: searching millions of pairs for cycles takes half of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def import_events(name: str, events: Iterable[tuple[str, Any]]) -> ImportedHistory:
    """events: (place for messages, event map) in order."""
    history = _Import()
    for place, event in events:
        history.event(place, event)
    return history.finished(name)


def import_lines(name: str, lines: Iterable[Line | OddLine]) -> ImportedHistory:
    """The same in bulk. Raises NotInBulk or HarnessError if `import_events` has to decide."""
    history = _Import()
    for line in lines:
        if isinstance(line, Line):
            history.line(line)
        else:
            for event in line.events:
                history.event(name, event)
    return history.finished(name)


class _Import:
    def __init__(self) -> None:
        self._columns = Columns()
        self._open: dict[int, tuple[str, Mapping[Any, Any] | Line, int, int]] = {}
        self._processes: dict[int, None] = {}
        self._position = -1

    def line(self, line: Line) -> None:
        self._position += 1
        process = line.process
        if not -_PROCESS_MAX <= process <= _PROCESS_MAX:
            raise NotInBulk
        if line.type == "invoke":
            self._processes.setdefault(process)
            if process in self._open:
                raise NotInBulk
            for micro in line.value:
                if isinstance(micro, BulkPoll):
                    reads(micro)  # values of other operations are not used, but must be valid
            self._open[process] = "", line, line.index, line.time
            return
        invocation = self._open.pop(process, None)
        if invocation is None:
            raise NotInBulk
        when = Moment(invocation[2], invocation[3], line.index, line.time)
        self._line_completed(line, _STATUS[line.type], when)

    def _line_completed(self, line: Line, status: int, when: Moment) -> None:
        self._columns.with_records(
            line.f,
            status,
            line.process,
            when,
            _groups(line.f, line.value),
            error=line.error,
            batch=line.batch,
            small=True,
        )

    def event(self, place: str, event: Any) -> None:
        self._position += 1
        if not isinstance(event, dict):
            raise UsageError(f"{place}: {written(event)[:60]} is no event (a map): {_REMEDY}")
        process, kind = event.get(_K["process"]), event.get(_K["type"])
        if not isinstance(process, int) or isinstance(process, bool):
            if process is None:
                raise UsageError(f"{place}: the event has no :process: {_REMEDY}")
            return  # the nemesis
        if not -_PROCESS_MAX <= process <= _PROCESS_MAX:
            raise HarnessError(f"{place}: :process is {written(process)[:60]}, more than 32 bits: {_REMEDY}")
        index = _whole(place, event.get(_K["index"], self._position), ":index")
        time = _whole(place, event.get(_K["time"], index), ":time")
        self._processes.setdefault(process)
        if kind == _K["invoke"]:
            if process in self._open:
                raise UsageError(f"{place}: process {process} invokes while its operation before is open: {_REMEDY}")
            self._open[process] = (place, event, index, time)
        elif isinstance(kind, Keyword) and kind in _STATUS_OF:
            invocation = self._open.pop(process, None)
            if invocation is None:
                raise UsageError(f"{place}: process {process} completes what it never invoked: {_REMEDY}")
            self._completed(place, event, _STATUS_OF[kind], Moment(invocation[2], invocation[3], index, time))
        else:
            found = "no :type" if kind is None else f":type {written(kind)[:60]}"
            raise UsageError(f"{place}: the event has {found}, not :invoke, :ok, :fail or :info: {_REMEDY}")

    def _completed(self, place: str, event: Mapping[Any, Any], status: int, when: Moment) -> None:
        f = event.get(_K["f"])
        if not isinstance(f, Keyword):
            raise UsageError(f"{place}: the event has no :f: {_REMEDY}")
        process, value, error = event[_K["process"]], event.get(_K["value"]), event.get(_K["error"])
        moved = self._rebalanced(place, event, status, when.operation) if event.get(_K["rebalance-log"]) else ()
        states = None if error is None else written(error)
        if f.name in _WITH_RECORDS:
            self._columns.with_records(
                f.name,
                status,
                process,
                when,
                _checked_groups(place, f.name, value),
                moved=moved,
                error=states,
                batch=event.get(_K["batch?"]) is True,
            )
            return
        if f.name in ("assign", "subscribe") and when.completion_index is not None:
            self._assigned(place, event, when.operation, status, process, value)
        elif f == _K["debug-topic-partitions"] and status == STATUS_OK:
            self._end_offsets(place, when.operation, process, value)
        self._columns.operation(f.name, status, process, when, error=states)

    # -- keys that an operation named without a record -------

    def _assigned(
        self, place: str, event: Mapping[Any, Any], operation: int, status: int, process: int, value: Any
    ) -> None:
        columns, sought = self._columns, event.get(_K["seek-to-beginning?"]) is True
        for key in dict.fromkeys(map(frozen, _elements(place, value, ":value"))):
            partition_id = columns.keys.of(key)
            columns.key(operation, status, process, "assigned", partition_id)
            if event[_K["f"]] == _K["assign"] and status == STATUS_OK:
                columns.key(operation, status, process, "direct", partition_id)
            if sought:
                columns.key(operation, status, process, "sought", partition_id)

    def _rebalanced(self, place: str, event: Mapping[Any, Any], status: int, operation: int) -> Container[int]:
        process = event[_K["process"]]
        last: dict[int, Any] = {}
        for entry in _elements(place, event[_K["rebalance-log"]], ":rebalance-log"):
            if not isinstance(entry, dict):
                raise UsageError(f"{place}: {written(entry)[:60]} is no map of a rebalance log: {_REMEDY}")
            for key in _elements(place, entry.get(_K["keys"]), ":keys of a rebalance log"):
                last[self._columns.keys.of(key)] = entry.get(_K["type"])
        for partition_id, kind in last.items():
            self._columns.key(operation, status, process, "rebalanced", partition_id)
            if isinstance(kind, Keyword) and kind.name in ("revoked", "lost"):
                self._columns.key(operation, status, process, "left", partition_id)
        return last

    def _end_offsets(self, place: str, operation: int, process: int, value: Any) -> None:
        states = value.get(_K["partitions"], value) if isinstance(value, dict) else {}
        for key, state in states.items() if isinstance(states, dict) else ():
            end = state.get(_K["end-offset"], state.get(_K["offset"])) if isinstance(state, dict) else None
            if isinstance(end, int) and not isinstance(end, bool):
                end = _whole(place, end, "an end offset")
                self._columns.key(operation, STATUS_OK, process, "end", self._columns.keys.of(key), end)

    def finished(self, name: str) -> ImportedHistory:
        for place, event, index, time in self._open.values():
            never = Moment(index, time, None, None)
            if isinstance(event, Line):
                self._line_completed(event, STATUS_INFO, never)
            else:
                self._completed(place, event, STATUS_INFO, never)
        return self._columns.finished(name, self._processes)


# -- what an operation did --------------------------------


def _groups(f: str, value: Sequence[Micro]) -> Iterator[Group]:
    sends = KIND_SEND if f != "poll" else KIND_STRAY_SEND
    polls = KIND_POLL if f != "send" else KIND_STRAY_POLL
    for mop, micro in enumerate(value):
        if isinstance(micro, BulkSend):
            yield sends, mop, micro.key, (micro.sent if type(micro.sent) is tuple else (NO_OFFSET, micro.sent),)
        elif micro.read:
            for key, pairs in reads(micro):
                yield polls, mop, key, pairs


def _checked_groups(place: str, f: str, value: Any) -> Iterator[Group]:
    for mop, micro in enumerate(_elements(place, value, ":value")):
        name, *rest = _elements(place, micro, "a micro-operation") or [None]
        if name == _K["send"] and len(rest) == 2:
            pair = rest[1] if isinstance(rest[1], list) else [None, rest[1]]
            offset, sent = (*pair, None, None)[:2]
            yield KIND_SEND if f != "poll" else KIND_STRAY_SEND, mop, rest[0], ((_offset(place, offset), sent),)
        elif name == _K["poll"] and len(rest) <= 1:
            kind = KIND_POLL if f != "send" else KIND_STRAY_POLL
            yield from _polled(place, kind, mop, rest[0] if rest else None)
        else:
            raise UsageError(f"{place}: {written(micro)[:60]} is neither a [:send k v] nor a [:poll]: {_REMEDY}")


def _polled(place: str, kind: int, micro_operation: int, polled: Any) -> Iterator[Group]:
    if polled is None:
        return
    if not isinstance(polled, dict):
        raise UsageError(f"{place}: {written(polled)[:60]} is no map of what a poll read: {_REMEDY}")
    for key in map_order(polled):
        pairs = _elements(place, polled[key], "the pairs of a poll")
        for pair in pairs:
            if not isinstance(pair, list) or len(pair) != 2:
                raise UsageError(f"{place}: {written(pair)[:60]} is no [offset value] of a poll: {_REMEDY}")
        yield kind, micro_operation, key, [(_offset(place, offset), value) for offset, value in pairs]


def _offset(place: str, offset: Any) -> int:
    return NO_OFFSET if offset is None or offset is False else _whole(place, offset, "an offset")


def _whole(place: str, value: Any, what: str) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and -_BIG < value < _BIG:
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        raise HarnessError(f"{place}: {what} is {written(value)[:60]}, more than 62 bits: {_REMEDY}")
    raise UsageError(f"{place}: {what} is {written(value)[:60]}, not a whole number: {_REMEDY}")


def _elements(place: str, value: Any, what: str) -> Sequence[Any]:
    if value is None:
        return ()
    if isinstance(value, (list, tuple)):
        return value
    raise UsageError(f"{place}: {what} is {written(value)[:60]}, not a vector: {_REMEDY}")
