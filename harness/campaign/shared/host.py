"""The process that holds one shared cluster: it starts the cluster with the first run it is asked for, makes run after
run on it, and ends with it.

It is asked on its standard input and answers on its standard output (messages.py). It dies with the campaign, and the
nodes with it; the next command sweeps what is left.
"""

import asyncio
import os
import sys
from pathlib import Path

from harness import compose
from harness.campaign.shared.health import Health
from harness.campaign.shared.messages import ENCODER, READ_PERFORM, Between, Perform, Performed, Said, Unfit
from harness.campaign.shared.rules import with_own_group
from harness.clock import SystemClock
from harness.cluster.local.cluster import LocalCluster
from harness.cluster.local.lent import ReusedCluster
from harness.cluster.local.ownership import RunOwnership
from harness.errors import HarnessError, in_a_line
from harness.history.run_folder import RunFolder
from harness.preflight.looking import ready
from harness.scenario.model import Scenario

_LINE_MAX = 1 << 20


class Host:
    """folder: of the cluster, below the campaign's."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder.resolve()
        self._clock = SystemClock()
        self._interrupt = asyncio.Event()
        self._cluster: LocalCluster | None = None
        self._health: Health | None = None
        self._before: list[str] = []  # the runs that were made on the cluster
        # What anything else prints is for the log.
        self._answers = os.fdopen(os.dup(1), "wb", buffering=0)
        os.dup2(2, 1)

    async def serve(self) -> None:
        """Until standard input ends, an interrupt, or a state in which no run may follow."""
        loop = asyncio.get_running_loop()
        compose.catch_signals(loop, self._interrupt)
        asked = asyncio.StreamReader(limit=_LINE_MAX)
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(asked), sys.stdin)
        with RunOwnership(self._folder):
            try:
                while line := await self._unless_interrupted(asked):
                    if not await self._perform(READ_PERFORM.decode(line)):
                        return
            finally:
                if self._cluster is not None:
                    await self._cluster.stop()

    async def _unless_interrupted(self, asked: asyncio.StreamReader) -> bytes:
        """The next line; nothing at the end and after an interrupt."""
        line, stop = asyncio.ensure_future(asked.readline()), asyncio.ensure_future(self._interrupt.wait())
        await asyncio.wait({line, stop}, return_when=asyncio.FIRST_COMPLETED)
        for each in (line, stop):
            each.cancel()
        return line.result() if line.done() and not line.cancelled() and not self._interrupt.is_set() else b""

    async def _perform(self, asked: Perform) -> bool:
        """Whether another run may follow."""
        if self._cluster is not None and (why := _ended(self._cluster)):
            self._say(Unfit(why=why))
            return False
        try:
            scenario = ready(asked.scenario, checks=False)
            if self._cluster is None:
                await self._start(scenario)
            await self._run(scenario, asked)
        except (HarnessError, OSError) as error:
            self._say(Performed(error=in_a_line(error)))
            return False
        self._say(Performed(error=""))
        if self._interrupt.is_set():
            return False
        between = await self._between()
        if between is not None:
            self._say(between)
        return between is not None and not between.unfit

    async def _between(self) -> Between | None:
        """None after an interrupt."""
        assert self._health is not None, "it was made with the cluster"
        check, stop = asyncio.ensure_future(self._health.check()), asyncio.ensure_future(self._interrupt.wait())
        await asyncio.wait({check, stop}, return_when=asyncio.FIRST_COMPLETED)
        stop.cancel()
        if not check.done():
            check.cancel()
            await asyncio.wait({check})
            return None
        unfit = check.result()
        return Between(unfit=unfit, as_started=not unfit and await self._health.as_started())

    async def _start(self, scenario: Scenario) -> None:
        clients = max(scenario.workload.workers, 1)
        cluster = LocalCluster(run_path=self._folder, spec=scenario.cluster, client_links=clients, clock=self._clock)
        self._cluster = cluster  # what was started of it is stopped, whatever happens
        await cluster.start()
        self._health = Health(cluster, folder=self._folder / "health", clock=self._clock)
        await self._health.begin()

    async def _run(self, scenario: Scenario, asked: Perform) -> None:
        number = len(self._before) + 1
        lender = self._cluster
        assert lender is not None, "it was started"

        def lend(folder: RunFolder) -> ReusedCluster:
            self._before.append(f"{folder.path.parent.name}/{folder.path.name}")
            began_ns = self._clock.monotonic_ns()
            return ReusedCluster(lender, folder, topics=scenario.topic_names, began_ns=began_ns)

        await compose.run_on(
            with_own_group(scenario, number),
            lend,
            runs=Path(asked.runs),
            seed=asked.seed,
            command=["kafka-chaos", "run", asked.scenario, "--seed", str(asked.seed)],
            interrupt=self._interrupt,
            shared={"cluster": self._folder.name, "number": number, "before": list(self._before)},
        )

    def _say(self, message: Said) -> None:
        self._answers.write(ENCODER.encode(message) + b"\n")


def _ended(cluster: LocalCluster) -> str:
    return next((lines[0] for lines in cluster.endings().values()), "")


def hold(folder: Path) -> None:
    """The hidden command of such a process."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    asyncio.run(_hold(folder))


async def _hold(folder: Path) -> None:
    await Host(folder).serve()
