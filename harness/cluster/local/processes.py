"""Child processes that cannot outlive the harness: the kernel kills them with it, and the sweep finds the rest.

A child gets PR_SET_PDEATHSIG where the kernel supports it, the run's path in its environment, and a line in
RUN/processes.jsonl with pid, start time and boot id, so that no other process is mistaken for it.
"""

import asyncio
import contextlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.host.parent import die_with_parent

MARKER = "KAFKA_CHAOS_RUN"
PROCESSES = "processes.jsonl"


def boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def start_time(pid: int) -> int | None:
    """The start of the process in clock ticks since boot; None if there is no such process."""
    fields = _stat(pid)
    return int(fields[19]) if fields else None


def state_of(pid: int) -> str:
    """R, S, T (stopped), Z ...; "" if there is no such process."""
    fields = _stat(pid)
    return fields[0] if fields else ""


def _stat(pid: int) -> list[str]:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return []
    return text.rpartition(")")[2].split()  # the process name before it may contain any character


def kill(process: asyncio.subprocess.Process) -> None:
    """SIGKILL; nothing to do where it has just ended."""
    with contextlib.suppress(ProcessLookupError):
        process.kill()


@dataclass(frozen=True, kw_only=True)
class Spawner:
    """Starts the processes of one run and records each before anybody waits for it."""

    run: Path

    async def spawn(
        self,
        arguments: Sequence[str],
        *,
        log: Path,
        pipes: bool = False,
        environment: Mapping[str, str] | None = None,
    ) -> asyncio.subprocess.Process:
        """stderr (and stdout, unless `pipes`) goes to `log`; with `pipes` the caller uses stdin and stdout."""
        log.parent.mkdir(parents=True, exist_ok=True)
        pipe = asyncio.subprocess.PIPE
        with log.open("ab") as stderr:
            process = await asyncio.create_subprocess_exec(
                *arguments,
                stdin=pipe if pipes else asyncio.subprocess.DEVNULL,
                stdout=pipe if pipes else stderr,
                stderr=stderr,
                env={**os.environ, MARKER: str(self.run.resolve()), **(environment or {})},
                start_new_session=True,  # only the harness gets Ctrl-C; it heals and stops in order
                preexec_fn=die_with_parent(),
                limit=1 << 20,
            )
        entry = {
            "pid": process.pid,
            "start": start_time(process.pid),
            "boot": boot_id(),
            "command": " ".join(arguments[:6]),
        }
        with (self.run / PROCESSES).open("a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")
        return process

    async def spawn_worker(self, arguments: Sequence[str], *, log: Path) -> asyncio.subprocess.Process:
        return await self.spawn(arguments, log=log, pipes=True)
