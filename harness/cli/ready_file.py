"""The file that says where a cluster is: there while the cluster is, and never an older one's."""

import contextlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.errors import HarnessError


class ReadyFile:
    """Raises HarnessError where it cannot be written, or an old one cannot be removed."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._written: os.stat_result | None = None

    def __enter__(self) -> "ReadyFile":
        if self._path is not None:
            try:
                self._path.unlink(missing_ok=True)
            except OSError as error:
                raise HarnessError(f"--ready-file {self._path} cannot be removed: {error.strerror}") from error
        return self

    def write(self, facts: Mapping[str, Any]) -> None:
        if self._path is None:
            return
        unfinished = self._path.with_name(self._path.name + ".unfinished")
        try:
            unfinished.write_text(json.dumps(facts), encoding="utf-8")
            self._written = unfinished.stat()
            unfinished.replace(self._path)
        except OSError as error:
            raise HarnessError(f"--ready-file {self._path} cannot be written: {error.strerror}") from error

    def __exit__(self, *_: object) -> None:
        """Another cluster's, which took its place, stays."""
        if self._path is None or self._written is None:
            return
        with contextlib.suppress(OSError):  # gone already, with its folder
            if os.path.samestat(self._written, self._path.lstat()):
                self._path.unlink()
