"""The disk under a log directory: after its first failed write it is offline for good, as in Kafka.

A write that failed may have left half of something behind, so nothing is written over it: the next start looks at every
log as after a crash, and keeps what is whole.
"""

import logging
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from reference_impl.storage.errors import StorageError

logger = logging.getLogger(__name__)


def _nobody(error: OSError) -> None:
    """For a log that stands alone: who writes to it is told by the error itself."""


class Disk:
    """`with disk:` around whatever writes. `failed` is called once, with the first error."""

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
        if isinstance(error, OSError) and self.error is None:
            self.error = error
            logger.critical("log directory %s is offline: a write failed: %s", self.path, error)
            self._failed(error)
