"""Runs a simulated run in a process of its own: one with hashes that repeat, and whose clocks nobody else reads."""

import asyncio
import contextlib
import os
import sys
from collections.abc import Callable

import msgspec

from harness.controller.run import Progress, RunOutcome
from harness.errors import HarnessError
from harness.history.run_folder import RunFolder
from harness.host.parent import die_with_parent

LOG = "harness.log"
# Its first line: from now on SIGTERM interrupts the run, and no longer ends the process.
HANDLES_SIGNALS = b"handles signals\n"


async def simulate_apart(
    folder: RunFolder, *, interrupt: asyncio.Event, progress: Callable[[Progress], None]
) -> RunOutcome:
    """Raises HarnessError if the process could not do it. An interrupt ends its plan early, as of every run."""
    with folder.files.append(LOG) as log:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "harness", "simulate", str(folder.path.resolve())),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=log,
            env={**os.environ, "PYTHONHASHSEED": "0"},
            start_new_session=True,
            preexec_fn=die_with_parent(),
        )
    is_handling = asyncio.Event()
    watch = asyncio.create_task(_pass_on(interrupt, is_handling, process))
    try:
        assert process.stdout is not None, "it is piped"
        while line := await process.stdout.readline():
            if line == HANDLES_SIGNALS:
                is_handling.set()
            else:
                progress(msgspec.json.decode(line, type=Progress))
        code = await process.wait()
    finally:
        watch.cancel()
        if process.returncode is None:
            process.kill()
            await process.wait()
    if code != 0:
        raise HarnessError(f"the simulated run ended with code {code}; see {folder.path / LOG}")
    run = folder.run
    return RunOutcome(status=run["status"], inconclusive=tuple(run["inconclusive"]), error=run["error"])


async def _pass_on(interrupt: asyncio.Event, is_handling: asyncio.Event, process: asyncio.subprocess.Process) -> None:
    await interrupt.wait()
    await is_handling.wait()
    with contextlib.suppress(ProcessLookupError):  # it has ended meanwhile
        process.terminate()
