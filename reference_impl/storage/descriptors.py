"""Limits on open files and connections, which reserve the process's last file descriptors for its disk.

A broker without a descriptor cannot write a checkpoint or begin a segment. So clients are refused first, then brokers,
then new replicas; the rest serves the existing replicas. Nothing is counted: the system always assigns the lowest free
number.
"""

import errno
import os
import resource
from dataclasses import dataclass
from pathlib import Path

RESERVED_MIN, RESERVED_MAX = 64, 1024
NO_LIMIT = 2**31 - 1


@dataclass(frozen=True, kw_only=True)
class Descriptors:
    """A descriptor number that is not below a limit must not be used for that purpose."""

    limit: int = NO_LIMIT

    @property
    def _reserved(self) -> int:
        return max(RESERVED_MIN, min(self.limit // 8, RESERVED_MAX))

    @property
    def for_clients(self) -> int:
        return self.limit - self._reserved

    @property
    def for_brokers(self) -> int:
        return self.limit - self._reserved // 2

    @property
    def for_replicas(self) -> int:
        return self.limit - self._reserved // 4

    def check_replica(self, folder: Path) -> None:
        """Raises OSError if the open segment of one more replica would exceed the limit."""
        lowest_free = os.open(folder, os.O_RDONLY)
        os.close(lowest_free)
        if lowest_free >= self.for_replicas:
            raise OSError(errno.EMFILE, f"no descriptor is left for another replica, of {self.limit}: raise ulimit -n")


def raise_limit() -> Descriptors:
    """Raises the process's limit of open files to the maximum that the system allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return Descriptors(limit=NO_LIMIT if hard == resource.RLIM_INFINITY else hard)
