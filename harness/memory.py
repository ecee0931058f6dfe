"""How much memory a command may take for what it reads: one number for the whole process, set by --memory-mb.

It is the heap of the checks' JVM, and the most that a table may take that is read here, beside the JVM. What needs more
is refused in one line before it is read. Journals are no tables: they are read a piece at a time, whatever their size.
"""

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


def check(what: str, needed_bytes: int) -> None:
    """Raises HarnessError where `what` is too large to be read."""
    if needed_bytes > _allowed_mb * _MEGABYTE:
        needed_mb = -(-needed_bytes // _MEGABYTE)
        raise HarnessError(
            f"{what} would take about {needed_mb} MB of memory, and {_allowed_mb} MB are allowed: "
            f"give --memory-mb {needed_mb} if it shall"
        )
