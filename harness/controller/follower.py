"""The process beside a run that converts its journals while they are written (harness.history.journals.converter).

It starts with the workers and ends with the run. Nothing depends on it: if it fails, the seal converts the rest of the
journals itself, and harness.log says why that took longer.
"""

import asyncio
import contextlib
import sys
from pathlib import Path

from harness.controller.workers import Spawn
from harness.history.journals.pieces import FOLDER

END_S = 1.0  # to save what it has, on a busy machine; converting that again takes no longer
_LOG = "log"


class Follower:
    """Call `end` once; the process is gone afterwards."""

    def __init__(self, process: asyncio.subprocess.Process, *, log: Path) -> None:
        self._process = process
        self._log = log

    @classmethod
    async def start(cls, run: Path, *, spawn: Spawn) -> "Follower":
        log = run / FOLDER / _LOG
        command = [sys.executable, "-m", "harness.history.journals.converter", str(run)]
        return cls(await spawn(command, log=log), log=log)

    async def end(self) -> str | None:
        """Ends the process. Returns None if it ended in time and without error; otherwise a sentence."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._process.stdin.write(b"stop\n")
            await self._process.stdin.drain()
        try:
            async with asyncio.timeout(END_S):
                code = await self._process.wait()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()
            return f"the conversion beside the run did not end in {END_S:.0f} s and was killed"
        if code == 0:
            return None
        words = self._log.read_text(encoding="utf-8", errors="replace").split("\n") if self._log.exists() else []
        last = next((line for line in reversed(words) if line.strip()), "no last words")
        return f"the conversion beside the run ended with code {code}: {last}"
