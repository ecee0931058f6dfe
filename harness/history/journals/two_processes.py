"""Converts large journals that no converter followed: a second process converts half of them in parallel."""

import os
import subprocess
import sys
from pathlib import Path

from harness.history.files_below import FilesBelow
from harness.history.journals.pieces import FOLDER, Journals, journal_paths

LARGE_BYTES = 16_000_000


def begun_journals(run: FilesBelow) -> Journals:
    """Journals that are converted already, or faster with two processes. Raises PiecesUnfit, JournalChanged."""
    folder, history = run.top / FOLDER, run.top / "history"
    sizes = {path: path.stat().st_size for path in journal_paths(history)}
    if any(folder.glob("piece-*")) or len(sizes) < 2 or sum(sizes.values()) < LARGE_BYTES or _cores() < 2:
        return Journals.resumed(folder, history)
    ours, theirs = _halves(sizes)
    run.make_folder(FOLDER)
    # -P: never import a harness from the current directory, which may be a folder that somebody sent.
    command = [
        sys.executable,
        "-P",
        "-m",
        "harness.history.journals.converter",
        str(run.top),
        *(path.name for path in theirs),
    ]
    ours_first = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with (
        run.append(f"{FOLDER}/log") as log,
        subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=log, env=ours_first) as process,
    ):
        journals = Journals()
        for path in ours:
            while journals.take(path):
                pass
        process.wait()  # this process does what the other left undone: the seal reads all journals to their ends
    journals.join(Journals.resumed(folder, history))
    return journals


def _halves(sizes: dict[Path, int]) -> tuple[list[Path], list[Path]]:
    """Two halves of about the same size."""
    halves: tuple[list[Path], list[Path]] = ([], [])
    weights = [0, 0]
    for path in sorted(sizes, key=lambda path: (-sizes[path], path)):
        lighter = weights.index(min(weights))
        halves[lighter].append(path)
        weights[lighter] += sizes[path]
    return halves


def _cores() -> int:
    return os.cpu_count() or 1
