"""A campaign from its first run to its verdict: begins runs side by side, has them judged meanwhile, keeps a journal.

It stops beginning runs when its time or its number of runs is used up, when something was found and that is what it was
looking for, or when it is interrupted; it then goes on where it stopped when the same plan is started again.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path
from time import monotonic

from harness.campaign.drawing.draw import draw
from harness.campaign.drawing.profiles import profile
from harness.campaign.file import refuse_drawn
from harness.campaign.forked import ForkedRuns
from harness.campaign.journal import Begun, Ended, Finished, Journal, JudgedLine
from harness.campaign.judging import judge_runs
from harness.campaign.outcome import Outcome, Stop, outcome_of
from harness.campaign.place import drawn_before, scenario_file
from harness.campaign.plan import Plan, PlannedRun
from harness.campaign.results import write_results
from harness.campaign.rows import RunJudged
from harness.campaign.running import Interrupted, run_one
from harness.campaign.situations import Situation, Situations
from harness.compose import JudgingSession, catch_signals
from harness.errors import HarnessError
from harness.history.accepted import Accepted, is_accepted
from harness.history.files_below import FilesBelow
from harness.scenario.model import SIMULATED

_BATCH = 8  # runs that wait for a verdict until they are judged while others run
_ATTEMPTS_MAX = 3  # of a run during which the campaign was killed each time


@dataclass(frozen=True, kw_only=True)
class Progress:
    """running: the numbers of the runs that go on now. eta_s: None until a run has ended. newest: the newest
    violation or broken invariant, "" until there is one."""

    planned: int
    judged: int
    waiting: int
    running: tuple[int, ...]
    counts: Mapping[str, int]
    eta_s: float | None
    newest: str


@dataclass(kw_only=True)
class Conduct:
    """One start of a campaign in its folder. show: gets the progress; tell: each new verdict."""

    plan: Plan
    files: FilesBelow
    journal: Journal
    accepted: Mapping[str, Accepted]
    today: date
    master: str
    show: Callable[[Progress], None]
    tell: Callable[[RunJudged, PlannedRun], None]
    _session: JudgingSession | None = None
    _running: dict[int, PlannedRun] = field(default_factory=dict)
    _took_s: list[float] = field(default_factory=list)
    _stop: Stop = ""
    _newest: str = ""

    def __post_init__(self) -> None:
        self._began = monotonic()
        self._of_number = {run.number: run for run in self.plan.runs}
        for run in self.journal.state.judged.values():
            self._note(run)

    async def go_on(self) -> Stop:
        """Does what is left. Returns what stopped it before all was done."""
        forked = ForkedRuns()
        try:
            return await self._go_on(forked)
        finally:
            await forked.close()

    async def _go_on(self, forked: ForkedRuns) -> Stop:
        interrupt = asyncio.Event()
        goes_on = f"what has ended is kept in {self.files.top}; the same command goes on where it stopped"
        catch_signals(asyncio.get_running_loop(), interrupt, remedy=goes_on)
        todo = iter(self._todo())
        tasks: set[asyncio.Task[None]] = set()
        judging: asyncio.Task[None] | None = None
        while True:
            while len(tasks) < self.plan.jobs and not self._stops(interrupt) and (run := next(todo, None)) is not None:
                tasks.add(asyncio.ensure_future(self._run(run, interrupt, forked)))
            waiting = self.journal.state.ended
            if judging is None and waiting and (len(waiting) >= self._batch() or not tasks):
                judging = asyncio.ensure_future(self._judge(list(waiting.values())))
            self.show(self.progress())
            doing = tasks | ({judging} if judging is not None else set())
            if not doing:
                return self._stop
            done, _ = await asyncio.wait(doing, return_when=asyncio.FIRST_COMPLETED)
            if judging in done:
                judging = None
            tasks -= done
            for each in done:
                each.result()  # what goes wrong with the campaign itself ends it

    def _todo(self) -> list[PlannedRun]:
        return [run for run in self.plan.runs if self.journal.state.is_open(run.number) and not run.not_here]

    def _batch(self) -> int:
        return 1 if self.plan.until_found else _BATCH

    def _stops(self, interrupt: asyncio.Event) -> bool:
        """Whether no further run is begun."""
        done = len(self.journal.state.judged) + len(self.journal.state.ended) + len(self._running)
        if interrupt.is_set():
            self._stop = "interrupted"
        elif self.plan.until_found and self._newest:
            self._stop = "found"
        elif self.plan.time_s is not None and monotonic() - self._began >= self.plan.time_s:
            self._stop = "time"
        elif self.plan.run_budget is not None and done >= self.plan.run_budget and done < len(self.plan.runs):
            self._stop = "runs"
        return bool(self._stop)

    async def _run(self, planned: PlannedRun, interrupt: asyncio.Event, forked: ForkedRuns) -> None:
        attempt = self.journal.state.attempts.get(planned.number, 0) + 1
        if attempt > _ATTEMPTS_MAX:
            error = f"the campaign was killed during each of {_ATTEMPTS_MAX} attempts at it"
            self.journal.write(Ended(number=planned.number, folder="", error=error, took_s=0))
            return
        self._running[planned.number] = planned
        self.journal.write(Begun(number=planned.number, attempt=attempt, at=_now()))
        began = monotonic()
        ended: Ended | Interrupted
        try:
            scenario = await asyncio.to_thread(self._scenario_of, planned)
            limit_s = self.plan.run_limit_s
            ended = await run_one(self.files, planned, scenario, limit_s=limit_s, interrupt=interrupt, forked=forked)
        except HarnessError as error:  # one bad run never stops the rest
            ended = Ended(number=planned.number, folder="", error=str(error), took_s=monotonic() - began)
        finally:
            del self._running[planned.number]
        if isinstance(ended, Ended):
            self._took_s.append(ended.took_s)
            self.journal.write(ended)
        else:  # no attempt that counts: it is our doing that it did not end
            self.journal.write(Begun(number=planned.number, attempt=attempt - 1, at=_now()))

    def _scenario_of(self, planned: PlannedRun) -> Path:
        """Raises HarnessError for a drawn schedule that cannot run."""
        if planned.drawn is None or drawn_before(self.files, planned):
            return scenario_file(self.files, planned, planned.text)
        scenario = draw(
            profile(planned.profile),
            system=planned.system,
            seed=planned.seed,
            number=planned.drawn,
            # In the simulated world a seed says all, whatever ran before it.
            seldom=None if planned.world == SIMULATED else self._situations(),
            world=planned.world,
        )
        refuse_drawn(scenario)
        return scenario_file(self.files, planned, scenario.source)

    def _situations(self) -> Situations:
        reached: Counter[Situation] = Counter()
        for run in self.journal.state.judged.values():
            for each in run.situations:
                reached[each.situation] += each.times
        return Situations(reached=reached)

    async def _judge(self, waiting: list[Ended]) -> None:
        if self._session is None:
            self._session = JudgingSession(master=self.master)
        rows = await asyncio.to_thread(judge_runs, self._session, self.files.top, waiting, keep=self.plan.keep)
        for row in rows:
            self.journal.write(JudgedLine(run=row))
            self._note(row)
            self.tell(row, self._of_number[row.number])

    def _note(self, run: RunJudged) -> None:
        if run.broken_invariant:
            self._newest = f"an invariant in run {run.number}"
        for seen in run.findings:
            known = is_accepted(seen.fingerprint, self.accepted, self.today)
            stated = self.plan.stated_is_pass and run.as_stated
            if seen.classification == "violation" and not stated and not known:
                self._newest = f"{seen.check} {seen.fingerprint} in run {run.number}"

    def progress(self) -> Progress:
        state, plan = self.journal.state, self.plan
        left = len(self._todo())
        eta_s = None
        if self._took_s:
            eta_s = left * sum(self._took_s) / len(self._took_s) / plan.jobs
            if plan.time_s is not None:
                eta_s = min(eta_s, max(0.0, plan.time_s - (monotonic() - self._began)))
        return Progress(
            planned=len(plan.runs),
            judged=len(state.judged),
            waiting=len(state.ended),
            running=tuple(sorted(self._running)),
            counts=Counter(run.verdict for run in state.judged.values()),
            eta_s=eta_s,
            newest=self._newest,
        )

    def outcome(self, stop: Stop) -> Outcome:
        """Writes the results anew. What was interrupted may go on; anything else is finished."""
        outcome = outcome_of(self.plan, self.journal.state.judged, self.accepted, today=self.today, stop=stop)
        write_results(self.files, self.plan, self.journal.state.judged, outcome)
        if outcome.stop != "interrupted":
            self.journal.write(Finished(at=_now()))
        return outcome

    def close(self) -> None:
        if self._session is not None:
            self._session.close()


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@contextlib.contextmanager
def conduct(
    plan: Plan,
    files: FilesBelow,
    accepted: Mapping[str, Accepted],
    *,
    master: str,
    show: Callable[[Progress], None],
    tell: Callable[[RunJudged, PlannedRun], None],
) -> Iterator[Conduct]:
    """Raises HarnessError where the journal cannot be read."""
    journal = Journal(files)
    made = Conduct(
        plan=plan,
        files=files,
        journal=journal,
        accepted=accepted,
        today=datetime.now(UTC).date(),
        master=master,
        show=show,
        tell=tell,
    )
    try:
        yield made
    finally:
        made.close()
        journal.close()
