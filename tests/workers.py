"""How tests are shared out among worker processes (pytest-xdist): file by file, in the order of collection.

A file's tests stay together, for they share its clusters and containers. All Spark tests are one group, so that there
is one session; so are those that ask the Docker engine, whose containers some of them count. The workers know the
groups, and whoever shares out knows names alone: a worker writes them down (pytest-xdist 3.8 appends a group to a
test's name, which pytest 9 does not take any more).
"""

import json
import os
import tempfile
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

from xdist.scheduler import LoadGroupScheduling


def _place(run: str) -> Path:
    return Path(tempfile.gettempdir()) / f"kafka-chaos-test-groups-{run}.json"


def write_groups(run: str, groups: Mapping[str, str]) -> None:
    """A test's name -> its group, the same from every worker of the run."""
    written = _place(run).with_suffix(f".{os.getpid()}")
    written.write_text(json.dumps(groups))
    written.replace(_place(run))


class FileByFile(LoadGroupScheduling):  # type: ignore[misc]
    @cached_property
    def _groups(self) -> Mapping[str, str]:
        """Asked first when every worker has collected."""
        place = _place(self.config.option.testrunuid)
        groups: Mapping[str, str] = json.loads(place.read_text())
        place.unlink()
        return groups

    def _split_scope(self, nodeid: str) -> str:
        return self._groups.get(nodeid) or nodeid.partition("::")[0]
