"""The user's own folders, as the XDG specification has them: the cache, where what was fetched or made once is kept for
later runs; and the state directory, with registered runs and locked address blocks, private to this user.

The sweep trusts the state directory, so it must belong to this user: root follows no entry that another user could
write.
"""

import contextlib
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

from harness.errors import HarnessError

_MAY_ENTER = stat.S_IXGRP | stat.S_IXOTH
# above: in such a folder the sticky bit keeps others from replacing what is ours; closed: others cannot come to it.
_How = Literal["above", "open", "closed"]


def cache_directory(environment: Mapping[str, str] = os.environ) -> Path:
    """Ours below XDG_CACHE_HOME; a relative one is void, as the specification wants it."""
    chosen = Path(environment.get("XDG_CACHE_HOME", ""))
    try:
        return (chosen if chosen.is_absolute() else Path.home() / ".cache") / "kafka-chaos"
    except RuntimeError as error:
        raise HarnessError(f"{error} HOME or XDG_CACHE_HOME says where the cache is; set one of them") from None


def refuse_others(environment: Mapping[str, str] = os.environ) -> None:
    """Raises HarnessError where somebody else than this user and root may change the cache: what lies in it is run.

    Looked at are the folder that it is in, its own, and all in that. One that is not there yet is nobody's.
    """
    top = cache_directory(environment)
    try:
        for path, found, how in _to_look_at(top):
            if why := _of_others(found, how):
                raise HarnessError(
                    f"{path} {why}, and what lies in the cache is run: if all in it is yours, `chmod -R go-w` it; else "
                    "let XDG_CACHE_HOME name another place"
                )
    except OSError as error:
        raise HarnessError(f"{error.filename}: {error.strerror}; XDG_CACHE_HOME chooses another place") from error


def _to_look_at(top: Path) -> Iterator[tuple[Path, os.stat_result, _How]]:
    """The folder above, the cache's own, and all below: what others put in the place of a jar is run as that jar is.
    Where a link leads is looked at in the same way."""
    for path in (top.parent, top):
        if path.exists():
            yield path, path.stat(), "above" if path == top.parent else "open"
    waiting, seen = [(top, True)], set[Path]()
    gone = (FileNotFoundError, NotADirectoryError)  # another run is at work here
    while waiting:
        folder, is_open = waiting.pop()
        with contextlib.suppress(*gone), os.scandir(folder) as entries:
            for entry in entries:
                with contextlib.suppress(*gone):
                    path, found = Path(entry.path), entry.stat(follow_symlinks=False)
                    leads_out = stat.S_ISLNK(found.st_mode)
                    if leads_out:
                        path = Path(os.path.realpath(path))
                        found = path.stat(follow_symlinks=False)
                        yield path.parent, path.parent.stat(), "above"
                    yield path, found, "open" if is_open or leads_out else "closed"
                    if stat.S_ISDIR(found.st_mode) and path not in seen:
                        seen.add(path)
                        comes = leads_out or (is_open and (folder != top or _may_enter(top)))
                        waiting.append((path, comes and _may_enter(path)))


def _may_enter(folder: Path) -> bool:
    return bool(folder.stat().st_mode & _MAY_ENTER)


def _of_others(found: os.stat_result, how: _How) -> str:
    if found.st_uid not in (0, os.geteuid()):
        return f"belongs to user {found.st_uid}, who is not user {os.geteuid()}"
    if how == "closed" or (how == "above" and found.st_mode & stat.S_ISVTX):
        return ""
    if stat.S_ISLNK(found.st_mode):
        return ""  # nobody but its owner can change where it leads
    # By custom a group with the number of its user has that user alone.
    shared = stat.S_IWOTH | (stat.S_IWGRP if found.st_gid != found.st_uid else 0)
    return f"may be written to by others (mode {stat.S_IMODE(found.st_mode):04o})" if found.st_mode & shared else ""


def made_in_cache(partition: str, environment: Mapping[str, str] = os.environ) -> Path:
    """A folder of the cache, made if it is not there. What lies in the cache is run: a new one is its user's alone."""
    refuse_others(environment)
    top = cache_directory(environment)
    top.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    for folder in (top, top / partition):
        folder.mkdir(mode=0o700, exist_ok=True)
    return top / partition


# ---- the state directory --------------------------------------------------------------------------------------------


def state_directory() -> Path:
    """Created if missing. A relative XDG_STATE_HOME is ignored, as its specification says. Raises HarnessError."""
    chosen = Path(os.environ.get("XDG_STATE_HOME", ""))
    try:
        path = (chosen if chosen.is_absolute() else Path.home() / ".local" / "state") / "kafka-chaos"
    except RuntimeError as error:
        raise HarnessError(f"{error} HOME or XDG_STATE_HOME says where runs leave word; set one of them") from None
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = path.stat()
        if found.st_uid == os.geteuid() and found.st_mode & 0o077:
            path.chmod(found.st_mode & 0o700)  # as an older kafka-chaos created it
    except OSError as error:
        raise HarnessError(
            f"{path}: no place for what runs leave word of ({error.strerror}); XDG_STATE_HOME chooses another"
        ) from None
    if found.st_uid != os.geteuid():
        raise HarnessError(
            f"{path} belongs to user {found.st_uid} and this is user {os.geteuid()}, who must not do what is written "
            "there; XDG_STATE_HOME chooses another place"
        )
    return path
