"""Converts a run's journals while the run goes on: `python -m harness.history.journals.converter RUN`.

With names of journals after RUN it converts these in their current state and ends (two_processes.py).

It must not disturb the run: it has the lowest CPU priority, looks at the journals every half second, and its memory
does not grow with the run. The word "stop" on its standard input ends it after it has stored what it has; when the
input is closed, the harness is gone and the process ends. Nothing depends on it: the seal continues from wherever it
came to.
"""

import os
import select
import sys
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

from harness.history.files_below import FilesBelow
from harness.history.journals.pieces import FOLDER, Journals, journal_paths

LOOK_S = 0.5
PUT_AWAY_BYTES = 8_000_000


def follow(
    run: Path,
    *,
    stopped: Callable[[float], bool],
    only: Collection[str] | None = None,
    put_away_bytes: int = PUT_AWAY_BYTES,
) -> None:
    """`stopped(s)` waits up to `s` seconds for the word to stop and returns whether it came. `only`: journals by name.

    Raises JournalChanged.
    """
    files = FilesBelow(run, is_real=True)
    files.make_folder(FOLDER)
    journals = Journals()
    while not stopped(LOOK_S):
        for _ in _new_pieces(journals, run / "history", only):
            if journals.fresh_bytes() >= put_away_bytes:
                journals.put_away(files)
            if stopped(0):
                break
    journals.put_away(files)


def _new_pieces(journals: Journals, history: Path, only: Collection[str] | None) -> Iterator[None]:
    for path in journal_paths(history):
        while (only is None or path.name in only) and journals.take(path):
            yield


def once() -> Callable[[float], bool]:
    """Converts what exists, then stops; earlier if the caller is gone."""
    looks, parent = iter([False]), os.getppid()
    return lambda timeout_s: next(looks, True) if timeout_s > 0 else os.getppid() != parent


class _Reported:
    """Waits for the word to stop on standard input."""

    def __init__(self) -> None:
        self._stop = False

    def __call__(self, timeout_s: float) -> bool:
        if not self._stop and select.select([0], [], [], timeout_s)[0]:
            if not os.read(0, 100):
                os._exit(1)  # the harness is gone: a later command uses what is stored
            self._stop = True
        return self._stop


def main() -> None:  # pragma: no cover  # runs in a process of its own
    run, *only = sys.argv[1:]
    if only:
        follow(Path(run), stopped=once(), only=only)
        return
    os.nice(19)
    if hasattr(os, "SCHED_BATCH"):  # Linux
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    follow(Path(run), stopped=_Reported())


if __name__ == "__main__":
    main()
