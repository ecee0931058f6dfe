"""The shared clusters of a campaign, as the campaign sees them: one process each (host.py), kept for the next run that
may share it.

A cluster is used again only when its last run was judged, was a clean pass, and the health check after it found the
cluster as after a start. So that nobody waits for a verdict, there may be twice as many clusters as runs side by side.
"""

import asyncio
import contextlib
import json
import re
import shutil
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness.campaign.journal import Ended
from harness.campaign.plan import PlannedRun
from harness.campaign.rows import RunJudged
from harness.campaign.running import LINE_MAX, PATIENCE_S, Interrupted, last_line, new_run_folder, run_one
from harness.campaign.shared.messages import ENCODER, READ_SAID, Between, Perform, Performed, Said, Unfit
from harness.campaign.shared.rules import Sharing, sharing_of
from harness.cluster.local.processes import die_with_parent
from harness.errors import HarnessError
from harness.history.files_below import FilesBelow
from harness.scenario.file import load
from harness.systems import traits_of
from harness.verdict import Verdict

FOLDER = "clusters"
BOOK = "clusters.jsonl"  # a line for each cluster that has ended
_KEPT = "kept"  # a file in the folder of a cluster that stays for people to look at
_NAMED = re.compile(rb'"cluster": "(\d+)"')
_OF_HARM = ("violation", "permitted")


def is_clean(run: RunJudged) -> bool:
    """Whether another run may follow on its cluster: it passed, as its scenario states, and lost nothing."""
    harmed = any(seen.classification in _OF_HARM for seen in run.findings)
    return run.verdict == Verdict.PASS.value and run.as_stated and not harmed


@dataclass(eq=False, kw_only=True)
class _Cluster:
    """One process. waits_for: the run whose verdict is not known yet. over: why it is not used again."""

    name: str
    folder: Path
    key: str
    process: asyncio.subprocess.Process
    runs: list[int] = field(default_factory=list)
    busy: bool = True
    waits_for: int | None = None
    unclean: bool = False
    as_started: bool = True
    over: str = ""
    between: "asyncio.Task[None] | None" = None

    @property
    def is_free(self) -> bool:
        return not (self.busy or self.over or self.waits_for is not None or self.between is not None)

    async def say(self, message: Perform) -> None:
        assert self.process.stdin is not None, "it was started with pipes"
        with contextlib.suppress(ConnectionError):  # that it has ended is seen when it is read
            self.process.stdin.write(ENCODER.encode(message) + b"\n")
            await self.process.stdin.drain()

    async def hears(self) -> Said | None:
        """None: it has ended."""
        assert self.process.stdout is not None, "it was started with pipes"
        line = await self.process.stdout.readline()
        return READ_SAID.decode(line) if line.endswith(b"\n") else None

    @property
    def log(self) -> Path:
        return self.folder / "output.txt"


