"""Scenarios that are run to see whether they show what is sought: several side by side, judged in one Spark session.

In the simulated world a seed comes again, so one of a scenario's seeds that shows it is enough. Elsewhere it must be
seen in at least half of its runs.
"""

import asyncio
import contextlib
import shutil
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from harness.campaign.file import planned
from harness.campaign.forked import ForkedRuns
from harness.campaign.journal import Ended
from harness.campaign.place import scenario_file
from harness.campaign.plan import DEFAULT_RUN_LIMIT_S
from harness.campaign.running import Interrupted, run_one
from harness.checks.judged import Judged
from harness.compose import JudgingSession, catch_signals
from harness.errors import HarnessError, Problems
from harness.history.files_below import FilesBelow
from harness.history.run_folder import RunFolder
from harness.host.scratch import scratch_folder
from harness.preflight import looking
from harness.scenario.model import SIMULATED, Scenario

if TYPE_CHECKING:
    from harness.checks.findings import Finding  # with PySpark: other commands begin without it


@dataclass(frozen=True, kw_only=True)
class Sought:
    """A finding, or an invariant of simulated runs. alike: another cause, or other faults, of the same check and class
    are as good."""

    check: str = ""
    classification: str = ""
    fingerprint: str = ""
    alike: bool = False
    invariant: str = ""

    @property
    def words(self) -> str:
        return f"invariant {self.invariant}" if self.invariant else f"{self.classification} {self.check}"

    def is_shown(self, findings: "Sequence[Finding]", invariant: str) -> bool:
        """findings and broken invariant of a run."""
        if self.invariant:
            return invariant == self.invariant
        if self.alike:
            return any((self.check, self.classification) == (each.check, each.classification) for each in findings)
        return any(each.fingerprint == self.fingerprint for each in findings)


@dataclass(frozen=True, kw_only=True)
class Shown:
    """What one run came to. error: why there is nothing to see of it. invariant: the one that was broken, or ""."""

    findings: "tuple[Finding, ...]" = ()
    invariant: str = ""
    error: str = ""


def broken_invariant_of(folder: RunFolder) -> str:
    """Its name; "" where none was broken."""
    broken = folder.run.get("broken_invariant")
    return "" if broken is None else str(broken["invariant"])


@dataclass(kw_only=True)
class Tries:
    """files: where the runs are made; none is kept. `tell` gets a line for each scenario that was tried."""

    files: FilesBelow
    session: JudgingSession
    forked: ForkedRuns
    interrupt: asyncio.Event
    tell: Callable[[str], None]
    repeats: int = 1
    jobs: int = 1
    runs: int = 0  # until now
    _slots: asyncio.Semaphore = field(init=False)

    @property
    def goes_on(self) -> bool:
        return not self.interrupt.is_set()

    def __post_init__(self) -> None:
        self._slots = asyncio.Semaphore(self.jobs)

    async def of(self, sought: Sought, candidates: Sequence[tuple[str, Scenario]]) -> list[int | None]:
        """(what was taken away, what is left), each. Returns for each a seed that shows what is sought."""
        repeated = [
            (number, replace(scenario, seed=(scenario.seed or 0) + repeat))
            for number, (_, scenario) in enumerate(candidates)
            for repeat in range(self.repeats)
        ]
        shown = await self.made([scenario for _, scenario in repeated])
        found: list[int | None] = []
        for number, (what, scenario) in enumerate(candidates):
            seen = [(one.seed, result) for (of, one), result in zip(repeated, shown, strict=True) if of == number]
            seeds = [seed for seed, result in seen if sought.is_shown(result.findings, result.invariant)]
            enough = 1 if scenario.cluster.world == SIMULATED else (self.repeats + 1) // 2
            found.append(seeds[0] if len(seeds) >= enough else None)
            errors = sorted({result.error for _, result in seen if result.error})
            self.tell(_line(what, len(seeds), self.repeats, is_kept=found[-1] is not None, errors=errors))
        return found

    async def made(self, scenarios: Sequence[Scenario]) -> list[Shown]:
        """What a run of each came to, with the scenario's seed."""
        ended = await asyncio.gather(*(self._run(scenario) for scenario in scenarios))
        folders = [self.files.top / each.folder for each in ended if each.folder]
        judged = await asyncio.to_thread(self.session.judge_many, folders, pages=False) if folders else []
        by_folder = {answer.folder: answer for answer in judged}
        results = []
        for each in ended:
            answer = by_folder.get((self.files.top / each.folder).resolve()) if each.folder else None
            if isinstance(answer, Judged):
                findings = tuple(finding for _, finding in answer.judgement.findings)
                invariant = broken_invariant_of(RunFolder(answer.folder))
                results.append(Shown(findings=findings, invariant=invariant, error=each.error))
            else:
                results.append(Shown(error=each.error or (str(answer.error) if answer is not None else "no run")))
        for folder in folders:
            shutil.rmtree(folder.parent)
        return results

    async def _run(self, scenario: Scenario) -> Ended:
        async with self._slots:
            if self.interrupt.is_set():
                return Ended(number=0, folder="", error="interrupted", took_s=0)
            self.runs += 1
            run = replace(planned(scenario, seed=scenario.seed or 0), number=self.runs)
            try:
                file = scenario_file(self.files, run, run.text)
                looking.ready(str(file), checks=False)
                ended = await run_one(
                    self.files,
                    run,
                    file,
                    limit_s=DEFAULT_RUN_LIMIT_S,
                    interrupt=self.interrupt,
                    forked=self.forked,
                )
            except Problems as error:
                return Ended(number=run.number, folder="", error=f"cannot be: {error.problems[0].what}", took_s=0)
            except HarnessError as error:
                return Ended(number=run.number, folder="", error=str(error), took_s=0)
        if isinstance(ended, Interrupted):
            return Ended(number=run.number, folder="", error="interrupted", took_s=0)
        return ended


@contextlib.asynccontextmanager
async def trying(
    session: JudgingSession, *, repeats: int, jobs: int, tell: Callable[[str], None]
) -> AsyncIterator[Tries]:
    """In a folder for a while. Ctrl-C ends the runs that go on, and begins no other."""
    forked, interrupt = ForkedRuns(), asyncio.Event()
    catch_signals(asyncio.get_running_loop(), interrupt, remedy="nothing is kept of what was tried")
    with scratch_folder("kafka-chaos-tries-") as scratch:
        files = FilesBelow(scratch)
        try:
            yield Tries(
                files=files,
                session=session,
                forked=forked,
                interrupt=interrupt,
                tell=tell,
                repeats=repeats,
                jobs=jobs,
            )
        finally:
            await forked.close()


def _line(what: str, seen: int, of: int, *, is_kept: bool, errors: Sequence[str]) -> str:
    times = f" ({seen} of {of})" if of > 1 else ""
    why = f": {errors[0]}" if errors and not is_kept else ""
    return f"{'still there' if is_kept else 'gone':<12}{what}{times}{why}"
