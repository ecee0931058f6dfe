"""The process of one simulated run: `kafka-chaos simulate RUN`, which only the harness starts.

Its hashes do not depend on a seed of the interpreter's (PYTHONHASHSEED=0), so sets of names have the same order every
time. SIGTERM interrupts the run, once a line on stdout has said so. Progress follows there, one JSON object a line,
when there is something new. The process ends with the one that started it.
"""

import asyncio
import dataclasses
import logging
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec

from harness.cluster.simulated.node_logs import UtcLines
from harness.compose import recording
from harness.controller.run import Progress, Run
from harness.errors import HarnessError, UsageError
from harness.history.run_folder import RunFolder
from harness.scenario.model import Scenario
from harness.worlds import World
from harness.worlds.apart import HEARS
from harness.worlds.simulated import simulate


def work(run: str) -> None:
    folder = RunFolder(Path(run))
    if folder.run.get("phases") or folder.sealed:
        raise UsageError(f"{run}: this run was made already; `kafka-chaos run {run}` makes it again")
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever started it handles Ctrl-C, and sends SIGTERM
    if sys.flags.hash_randomization:
        raise HarnessError("a simulated run needs PYTHONHASHSEED=0; start it with `kafka-chaos run`")
    show = _Showing()
    clients_log = logging.StreamHandler()
    clients_log.setFormatter(UtcLines())
    logging.getLogger("aiokafka").addHandler(clients_log)

    def make_run(scenario: Scenario, world: World, interrupt: asyncio.Event) -> Run:
        return recording(scenario, folder, world, interrupt, show)

    def hear(stop: Callable[[], None]) -> None:
        signal.signal(signal.SIGTERM, lambda number, frame: stop())
        os.write(1, HEARS)

    simulate(folder, make_run=make_run, hear=hear)


class _Showing:
    """Says what a person can follow: each phase, and each second of the run."""

    def __init__(self) -> None:
        self._last: tuple[str, int] | None = None

    def __call__(self, progress: Progress) -> None:
        now = progress.phase, int(progress.elapsed_s)
        if now != self._last:
            self._last = now
            os.write(1, msgspec.json.encode(dataclasses.asdict(progress)) + b"\n")
