"""Converts Jepsen's histories of the Kafka workload to the tables of a run.

A completion becomes one row of `operations` (operation = its :index) and one row of `records` per send and polled pair.
Keys become topic-partitions: `topic` is the key as EDN, `partition_id` its number. Keys and values are numbered in the
order of Clojure's sets, so "the first of a set" is the smallest number. An invocation without completion becomes an
info operation with completed_ns and completion_index null. IMPORTED_KEYS has what the tables have no column for.

edn_bulk.py reads the numbers of lines that are alike as columns; edn_reader.py reads all other EDN as maps.
"""

import contextlib
import gc
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.errors import HarnessError, UsageError
from harness.history.files_below import all_below
from harness.history.jepsen.edn_bulk import NotInBulk
from harness.history.jepsen.edn_reader import bytes_of, read_bytes, read_text
from harness.history.jepsen.imported import ImportedHistory
from harness.history.jepsen.jepsen_columns import Moment
from harness.history.jepsen.micro_operations import REMEDY
from harness.history.jepsen.operations import Head, Operations, head_of
from harness.history.jepsen.operations_in_bulk import import_in_bulk
from harness.history.jepsen.skeletons import INVOKED
from harness.history.schema.schemas import STATUS_INFO

_OF_A_TEST = "history.edn"  # in the folder that Jepsen makes for each test
_OTHER_FORMS = ("history.txt", "test.jepsen")


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
            return import_in_bulk(name, text, place=place)
    return import_events(name, ((f"{place}:{line}", event) for line, event in plainly()))


@contextlib.contextmanager
def _no_garbage() -> Iterator[None]:
    """Switches the garbage collector off: searching many maps for cycles takes half of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def import_events(name: str, events: Iterable[tuple[str, Any]]) -> ImportedHistory:
    """events: (place for messages, event map) in order."""
    history = Operations()
    begun: dict[int, tuple[str, Any, Head]] = {}
    processes: dict[int, None] = {}
    for position, (place, event) in enumerate(events):
        head = head_of(place, event, position)
        if head is None:
            continue
        processes.setdefault(head.process)
        if head.kind == INVOKED:
            if head.process in begun:
                raise UsageError(
                    f"{place}: process {head.process} invokes while its operation before is open: {REMEDY}"
                )
            begun[head.process] = place, event, head
            continue
        if (invocation := begun.pop(head.process, None)) is None:
            raise UsageError(f"{place}: process {head.process} completes what it never invoked: {REMEDY}")
        _, _, invoked = invocation
        history.completed(place, event, head.kind, Moment(position, invoked.index, invoked.time, head.index, head.time))
    for order, (place, event, head) in enumerate(begun.values(), start=position + 1 if begun else 0):
        history.completed(place, event, STATUS_INFO, Moment(order, head.index, head.time, None, None))
    return history.columns.finished(name, processes)
