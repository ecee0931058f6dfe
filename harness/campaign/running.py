"""One run of a campaign as a process of its own, so that whatever becomes of it costs no other run. Simulated ones are
forked from a process that has read what they need (forked.py).

It dies with the campaign, and its nodes with it; the next command sweeps what is left (containers, packet rules).
"""

import asyncio
import contextlib
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from harness.campaign.forked import ForkedRuns, RunProcess
from harness.campaign.journal import Ended
from harness.campaign.plan import PlannedRun
from harness.errors import HarnessError
from harness.history.files_below import FilesBelow
from harness.host.parent import die_with_parent
from harness.scenario.model import SIMULATED
from harness.verdict import Verdict

_PROGRAM = "kafka-chaos"
_PATIENCE_S = 120.0  # of a run that was asked to end: it heals, reads back and seals
_LINE_MAX = 300


@dataclass(frozen=True, kw_only=True)
class Interrupted:
    """The run was ended because the campaign was; it is done again when the campaign goes on."""

    number: int


async def run_one(
    files: FilesBelow,
    planned: PlannedRun,
    scenario: Path,
    *,
    limit_s: float,
    interrupt: asyncio.Event,
    forked: ForkedRuns,
) -> Ended | Interrupted:
    """Raises HarnessError where no process can be started."""
    runs = f"runs/{planned.number:04d}"
    for part in ("runs", runs):
        files.make_folder(part)
    folder = files.top / runs
    new = _new_run_folder(folder)
    began = time.monotonic()
    process = await _begun(planned, scenario, folder, forked)
    try:
        ended_by = await _watched(process, limit_s=limit_s, interrupt=interrupt)
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    if ended_by == "campaign":
        return Interrupted(number=planned.number)
    took_s = round(time.monotonic() - began, 3)
    name = new()
    why = f"it took more than {limit_s:g} s (run_limit)" if ended_by == "limit" else ""
    if not why and broke_off(process.returncode):  # its folder looks like one whose harness was ended
        why = _last_line(folder / "output.txt") or f"it ended with code {process.returncode}"
    if not name:
        why = why or _last_line(folder / "output.txt") or f"it ended with code {process.returncode}"
        return Ended(number=planned.number, folder="", error=why, took_s=took_s)
    return Ended(number=planned.number, folder=f"{runs}/{name}", error=why, took_s=took_s)


async def _begun(planned: PlannedRun, scenario: Path, folder: Path, forked: ForkedRuns) -> RunProcess:
    arguments = ["run", str(scenario), "--no-check", "--runs", str(folder), "--seed", str(planned.seed)]
    with (folder / "output.txt").open("wb") as output:
        if planned.world == SIMULATED:
            command = [_PROGRAM, *arguments]
            return await forked.begin(
                scenario=scenario, seed=planned.seed, runs=folder, command=command, output=folder / "output.txt"
            )
        try:
            return await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "harness", *arguments),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                preexec_fn=die_with_parent(),
            )
        except OSError as error:
            raise HarnessError(f"run {planned.number}: no process can be started: {error.strerror}") from error


def broke_off(returncode: int | None) -> bool:
    """Whether the run ended by an error or a signal: what its folder holds is not all there was to see."""
    return returncode is not None and (returncode < 0 or returncode == Verdict.ERROR.exit_code)


async def _watched(process: RunProcess, *, limit_s: float, interrupt: asyncio.Event) -> str:
    """What ended it: itself "", "limit" or "campaign"."""
    ends, stops = asyncio.ensure_future(process.wait()), asyncio.ensure_future(interrupt.wait())
    try:
        await asyncio.wait({ends, stops}, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
        if ends.done():
            return ""
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGINT)
        await asyncio.wait({ends}, timeout=_PATIENCE_S)
        return "campaign" if interrupt.is_set() else "limit"
    finally:
        stops.cancel()
        if not ends.done():
            ends.cancel()


def _new_run_folder(folder: Path) -> Callable[[], str]:
    """What names the newest run folder that was made there after this call; "" while there is none."""
    before = set(_run_folders(folder))
    return lambda: max(set(_run_folders(folder)) - before, default="")


def _run_folders(folder: Path) -> list[str]:
    return [path.parent.name for path in folder.glob("*/run.json") if not path.parent.is_symlink()]


def _last_line(output: Path) -> str:
    """What the run said last: why it could not begin."""
    lines = output.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return lines[-1][:_LINE_MAX] if lines else ""