class SharedClusters:
    """most: how many there may be at a time. runs_each: after how many runs one is given up. limit_s: for one run."""

    def __init__(
        self,
        files: FilesBelow,
        *,
        most: int,
        runs_each: int,
        keep_all: bool,
        limit_s: float,
        host: Sequence[str] = (sys.executable, "-m", "harness", "hold-cluster"),
    ) -> None:
        self._files = files
        self._top = files.top / FOLDER
        self._most = most
        self._runs_each = runs_each
        self._keep_all = keep_all
        self._limit_s = limit_s
        self._host = tuple(host)
        self._clusters: list[_Cluster] = []  # the one that was used last is the last
        self._changed = asyncio.Event()
        self._ending: set[asyncio.Task[None]] = set()
        files.make_folder(FOLDER)
        self._last = self._last_number()
        for left in self._top.iterdir():  # of a campaign that was killed
            if not (left / _KEPT).exists():
                shutil.rmtree(left)

    def _last_number(self) -> int:
        """Of the clusters there were, also before the campaign was interrupted: a number is given once."""
        content = self._files.read(BOOK) if (self._files.top / BOOK).is_file() else b""
        names = [*(name.decode() for name in _NAMED.findall(content)), *(path.name for path in self._top.iterdir())]
        return max((int(name) for name in names if name.isdecimal()), default=0)

    # -- a run --------------------------------------------------------------------------------------------------------

    async def run_one(self, planned: PlannedRun, scenario: Path, *, interrupt: asyncio.Event) -> Ended | Interrupted:
        """On a cluster that is there, on a new one that others may share, or alone. Raises HarnessError."""
        # Hardly two drawn schedules have the same settings of brokers.
        sharing = sharing_of(load(str(scenario), traits_of=traits_of)) if planned.drawn is None else None
        if sharing is None:
            return await run_one(self._files, planned, scenario, limit_s=self._limit_s, interrupt=interrupt)
        while True:
            cluster = await self._taken(sharing, interrupt)
            if cluster is None:
                return Interrupted(number=planned.number)
            ended = await self._on(cluster, sharing, planned, scenario, interrupt)
            if ended is not None:
                return ended

    async def _taken(self, sharing: Sharing, interrupt: asyncio.Event) -> _Cluster | None:
        """A cluster for a run, marked as busy; None after an interrupt. Waits while there are too many."""
        while not interrupt.is_set():
            for cluster in reversed(self._clusters):
                fits = cluster.key == sharing.key and (cluster.as_started or not sharing.as_started)
                if cluster.is_free and fits:
                    cluster.busy = True
                    self._clusters.remove(cluster)
                    self._clusters.append(cluster)
                    return cluster
            if len(self._clusters) < self._most:
                return await self._started(sharing.key)
            idle = next((cluster for cluster in self._clusters if cluster.is_free), None)
            if idle is not None:
                self._end(idle, "its place was needed")
                continue
            self._changed.clear()
            waits = {asyncio.ensure_future(self._changed.wait()), asyncio.ensure_future(interrupt.wait())}
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            for each in waits:
                each.cancel()
        return None

    async def _started(self, key: str) -> _Cluster:
        self._last += 1
        folder = self._top / f"{self._last:04d}"
        self._files.make_folder(f"{FOLDER}/{folder.name}")
        pipe = asyncio.subprocess.PIPE
        with (folder / "output.txt").open("wb") as output:
            try:
                process = await asyncio.create_subprocess_exec(
                    *self._host, str(folder), stdin=pipe, stdout=pipe, stderr=output, start_new_session=True,
                    preexec_fn=die_with_parent(),
                )  # fmt: skip
            except OSError as error:
                raise HarnessError(f"cluster {folder.name}: no process can be started: {error.strerror}") from error
        cluster = _Cluster(name=folder.name, folder=folder, key=key, process=process)
        self._clusters.append(cluster)
        return cluster

    async def _on(
        self, cluster: _Cluster, sharing: Sharing, planned: PlannedRun, scenario: Path, interrupt: asyncio.Event
    ) -> Ended | Interrupted | None:
        """None: the cluster was not well any more, and nothing was begun."""
        runs = f"runs/{planned.number:04d}"
        for part in ("runs", runs):
            self._files.make_folder(part)
        folder, began = self._files.top / runs, time.monotonic()
        cluster.runs.append(planned.number)
        new = new_run_folder(folder)
        await cluster.say(Perform(scenario=str(scenario), seed=planned.seed, runs=str(folder)))
        said, ended_by = await self._watched(cluster, interrupt)
        cluster.busy = False
        name = new()
        died_idle = said is None and not ended_by and not name and len(cluster.runs) > 1
        if isinstance(said, Unfit) or died_idle:
            cluster.runs.pop()
            self._end(cluster, said.why if isinstance(said, Unfit) else "its process ended between two runs")
            return None
        if ended_by == "campaign":
            self._end(cluster, "the campaign was interrupted")
            return Interrupted(number=planned.number)
        took_s = round(time.monotonic() - began, 3)
        why = f"it took more than {self._limit_s:g} s (run_limit)" if ended_by == "limit" else ""
        error = said.error if isinstance(said, Performed) else last_line(cluster.log)
        if not name:
            why = why or error or f"cluster {cluster.name} ended with code {cluster.process.returncode}"
        ended = Ended(number=planned.number, folder=f"{runs}/{name}" if name else "", error=why, took_s=took_s)
        self._after(cluster, sharing, ended, said)
        return ended

    async def _watched(self, cluster: _Cluster, interrupt: asyncio.Event) -> tuple[Said | None, str]:
        """(what it said, what ended the run: itself "", "limit" or "campaign")."""
        answer, stops = asyncio.ensure_future(cluster.hears()), asyncio.ensure_future(interrupt.wait())
        try:
            await asyncio.wait({answer, stops}, timeout=self._limit_s, return_when=asyncio.FIRST_COMPLETED)
            if answer.done():
                return answer.result(), ""
            with contextlib.suppress(ProcessLookupError):
                cluster.process.send_signal(signal.SIGINT)
            await asyncio.wait({answer}, timeout=PATIENCE_S)
            if not answer.done():
                with contextlib.suppress(ProcessLookupError):
                    cluster.process.kill()
            return await answer, "campaign" if interrupt.is_set() else "limit"
        finally:
            stops.cancel()
            answer.cancel()

    def _after(self, cluster: _Cluster, sharing: Sharing, ended: Ended, said: Said | None) -> None:
        if ended.error or not isinstance(said, Performed):
            cluster.unclean = True
            self._end(cluster, ended.error or f"its process ended with code {cluster.process.returncode}")
            return
        cluster.waits_for = ended.number
        if sharing.spends:
            cluster.over = sharing.spends
        elif len(cluster.runs) >= self._runs_each:
            cluster.over = f"it had its {self._runs_each} runs"
        cluster.between = asyncio.create_task(self._between(cluster))

    async def _between(self, cluster: _Cluster) -> None:
        """Hears what the health check came to."""
        said = await cluster.hears()
        cluster.between = None
        if not isinstance(said, Between):
            cluster.over = cluster.over or last_line(cluster.log) or "its process ended"
        else:
            cluster.as_started = said.as_started
            cluster.over = cluster.over or said.unfit
        self._settle(cluster)

    @property
    def is_settled(self) -> bool:
        """Whether no run, health check, verdict or end is awaited."""
        return not self._ending and all(cluster.is_free for cluster in self._clusters)

    # -- what is learnt of it -----------------------------------------------------------------------------------------

    def judged(self, run: RunJudged) -> None:
        """The verdict of a run is known: its cluster may be used again, or is not."""
        for cluster in self._clusters:
            if cluster.waits_for == run.number:
                cluster.waits_for = None
                if not is_clean(run):
                    cluster.unclean = True
                    cluster.over = cluster.over or f"run {run.number} was no clean pass: {run.verdict}"
                self._settle(cluster)
                return

    def _settle(self, cluster: _Cluster) -> None:
        """Ends a cluster that is over, once its last run was judged."""
        if cluster.over and cluster.waits_for is None and cluster.between is None and cluster in self._clusters:
            self._end(cluster, cluster.over)
        self._changed.set()

    # -- its end ------------------------------------------------------------------------------------------------------

    def _end(self, cluster: _Cluster, why: str) -> None:
        cluster.over = why
        self._clusters.remove(cluster)
        task = asyncio.create_task(self._ended(cluster))
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)
        self._changed.set()

    async def _ended(self, cluster: _Cluster) -> None:
        process = cluster.process
        if process.stdin is not None:
            process.stdin.close()
        with contextlib.suppress(ProcessLookupError):  # it may be amid a health check
            process.send_signal(signal.SIGINT)
        try:
            async with asyncio.timeout(PATIENCE_S):
                await process.wait()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
        entry: Mapping[str, object] = {"cluster": cluster.name, "runs": cluster.runs, "ended": cluster.over[:LINE_MAX]}
        with self._files.append(BOOK) as book:
            book.write(json.dumps(entry).encode() + b"\n")
        if self._keep_all or cluster.unclean or cluster.waits_for is not None:
            (cluster.folder / _KEPT).touch()
        else:
            await asyncio.to_thread(shutil.rmtree, cluster.folder)

    async def close(self) -> None:
        """Ends all of them. Raises OSError where a folder cannot be removed."""
        for cluster in list(self._clusters):
            if cluster.between is not None:
                cluster.between.cancel()
                cluster.between = None
            self._end(cluster, cluster.over or "the campaign ended")
        await asyncio.gather(*self._ending)
