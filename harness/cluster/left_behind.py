"""What runs left behind whose harness is gone: ended, undone and removed before another command begins."""

import asyncio
from pathlib import Path
from typing import Any

from harness.cluster.attached.journal import AttachedJournal
from harness.cluster.catalogue import made
from harness.cluster.docker.labels import entered
from harness.cluster.local import ownership
from harness.cluster.local.ownership import LeftRun
from harness.errors import HarnessError
from harness.history.files_below import FilesBelow
from harness.history.schema.texts import text_of
from harness.host import scratch
from harness.scenario.file import parse

# What a scenario or a book that was damaged leads to, which must not keep the other runs from being swept.
_UNFIT = (HarnessError, OSError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError)


def sweep() -> list[str]:
    """A line for each thing that was ended, undone or removed, or could not be."""
    # Containers first: the other sweep strikes the run off the list.
    with scratch.left_behind() as remove:
        return [*_sweep_containers(), *ownership.sweep(undo_left_behind), *remove()]


def _sweep_containers() -> list[str]:
    """Asks the Docker engine only where a run of this user's can have left anything."""
    if not entered():
        return []
    from harness.cluster.docker.sweep import sweep  # its libraries take a while to load

    return sweep()


def is_anything_left() -> bool:
    """Whether there is something that the last sweep could not end, undo or remove."""
    if ownership.is_anything_over() or scratch.is_anything_left():
        return True
    if not entered():
        return False
    from harness.cluster.docker.sweep import left_by

    return bool(left_by())


def owes(run: Path) -> bool:
    """Whether a run has left somebody else's cluster harmed."""
    return bool(AttachedJournal(run).owed())


def undo_left_behind(left: LeftRun) -> tuple[list[str], bool]:
    """Undoes what a run did to somebody else's cluster and, being killed, could not; whether all of it was undone.

    What is owed, and the commands that undo it, come from the very folder of the run and from nowhere else.
    """
    journal = AttachedJournal(left.folder)
    try:
        owed = journal.owed()
    except (HarnessError, OSError) as error:
        sentence = f"{error}; undo by hand what that run did, and remove {journal.path}"
        return [sentence.replace(str(left.folder), str(left.path))], False
    lines = []
    for what, subject in owed:
        try:
            evidence = asyncio.run(_cluster_left_by(left).undo(what, subject))
            lines.append(f"{what} {subject}, which {left.path} owed: {evidence.sentence}")
        except _UNFIT as error:
            lines.append(
                f"{what} {subject}, which {left.path} owes, failed: {error}; the next command tries again, unless you "
                f"do it yourself and remove {journal.path}"
            )
    return [sentence.replace(str(left.folder), str(left.path)) for sentence in lines], not journal.owed()


def _cluster_left_by(left: LeftRun) -> Any:
    place, files = left.path / "scenario.toml", FilesBelow(left.folder)
    text = text_of(place, opened=lambda: files.open("scenario.toml"))  # a link would lead to somebody else's commands
    cluster = parse(text, name=left.path.name, place=str(place)).cluster
    if not cluster.is_foreign:
        raise HarnessError(f"{place} is of no cluster that somebody else runs")
    return made(cluster, left.folder, client_links=1)
