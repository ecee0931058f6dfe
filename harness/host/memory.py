"""How much memory a command may take for what it reads: one number for the whole process, set by --memory-mb.

It is the heap of the checks' JVM, and the most that the tables may take together that are held here at a time, beside
the JVM. What needs more is refused in one line before it is read. Journals are no tables: they are read a piece at a
time, whatever their size.
"""

import ctypes

from harness.errors import HarnessError

DEFAULT_MB = 2048
LEAST_MB = 512  # what Spark begins with
_MEGABYTE = 1 << 20
_allowed_mb = DEFAULT_MB


def allow(megabytes: int) -> int:
    global _allowed_mb
    _allowed_mb = megabytes
    return megabytes


def allowed_mb() -> int:
    return _allowed_mb


class TooLarge(HarnessError):
    """It would take more memory than is allowed."""


def check(what: str, needed_bytes: int, *, beside_bytes: int = 0) -> None:
    """Raises TooLarge where `what` is too large to be read, beside what is held already."""
    if needed_bytes + beside_bytes > _allowed_mb * _MEGABYTE:
        needed_mb = -(-(needed_bytes + beside_bytes) // _MEGABYTE)
        beside = " with what was read before it" if beside_bytes and needed_bytes <= _allowed_mb * _MEGABYTE else ""
        raise TooLarge(
            f"{what} would take about {needed_mb} MB of memory{beside}, and {_allowed_mb} MB are allowed: "
            f"give --memory-mb {needed_mb} if it shall"
        )


class Together:
    """Counts what several tables take that are held at the same time."""

    def __init__(self) -> None:
        self._held = 0

    def take(self, what: str, needed_bytes: int) -> None:
        """Raises TooLarge where it is too much with what was taken before."""
        check(what, needed_bytes, beside_bytes=self._held)
        self._held += needed_bytes

    def has_room_for(self, needed_bytes: int) -> bool:
        return self._held + needed_bytes <= _allowed_mb * _MEGABYTE


_TRIM_THRESHOLD, _MMAP_MAX = -1, -4  # of glibc's malloc.h
_MOST = 2**31 - 1


def keep_freed() -> bool:
    """Memory that was freed is kept by this process from now on, for commands that make and drop large arrays and end
    then; returns whether the C library can: glibc. By itself it gives each large array back to the system as it is
    freed, and the system clears the pages of the next one: a fifth of the CPU of a check of Jepsen's histories."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return False
    return bool(mallopt(_MMAP_MAX, 0) and mallopt(_TRIM_THRESHOLD, _MOST))
