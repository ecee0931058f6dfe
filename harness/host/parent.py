"""What a process owes to the one that started it: it ends with it, however that one ended."""

import ctypes
import ctypes.util
import os
import signal
from collections.abc import Callable

_PR_SET_PDEATHSIG = 1


def die_with_parent() -> Callable[[], None]:
    """Runs between fork and exec. Created in the parent, because loading a library after fork is unsafe."""
    parent = os.getpid()
    name = ctypes.util.find_library("c")
    library = ctypes.CDLL(name, use_errno=True) if name else None

    def arrange() -> None:
        if library is not None and hasattr(library, "prctl"):
            library.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != parent:  # the parent died in between
                os._exit(1)

    return arrange
