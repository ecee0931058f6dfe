"""The disk of a log directory: after its first failed write it is offline for good, as in Kafka.

A failed write may have left a partial record, so nothing is written over it: the next start recovers every log as after
a crash. A missing file descriptor or a name that is too long is no failure of the disk: only that write was not done.
What is wrong with the contents of a disk is one error, StorageError.
"""

import errno
import logging
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

logger = logging.getLogger(__name__)

NOT_OF_THE_DISK = frozenset({errno.EMFILE, errno.ENFILE, errno.ENAMETOOLONG})


class StorageError(Exception):
    """One line: which file, what is wrong with it, and the remedy."""


def _nobody(error: OSError) -> None:
    """For a log without a directory: the error itself informs the writer."""


class Disk:
    """Wrap every write in `with disk:`, in any thread. The thread that meets the first error calls `failed` with it,
    once."""

    def __init__(self, path: Path, failed: Callable[[OSError], None] = _nobody) -> None:
        self.path = path
        self.error: OSError | None = None
        self._failed = failed

    def __enter__(self) -> None:
        if self.error is not None:
            raise StorageError(f"{self.path}: offline since a write failed: {self.error}")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if isinstance(error, OSError) and error.errno not in NOT_OF_THE_DISK and self.error is None:
            self.error = error
            logger.critical("log directory %s is offline: a write failed: %s", self.path, error)
            self._failed(error)
