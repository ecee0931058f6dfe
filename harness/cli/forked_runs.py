"""The process that makes a campaign's simulated runs: `kafka-chaos forked-runs PARENT`, which only the harness starts.

It has one thread, and reads once what every run needs; each run is a fork of it, in the state in which it has done
nothing yet: a run knows nothing of those before it. harness/campaign/forked.py has what it is asked and what it tells.
"""

import gc
import importlib
import os
import select
import signal
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import msgspec
import pyarrow as pa

from harness.campaign.forked import Asked, RunEnded
from harness.cli.exits import code_for, finished
from harness.cli.options import terminal
from harness.cli.presentation import recorded
from harness.cli.simulated_run import simulated
from harness.compose import run_scenario
from harness.errors import UsageError
from harness.host.parent import die_with_parent
from harness.preflight import looking
from harness.verdict import Verdict

_READ = 1 << 16
_NEEDED_LATER = ("pandas", "harness.controller.workers.acting", "harness.history.sealed.sealing")


def work(parent: str) -> None:
    """`parent`: the process that asks. It returns when that asks no more."""
    if os.getppid() != int(parent):
        raise UsageError("forked-runs is started by a campaign alone")
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever started it handles Ctrl-C
    _warm_up()
    wakes, woken = os.pipe()
    os.set_blocking(woken, False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)  # a handler must be there for the wake-up to come
    signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
    pids: dict[int, int] = {}  # of the number of each run that goes on
    unread = b""
    while True:
        ready, _, _ = select.select([0, wakes], [], [])
        if wakes in ready:
            os.read(wakes, _READ)
            _tell_ended(pids)
        if 0 in ready:
            more = os.read(0, _READ)
            if not more:
                return
            *lines, unread = (unread + more).split(b"\n")
            for line in lines:
                _do(msgspec.json.decode(line, type=Asked), pids)


def _warm_up() -> None:
    for name in _NEEDED_LATER:
        importlib.import_module(name)
    pa.array([0])  # the first one loads more
    gc.collect()
    gc.freeze()  # a fork shares what nobody touches


def _tell_ended(pids: dict[int, int]) -> None:
    for number, pid in list(pids.items()):
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            del pids[number]
            run_ended = RunEnded(number=number, code=os.waitstatus_to_exitcode(status))
            os.write(1, msgspec.json.encode(run_ended) + b"\n")


def _do(asked: Asked, pids: dict[int, int]) -> None:
    if asked.signal:
        if asked.number in pids:  # it was not waited for yet, so the number is still its own
            os.kill(pids[asked.number], asked.signal)
        return
    arrange = die_with_parent()
    pid = os.fork()
    if pid == 0:
        _be_the_run(asked, arrange)
    pids[asked.number] = pid


def _be_the_run(asked: Asked, arrange: Callable[[], None]) -> NoReturn:
    code = Verdict.ERROR.exit_code
    try:
        arrange()
        os.setsid()
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        nothing, output = os.open(os.devnull, os.O_RDONLY), os.open(asked.output, os.O_WRONLY | os.O_APPEND)
        for mine, its in ((nothing, 0), (output, 1), (output, 2)):
            os.dup2(mine, its)
        code = _run(asked)
    finally:
        os._exit(code)


def _run(asked: Asked) -> int:
    """As `kafka-chaos run SCENARIO --no-check` does it. Returns its exit code."""
    try:
        folder, outcome = run_scenario(
            looking.ready(asked.scenario, checks=False),
            runs=Path(asked.runs),
            seed=asked.seed,
            command=asked.command,
            progress=lambda _: None,
            simulated=simulated,
        )
        return finished(recorded(terminal, folder, outcome))
    except BaseException as error:  # noqa: BLE001  # reported as every command reports it
        return finished(code_for(error))
