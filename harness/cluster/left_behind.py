"""What runs left behind whose harness is gone: ended, undone and removed before another command begins."""

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

from harness.cluster.attached.journal import DELETIONS, AttachedJournal
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


def sweep(*, tries_again: bool = False) -> list[str]:
    """A line for each thing that was ended, undone or removed, or could not be. tries_again: also what failed before
    on somebody else's cluster, which may take minutes."""
    # Containers first: the other sweep strikes the run off the list.
    undo = partial(undo_left_behind, tries_again=tries_again)
    with scratch.left_behind() as remove:
        return [*_sweep_containers(), *ownership.sweep(undo), *remove()]


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


def undo_left_behind(left: LeftRun, *, tries_again: bool = False) -> tuple[list[str], bool]:
    """Undoes what a run did to somebody else's cluster and, being killed, could not; whether nothing of it is left.

    What was tried and failed is only told, unless `tries_again`; a topic or a group that cannot be deleted harms nobody
    and is tried once more. What is owed, and the commands that undo it, come from the very folder of the run and from
    nowhere else.
    """
    journal = AttachedJournal(left.folder)
    try:
        owed = journal.owed()
    except (HarnessError, OSError) as error:
        sentence = f"{error}; undo by hand what that run did, and remove {journal.path}"
        return [sentence.replace(str(left.folder), str(left.path))], False
    lines = []
    for what, subject in owed:
        has_failed, is_deletion = journal.has_failed(what, subject), what in DELETIONS
        if has_failed and not (tries_again or is_deletion):
            lines.append(f"{what} {subject}, which {left.path} owes, failed when it was tried; {_remedy(journal)}")
            continue
        try:
            evidence = asyncio.run(_cluster_left_by(left).undo(what, subject))
            lines.append(f"{what} {subject}, which {left.path} owed: {evidence.sentence}")
        except _UNFIT as error:
            remedy = "it is left there" if has_failed and is_deletion else _remedy(journal)
            lines.append(f"{what} {subject}, which {left.path} owes, failed: {error}; {remedy}")
            (journal.paid if has_failed and is_deletion else journal.failed)(what, subject)
    return [sentence.replace(str(left.folder), str(left.path)) for sentence in lines], not journal.owed()


def _remedy(journal: AttachedJournal) -> str:
    return f"`kafka-chaos sweep` tries again; to give it up, or when you did it yourself, remove {journal.path}"


def _cluster_left_by(left: LeftRun) -> Any:
    place, files = left.path / "scenario.toml", FilesBelow(left.folder)
    text = text_of(place, opened=lambda: files.open("scenario.toml"))  # a link would lead to somebody else's commands
    cluster = parse(text, name=left.path.name, place=str(place)).cluster
    if not cluster.is_foreign:
        raise HarnessError(f"{place} is of no cluster that somebody else runs")
    return made(cluster, left.folder, client_links=1)
