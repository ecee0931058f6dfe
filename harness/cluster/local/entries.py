"""Entries of runs in the state directory: each identifies a run's folder and is locked while the run is active.

The path of a run folder is not enough after the run: whoever may write beside it can move it and put another one there.
So an entry, which only this user can write, identifies the folder itself (device and inode), and the sweep reads from
no other.
"""

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import msgspec

from harness.cluster.local.processes import boot_id
from harness.errors import HarnessError
from harness.host.user_folders import state_directory

_LARGEST_BYTES = 1 << 16
_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


class DamagedEntry(Exception):
    """The entry is invalid; the message says why."""


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """`run`: the folder's resolved path, which marks the run's processes and containers."""

    run: str
    device: int
    inode: int
    uid: int
    boot: str


def entries() -> Path:
    folder = state_directory() / "runs"
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:  # a file, or a broken link
        raise HarnessError(f"{folder}: no folder for what runs leave word of ({error.strerror}); remove it") from None
    return folder


def entry_path(run: Path) -> Path:
    """The entry's path for the resolved path of a run folder."""
    return entries() / (hashlib.sha256(os.fsencode(run)).hexdigest()[:24] + ".json")


def enter(run: Path, folder: int) -> int:
    """Registers the run whose folder is open as `folder`; returns the lock on the entry, held until it is closed.

    Raises BlockingIOError while a sweep works on what the previous run at that path left.
    """
    path = entry_path(run)
    found = os.fstat(folder)
    entry = Entry(run=str(run), device=found.st_dev, inode=found.st_ino, uid=found.st_uid, boot=boot_id())
    with _last(path):
        # Created complete and locked, because another command's sweep may read it at any time.
        draft = path.with_suffix(f".{os.getpid()}.new")
        lock = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            whole = json.dumps(msgspec.structs.asdict(entry)).encode()
            if os.write(lock, whole) < len(whole):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            draft.replace(path)
        except BaseException:
            os.close(lock)
            draft.unlink(missing_ok=True)
            raise
    return lock


@contextlib.contextmanager
def _last(path: Path) -> Iterator[None]:
    """Locks the existing entry of a run that is over."""
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
    """Returns a locked descriptor of the entry; None while its run or another sweep holds it.

    Raises FileNotFoundError if it does not exist (any more), DamagedEntry if it cannot be opened.
    """
    try:
        # Refuse links and pipes: they could redirect or block this process.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise DamagedEntry(error.strerror) from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not os.path.samestat(os.fstat(descriptor), path.lstat()):
            raise FileNotFoundError(path)  # its run or another sweep removed it first
    except BlockingIOError:
        os.close(descriptor)
        return None
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def read(descriptor: int) -> Entry:
    """Raises DamagedEntry for contents that `enter` did not write."""
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
    except UnicodeEncodeError:  # surrogates that do not represent a byte
        return False
    return True


def open_folder(entry: Entry) -> int:
    """Returns a descriptor of exactly the folder in which the run began, whatever happens to its path.

    Raises FileNotFoundError if there is none, HarnessError if the folder at the path is not this user's run folder.
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
    """Why it is not the folder of the run; empty if it is."""
    if found.st_uid != os.geteuid() or found.st_uid != entry.uid:
        return f"it belongs to user {found.st_uid}"
    # Device numbers change when the machine restarts; inode numbers stay.
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
