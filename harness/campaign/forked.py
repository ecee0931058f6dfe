"""The process from which a campaign's simulated runs are forked: it has read already what each of them needs.

It is asked on its stdin and tells on its stdout, one JSON object a line (`harness/cli/forked_runs.py`). It dies with
the campaign, and its runs with it.
"""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from harness.errors import HarnessError
from harness.host.parent import die_with_parent

_GONE = -int(signal.SIGKILL)  # what runs end with whose parent has gone: they die with it


class RunProcess(Protocol):
    """What a campaign knows of the process of a run: as of one of asyncio's."""

    @property
    def returncode(self) -> int | None: ...

    async def wait(self) -> int: ...

    def send_signal(self, signal: int, /) -> None: ...

    def kill(self) -> None: ...


class Asked(msgspec.Struct, forbid_unknown_fields=True):
    """Of the run `number`, by the campaign's count: begin it, or give it a signal. scenario: its file. runs: where its
    folder is made. command: what would make it, for its run.json. output: the file of what it prints."""

    number: int
    signal: int = 0
    scenario: str = ""
    seed: int = 0
    runs: str = ""
    command: list[str] = []
    output: str = ""


class RunEnded(msgspec.Struct, forbid_unknown_fields=True):
    """The run has ended. code: its exit code, or a signal's number below zero."""

    number: int
    code: int


class ForkedRun:
    """Implements RunProcess."""

    def __init__(self, number: int, ask: asyncio.StreamWriter) -> None:
        self._number = number
        self._ask = ask
        self._ended = asyncio.Event()
        self.returncode: int | None = None

    async def wait(self) -> int:
        await self._ended.wait()
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, signal: int, /) -> None:
        self._ask.write(msgspec.json.encode(Asked(number=self._number, signal=signal)) + b"\n")

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def ends(self, code: int) -> None:
        if self.returncode is None:
            self.returncode = code
            self._ended.set()


class ForkedRuns:
    """Nothing is started before the first run."""

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None
        self._hearing: asyncio.Task[None] | None = None
        self._starting = asyncio.Lock()
        self._runs: dict[int, ForkedRun] = {}
        self._begun = 0

    async def begin(self, *, scenario: Path, seed: int, runs: Path, command: Sequence[str], output: Path) -> ForkedRun:
        """Raises HarnessError where no process can be started."""
        async with self._starting:
            if self._process is None or self._process.returncode is not None:
                self._process = await _started()
                self._runs = {}
                self._hearing = asyncio.create_task(_hear(self._process, self._runs))
            ask = self._process.stdin
        assert ask is not None, "it is piped"
        self._begun += 1
        begun = self._runs[self._begun] = ForkedRun(self._begun, ask)
        asked = Asked(
            number=self._begun,
            scenario=str(scenario),
            seed=seed,
            runs=str(runs),
            command=list(command),
            output=str(output),
        )
        ask.write(msgspec.json.encode(asked) + b"\n")
        return begun

    async def close(self) -> None:
        """Whatever run still goes on ends with it."""
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()
        if self._hearing is not None:
            await self._hearing


async def _started() -> asyncio.subprocess.Process:
    try:
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "harness", "forked-runs", str(os.getpid())),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env={**os.environ, "PYTHONHASHSEED": "0"},
            start_new_session=True,
            preexec_fn=die_with_parent(),
        )
    except OSError as error:
        raise HarnessError(f"no process can be started for simulated runs: {error.strerror}") from error


async def _hear(process: asyncio.subprocess.Process, runs: dict[int, ForkedRun]) -> None:
    assert process.stdout is not None, "it is piped"
    try:
        while line := await process.stdout.readline():
            ended = msgspec.json.decode(line, type=RunEnded)
            runs.pop(ended.number).ends(ended.code)
        await process.wait()
    finally:
        while runs:
            runs.popitem()[1].ends(_GONE)
