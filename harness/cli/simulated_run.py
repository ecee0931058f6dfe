"""The process of one simulated run: `kafka-chaos simulate RUN`, which only the harness starts.

Its hashes do not depend on a seed of the interpreter's (PYTHONHASHSEED=0), so sets of names have the same order every
time. SIGTERM interrupts the run, once a line on stdout has said so. Progress follows there, one JSON object a line,
when there is something new. The process ends with the one that started it.
"""

import asyncio
import contextlib
import dataclasses
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

import msgspec

from harness.cluster.simulated.node_logs import UtcLines
from harness.compose import recording
from harness.controller.run import Progress, Run, RunOutcome
from harness.errors import HarnessError, UsageError, end_at_once
from harness.history.run_folder import RunFolder
from harness.scenario.model import Scenario
from harness.worlds import World
from harness.worlds.apart import HANDLES_SIGNALS, LOG
from harness.worlds.simulated import simulate


def work(run: str) -> None:
    folder = RunFolder(Path(run))
    if folder.run.get("phases") or folder.sealed:
        raise UsageError(f"{run}: this run was made already; `kafka-chaos run {run}` makes it again")
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever started it handles Ctrl-C, and sends SIGTERM
    if sys.flags.hash_randomization:
        raise HarnessError("a simulated run needs PYTHONHASHSEED=0; start it with `kafka-chaos run`")

    def hear(stop: Callable[[], None]) -> None:
        signal.signal(signal.SIGTERM, lambda number, frame: stop())
        os.write(1, HANDLES_SIGNALS)

    _simulate(folder, show=_Showing(), hear=hear)


def simulated(folder: RunFolder) -> RunOutcome:
    """In this process, in which no loop runs. Ctrl-C and SIGTERM interrupt the run; the second one ends it at once."""
    stopping = False

    def hear(stop: Callable[[], None]) -> None:
        def on_signal(number: int, frame: FrameType | None) -> None:
            nonlocal stopping
            if stopping:
                end_at_once(f"interrupted: what was recorded is kept in {folder.path}")
            stopping = True
            stop()

        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, on_signal)

    here = RunFolder(folder.path.resolve())  # it works in its folder
    with _errors_to(here):
        return _simulate(here, show=lambda _: None, hear=hear)


@contextlib.contextmanager
def _errors_to(folder: RunFolder) -> Iterator[None]:
    """What is written to stderr, by native libraries too, is of the run's own log."""
    before = os.dup(2)
    with folder.files.append(LOG) as log:
        os.dup2(log.fileno(), 2)
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(before, 2)
        os.close(before)


def _simulate(
    folder: RunFolder, *, show: Callable[[Progress], None], hear: Callable[[Callable[[], None]], None]
) -> RunOutcome:
    clients_log = logging.StreamHandler()
    clients_log.setFormatter(UtcLines())
    logging.getLogger("aiokafka").addHandler(clients_log)

    def make_run(scenario: Scenario, world: World, interrupt: asyncio.Event) -> Run:
        return recording(scenario, folder, world, interrupt, show)

    return simulate(folder, make_run=make_run, hear=hear)


class _Showing:
    """Says what a person can follow: each phase, and each second of the run."""

    def __init__(self) -> None:
        self._last: tuple[str, int] | None = None

    def __call__(self, progress: Progress) -> None:
        now = progress.phase, int(progress.elapsed_s)
        if now != self._last:
            self._last = now
            os.write(1, msgspec.json.encode(dataclasses.asdict(progress)) + b"\n")
