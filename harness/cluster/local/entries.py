"""What the state directory knows of a run: which folder it has, in an entry that is locked while the run goes on.

The folder's path says little once the run is over: whoever may write beside it can move it away and put another there.
So an entry, which only this user can write, names the very folder, and the sweep reads from no other one.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import msgspec

from harness.cluster.local.processes import boot_id
from harness.cluster.local.state import state_directory
from harness.errors import HarnessError

_LARGEST_BYTES = 1 << 16
_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


class DamagedEntry(Exception):
    """What lies in the place of an entry is none; the message says why."""


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """`run`: the folder's resolved path, by which the run's processes and containers are marked."""

    run: str
    device: int
    inode: int
    uid: int
    boot: str


def entries() -> Path:
    folder = state_directory() / "runs"
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:  # a file, or a link that leads nowhere
        raise HarnessError(f"{folder}: no folder for what runs leave word of ({error.strerror}); remove it") from None
    return folder


def entry_path(run: Path) -> Path:
    """Of the resolved path of a run folder."""
    return entries() / (hashlib.sha256(os.fsencode(run)).hexdigest()[:24] + ".json")


def enter(run: Path, folder: int) -> int:
    """Enters the run whose folder is open as `folder`; the lock on the entry, which is held until it is closed.

    Raises BlockingIOError where a sweep is at work on what the last run in that place left.
    """
    path = entry_path(run)
    found = os.fstat(folder)
    entry = Entry(run=str(run), device=found.st_dev, inode=found.st_ino, uid=found.st_uid, boot=boot_id())
    with _last(path):
        # Entered whole and locked, or not at all: another command's sweep may be reading just now.
        draft = path.with_suffix(f".{os.getpid()}.new")
        lock = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.write(lock, json.dumps(msgspec.structs.asdict(entry)).encode())
        draft.replace(path)
    return lock


@contextlib.contextmanager
def _last(path: Path) -> Iterator[None]:
    """Holds the entry that is there already, of a run that is over."""
    try:
        descriptor = lock(path)
    except FileNotFoundError:
        yield
        return
    if descriptor is None:
        raise BlockingIOError
    try:
        yield
    finally:
        os.close(descriptor)


def lock(path: Path) -> int | None:
    """A descriptor of the entry, locked; None while its run, or another sweep, is at work.

    Raises FileNotFoundError where there is none (any more), DamagedEntry where it cannot be opened.
    """
    try:
        # Neither a link nor a pipe may lead this user elsewhere, or keep him waiting.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise DamagedEntry(error.strerror) from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not os.path.samestat(os.fstat(descriptor), path.lstat()):
            raise FileNotFoundError(path)  # its run, or another sweep, was done with it first
    except BlockingIOError:
        os.close(descriptor)
        return None
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def read(descriptor: int) -> Entry:
    """Raises DamagedEntry for everything that `enter` did not write."""
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        raise DamagedEntry("it is no file")
    if found.st_uid != os.geteuid():
        raise DamagedEntry(f"it belongs to user {found.st_uid}")
    if found.st_size > _LARGEST_BYTES:
        raise DamagedEntry(f"it has {found.st_size} bytes")
    try:
        entry = msgspec.convert(json.loads(os.read(descriptor, _LARGEST_BYTES)), Entry)
    except (ValueError, RecursionError) as error:
        raise DamagedEntry(" ".join(str(error).split())[:200]) from None
    if not os.path.isabs(entry.run) or "\0" in entry.run or not _is_path(entry.run):
        raise DamagedEntry(f"{entry.run[:200]!r} is no place of a run folder")
    return entry


def _is_path(text: str) -> bool:
    try:
        os.fsencode(text)
    except UnicodeEncodeError:  # surrogates that stand for no byte
        return False
    return True


def open_folder(entry: Entry) -> int:
    """A descriptor of the very folder that the run began in, which stays that folder whatever happens to its path.

    Raises FileNotFoundError when there is none, HarnessError when what is there is not this user's run folder.
    """
    try:
        descriptor = os.open(entry.run, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise HarnessError(_not_ours(entry, f"it cannot be opened as a folder: {error.strerror}")) from None
    reason = _what_differs(entry, os.fstat(descriptor))
    if reason:
        os.close(descriptor)
        raise HarnessError(_not_ours(entry, reason))
    return descriptor


def _what_differs(entry: Entry, found: os.stat_result) -> str:
    """Why it is not the folder of the run; empty when it is."""
    if found.st_uid != os.geteuid() or found.st_uid != entry.uid:
        return f"it belongs to user {found.st_uid}"
    # Devices get other numbers when the machine starts anew; inodes keep theirs.
    if found.st_ino != entry.inode or (found.st_dev != entry.device and entry.boot == boot_id()):
        return "another folder was put in its place"
    if found.st_mode & _WRITABLE_BY_OTHERS:
        return "others than its owner may write in it"
    return ""


def _not_ours(entry: Entry, reason: str) -> str:
    return (
        f"{entry.run} is not the folder of the run that was entered ({reason}): nothing in it was read or done; what "
        "that run left behind, if anything, is yours to end"
    )
