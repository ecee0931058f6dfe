"""The latest time that a run wrote down: of its phases, of its controller's rows and of its clients' lines."""

import contextlib
from collections.abc import Iterator
from typing import Any

from harness.history.journals.controller_rows import CONTROLLER_SEEN, ROWS, read_rows
from harness.history.journals.journal_files import UnfitLine, journal_paths, read_lines
from harness.history.run_folder import RunFolder
from harness.history.schema.schemas import TABLES

_TIMES = ("time_ns", "begin_ns", "end_ns", "invoked_ns", "completed_ns", "returned_ns")


def last_time_ns(folder: RunFolder) -> int:
    """Of journals that no run of ours wrote, sealing tells. Raises HarnessError."""
    phases: list[int] = [phase["t"] for phase in folder.run.get("phases", [])]
    return max(folder.anchor().monotonic_ns, *phases, *_of_rows(folder), *_of_lines(folder))


def _of_rows(folder: RunFolder) -> Iterator[int]:
    rows = read_rows(folder.history / ROWS)
    for table in (*TABLES, CONTROLLER_SEEN.name):
        for row in rows.named(table):
            for name in _TIMES:
                yield from _times_in(row.get(name))


def _of_lines(folder: RunFolder) -> Iterator[int]:
    for path in journal_paths(folder.history):
        with contextlib.suppress(UnfitLine):
            for line in read_lines(path):
                for name in _TIMES:
                    yield from _times_in(getattr(line, name, None))


def _times_in(found: Any) -> Iterator[int]:
    """Of one, or of each of several; None where nothing was noted."""
    yield from (each for each in (found if isinstance(found, list) else [found]) if isinstance(each, int))
