"""The command as a user starts it: a process of its own in a folder of its own, and a look at what it leaves."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HARNESS = [sys.executable, "-m", "harness"]


@dataclass(frozen=True, kw_only=True)
class Shell:
    """A working directory; run folders go where they go when nothing else is said: runs/ below it."""

    directory: Path

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "XDG_STATE_HOME": str(self.directory / "state"), "TMPDIR": str(self.directory)}

    @property
    def runs(self) -> Path:
        return self.directory / "runs"

    def run(self, *arguments: str, timeout_s: float = 150) -> "subprocess.CompletedProcess[str]":
        command = [*HARNESS, *arguments]
        return subprocess.run(
            command,
            cwd=self.directory,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout_s,
        )

    def start(self, *arguments: str) -> "subprocess.Popen[bytes]":
        with self.output.open("ab") as output:
            return subprocess.Popen(
                [*HARNESS, *arguments], cwd=self.directory, env=self.environment, stdout=output, stderr=output
            )

    @property
    def output(self) -> Path:
        """What started commands said."""
        return self.directory / "output"

    @property
    def folder(self) -> Path:
        """The only run there is."""
        (found,) = [path.parent for path in self.runs.glob("*/run.json") if not path.parent.is_symlink()]
        return found

    def phase(self) -> str:
        """Of the only run there is."""
        return phase_of(self.folder)

    def has_begun(self) -> bool:
        return any(self.runs.glob("*/run.json"))

    def processes(self) -> Sequence[str]:
        """Every process on this machine that says it belongs to a run below this directory."""
        return marked_processes(f"KAFKA_CHAOS_RUN={self.directory}/")


def phase_of(folder: Path) -> str:
    phases = read_json(folder / "run.json").get("phases") or [{"name": ""}]
    return str(phases[-1]["name"])


def marked_processes(marker: str) -> list[str]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            environment = (process / "environ").read_bytes().split(b"\0")
            command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue  # it has ended, or is another user's
        if any(entry.startswith(marker.encode()) for entry in environment):
            found.append(f"{process.name} {command}")
    return found


def read_json(path: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return loaded
