"""Memory that was freed is kept by the process, for commands that make and drop large arrays and end then.

By itself the C library gives each large array back to the system as it is freed, and the system clears the pages of the
next one: a fifth of the CPU of a check of Jepsen's histories.
"""

import ctypes

_TRIM_THRESHOLD, _MMAP_MAX = -1, -4  # of glibc's malloc.h
_MOST = 2**31 - 1


def keep_freed() -> bool:
    """Whether the C library can: glibc."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return False
    return bool(mallopt(_MMAP_MAX, 0) and mallopt(_TRIM_THRESHOLD, _MOST))
