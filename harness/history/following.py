"""A process of its own that converts a run's journals while it goes on: `python -m harness.history.following RUN`.

With names of journals behind RUN it converts these, as they are, and ends (halves.py).

It shall not disturb what it watches: last in the queue for the processor, one look at the journals every half second,
memory that does not grow with the run. "stop" on its standard input ends it, with what it has put away; when the input
is closed the harness is gone, and so is it. Nothing depends on it: the seal goes on from wherever it came to.
"""

import os
import select
import sys
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

from harness.history.files_below import FilesBelow
from harness.history.pieces import FOLDER, Journals, journal_paths

LOOK_S = 0.5
PUT_AWAY_BYTES = 8_000_000


def follow(
    run: Path,
    *,
    stopped: Callable[[float], bool],
    only: Collection[str] | None = None,
    put_away_bytes: int = PUT_AWAY_BYTES,
) -> None:
    """`stopped(s)` waits up to `s` seconds for the word to stop, and tells whether it came. `only`: journals by name.

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
    """Stops when all that is there was taken, or whoever wants it is gone."""
    looks, parent = iter([False]), os.getppid()
    return lambda timeout_s: next(looks, True) if timeout_s > 0 else os.getppid() != parent


class _Told:
    """The word to stop, from standard input."""

    def __init__(self) -> None:
        self._stop = False

    def __call__(self, timeout_s: float) -> bool:
        if not self._stop and select.select([0], [], [], timeout_s)[0]:
            if not os.read(0, 100):
                os._exit(1)  # the harness is gone: a later command takes what is put away
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
    follow(Path(run), stopped=_Told())


if __name__ == "__main__":
    main()
