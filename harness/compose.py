"""The one place where names become classes: a scenario's words become a cluster, a plan, clients and checks."""

import asyncio
import contextlib
import dataclasses
import fcntl
import io
import logging
import shlex
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any

import pyarrow as pa

from harness.checks.judged import Judged, NotJudged
from harness.clients import catalogue as clients
from harness.clients.resolving import resolving
from harness.cluster.left_behind import owes
from harness.cluster.local import ownership
from harness.cluster.local.ownership import RunOwnership
from harness.cluster.simulated.beginning import Beginning
from harness.cluster.stored import stored_books
from harness.controller.collection import seal_unfinished
from harness.controller.fault_schedule import FaultSchedule
from harness.controller.faults.plan_words import plan_words
from harness.controller.run import Progress, Run, RunOutcome
from harness.controller.steps import OrderedSteps
from harness.controller.workers.processes import controller_numbers
from harness.errors import MISFITS, HarnessError, end_at_once, in_a_line, misfit
from harness.history.accepted import Accepted, keep_accepted
from harness.history.facts.extent import records_in
from harness.history.journals.last_time import last_time_ns
from harness.history.run_folder import RunFolder
from harness.history.run_origin import commits, versions
from harness.history.run_origin import stamp as run_stamp
from harness.host import memory
from harness.host.clock import Clock, StandingClock, SystemClock
from harness.host.printable import LogLines
from harness.host.randomness import stream
from harness.ports.cluster import AdvertisesNames
from harness.scenario.model import SIMULATED, Scenario
from harness.scenario.written import explicit, written_out
from harness.worlds import World
from harness.worlds.apart import simulate_apart
from harness.worlds.processes import world_of

CLIENTS = clients.CLIENTS
_AFTER_HEALING = ("recover", "ask", "drain", "read back", "collect", "ask anew", "stop", "seal")


def run_scenario(
    scenario: Scenario,
    *,
    runs: Path,
    seed: int | None,
    command: Sequence[str],
    progress: Callable[[Progress], None],
    accepted: Mapping[str, Accepted] | None = None,
    on_healed: Callable[[Path], None] = lambda _: None,
    tell: Callable[[str], None] = lambda _: None,
    simulated: Callable[[RunFolder], RunOutcome] | None = None,
) -> tuple[RunFolder, RunOutcome]:
    """One run, sealed and not yet judged, of a scenario with nothing known against it (preflight). Raises HarnessError.

    accepted: what is set aside of it, whoever judges it, and if it is killed, too. `tell` gets lines on when each fault
    of a schedule was planned and came, after the run; `on_healed` the run's folder when the last fault is over.
    simulated: does a simulated run in this process, and shows nothing; None: a process of its own does it.
    """
    scenario, folder = _begun(scenario, runs=runs, seed=seed, command=command, accepted=accepted)
    is_simulated = scenario.cluster.world == SIMULATED
    with RunOwnership(folder.path) as owner, contextlib.nullcontext() if is_simulated else _logging_to(folder):
        if unlinked := folder.link_latest():
            tell(unlinked)
        if is_simulated and simulated is not None:
            outcome = simulated(folder)
        else:
            run = _simulate if is_simulated else _run
            outcome = asyncio.run(run(scenario, folder, _noticing_healing(progress, lambda: on_healed(folder.path))))
        owner.owes = owes(folder.path)
    for line in plan_words(folder):
        tell(line)
    return folder, outcome


def _begun(
    scenario: Scenario,
    *,
    runs: Path,
    seed: int | None,
    command: Sequence[str],
    accepted: Mapping[str, Accepted] | None = None,
) -> tuple[Scenario, RunFolder]:
    """The scenario with its seed and its whole schedule, and the folder of its run."""
    chosen = seed if seed is not None else scenario.seed if scenario.seed is not None else 1
    scenario = explicit(dataclasses.replace(scenario, seed=chosen), chance=stream(chosen, "schedule"))
    written, given = written_out(scenario), scenario.given
    client = clients.described(scenario.workload) if scenario.workload.workers else {}
    clock: Clock = SystemClock()
    stamp = run_stamp(clock.wall_ns())
    if scenario.cluster.world == SIMULATED:  # nothing of it tells when it was made: the seed names it
        clock, stamp = Beginning(), f"{SIMULATED}-{chosen}"
    folder = RunFolder.create(runs, scenario=scenario.name, clock=clock, seed=chosen, stamp=stamp)
    folder.write_scenario(written, source=scenario.source)
    origin: dict[str, Any] = {}
    if given is not None:  # how it was named, and of which commits it and the project are
        origin["given"] = {"scenario": given.reference, "overrides": list(given.overrides)}
        origin["commits"] = {} if given.file is None else commits(given.file, scenario.source)
    if scenario.roles:  # what the file says of a broker is told of another one
        origin["brokers_there"] = {str(named): there for named, there in scenario.roles.items()}
    folder.update(
        command=shlex.join(command),
        versions=versions() | client,
        system=scenario.cluster.system,
        world=scenario.cluster.where,
        workload=dataclasses.asdict(scenario.workload.facts),
        **origin,
    )
    if accepted is not None:
        keep_accepted(folder, accepted)
    return scenario, folder


@contextlib.contextmanager
def _logging_to(folder: RunFolder) -> Iterator[None]:
    """What the client library logs of the probes belongs to the run, not on the user's screen."""
    file = io.TextIOWrapper(folder.files.append("harness.log"), encoding="utf-8", write_through=True)
    handler = logging.StreamHandler(file)
    handler.setFormatter(LogLines())
    library = logging.getLogger("kafka")
    library.addHandler(handler)
    library.propagate = False
    try:
        yield
    finally:
        library.propagate = True
        library.removeHandler(handler)
        handler.close()
        file.close()


def _noticing_healing(
    progress: Callable[[Progress], None], on_healed: Callable[[], None]
) -> Callable[[Progress], None]:
    """Says once when the run has passed its last heal."""
    is_shown = False

    def show(seen: Progress) -> None:
        nonlocal is_shown
        if seen.phase in _AFTER_HEALING and not is_shown:
            is_shown = True
            on_healed()
        progress(seen)

    return show


async def _run(scenario: Scenario, folder: RunFolder, progress: Callable[[Progress], None]) -> RunOutcome:
    interrupt = _interrupt(folder)
    world = world_of(scenario, folder)
    cluster = world.cluster
    with resolving(lambda: cluster.names_for(None) if isinstance(cluster, AdvertisesNames) else {}):
        return await recording(scenario, folder, world, interrupt, progress).go()


async def _simulate(scenario: Scenario, folder: RunFolder, progress: Callable[[Progress], None]) -> RunOutcome:
    return await simulate_apart(folder, interrupt=_interrupt(folder), progress=progress)


def _interrupt(folder: RunFolder) -> asyncio.Event:
    interrupt = asyncio.Event()
    kept = f"what was recorded is kept; `kafka-chaos check {folder.path}` judges it"
    catch_signals(asyncio.get_running_loop(), interrupt, remedy=kept)
    return interrupt


def recording(
    scenario: Scenario,
    folder: RunFolder,
    world: World,
    interrupt: asyncio.Event,
    progress: Callable[[Progress], None],
) -> Run:
    """The run of a scenario in its world, which is to be done."""
    assert scenario.seed is not None, "a run has one"
    return Run(
        folder=folder,
        scenario=scenario,
        cluster=world.cluster,
        plan=OrderedSteps(scenario=scenario) if scenario.steps else FaultSchedule(scenario=scenario),
        make_client=world.make_client,
        workers=world.workers if scenario.workload.workers else None,
        numbers=controller_numbers(scenario.workload.workers),
        clock=world.clock,
        seed=scenario.seed,
        interrupt=interrupt,
        cut_short=world.cut_short,
        progress=progress,
    )


def catch_signals(loop: asyncio.AbstractEventLoop, interrupt: asyncio.Event, *, remedy: str) -> None:
    """The first Ctrl-C heals, stops and analyses what there is; the second, and one after the loop has ended, ends at
    once with a line that has the remedy: the next command sweeps."""

    def on_signal(number: int, frame: FrameType | None) -> None:
        if interrupt.is_set() or loop.is_closed():
            end_at_once(f"interrupted: {remedy}")
        loop.call_soon_threadsafe(interrupt.set)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, on_signal)


# ---- judging and rendering ------------------------------------------------------------------------------------------


def sealed(path: Path) -> RunFolder:
    """The folder, sealed first if its harness was killed before it could: from what lies in it, touching nothing else.

    Raises UsageError when it is none, or has links in it.
    """
    folder = RunFolder(path)
    if not folder.sealed or folder.run.get("status") == "started":
        _refuse_while_it_goes_on(folder)
        clock = _clock_of(folder)
        seal_unfinished(folder, books=stored_books(folder, clock), clock=clock)
    return folder


def _clock_of(folder: RunFolder) -> Clock:
    """What is added to the folder has a time of its world: a simulated one ended with the last that was recorded."""
    if folder.run.get("world") != SIMULATED:
        return SystemClock()
    try:
        anchor, last_ns = folder.anchor(), last_time_ns(folder)
    except OSError as error:
        raise HarnessError(in_a_line(error)) from error
    except MISFITS as error:
        raise misfit(folder.path, error, what="what its journals hold") from error
    return StandingClock(now_ns=last_ns, now_wall_ns=anchor.wall_ns + last_ns - anchor.monotonic_ns)


def _refuse_while_it_goes_on(folder: RunFolder) -> None:
    """Its harness, which holds the lock, completes it better than anybody else can."""
    with contextlib.suppress(FileNotFoundError), folder.files.open(ownership.LOCK) as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            raise HarnessError(f"{folder.path}: the run goes on; judge it when it has ended") from None


def _unfit(path: Path, accepted: Mapping[str, Accepted] | None) -> HarnessError | None:
    """Seals the folder, and keeps there what is accepted of its run; why that cannot be done."""
    try:
        folder = sealed(path)
        if accepted is not None:
            keep_accepted(folder, accepted)
    except HarnessError as error:
        return error
    except OSError as error:
        return HarnessError(f"{path}: {in_a_line(error)}")
    except (*MISFITS, pa.ArrowException) as error:
        return misfit(path, error, what="what its journals hold")
    return None


class JudgingSession:
    """Where runs are judged: one Spark session for as many runs as there are. The JVM is started when it is made.

    `folders`: what is to be judged, as far as it is there, for how much that is decides how the JVM compiles.
    """

    def __init__(self, *, master: str = "local[2]", folders: Sequence[Path] = ()) -> None:
        from harness.checks.early_session import EarlySession

        self._early = EarlySession(master=master, records=sum(map(records_in, folders)))
        self._beside = ThreadPoolExecutor(1, thread_name_prefix="what-makes-pages")

    def warm_up(self, *_: object) -> None:
        """Beside a run whose faults are over: the first check of a session costs seconds more than the next."""
        self._early.warm_up()
        self._read_what_makes_pages()

    def _read_what_makes_pages(self) -> None:
        """Beside what Spark does, which this process waits for. What is wrong with it, `render` says."""
        self._beside.submit(import_module, "reports.render")

    def judge(self, path: Path, *, progress: Callable[[str], None] = lambda _: None) -> Judged:
        """Raises HarnessError where it cannot be judged."""
        (judged,) = self.judge_many([path], progress=progress)
        if isinstance(judged, NotJudged):
            raise judged.error
        return judged

    def judge_many(
        self,
        paths: Sequence[Path],
        *,
        progress: Callable[[str], None] = lambda _: None,
        pages: bool = True,
        accepted: Mapping[str, Accepted] | None = None,
    ) -> list[Judged | NotJudged]:
        """Judges all as one job, then renders each; a page that cannot be made never changes the verdict.

        accepted: what is accepted of them from now on; None: what was before.
        """
        self._early.open()  # beside the sealing
        from harness.checks.judge import judge_each

        if pages:
            self._read_what_makes_pages()

        folders = [path.resolve() for path in paths]  # the JVM works in a directory of its own
        unfit = {folder: error for folder in folders if (error := _unfit(folder, accepted)) is not None}
        with self.spark() as spark:
            answers = judge_each([folder for folder in folders if folder not in unfit], spark, progress=progress)
        judged: list[Judged | NotJudged] = []
        for number, folder in enumerate(folders, start=1):
            judgement = unfit.get(folder) or answers[folder]
            if isinstance(judgement, HarnessError):
                judged.append(NotJudged(folder=folder, error=judgement))
                continue
            if pages:
                progress(f"page {number} of {len(folders)}")
            page, page_error = render(folder) if pages else (None, "not asked for")
            judged.append(Judged(folder=folder, judgement=judgement, page=page, page_error=page_error))
        return judged

    @contextlib.contextmanager
    def spark(self) -> Iterator[Any]:
        """The session for a question; what goes wrong inside keeps its words, which only the JVM knows."""
        try:
            yield self._early.session()
        except HarnessError:
            raise
        except Exception as error:
            if self._early.ran_out_of_memory():
                mb = memory.allowed_mb()
                raise HarnessError(
                    f"{mb} MB are too little memory for this check: give --memory-mb {2 * mb}"
                ) from error
            error.add_note(str(error))  # Spark's errors ask the JVM for their text, and it ends before they are shown
            raise

    def close(self) -> None:
        self._beside.shutdown()
        self._early.close()


def render(path: Path) -> tuple[Path | None, str]:
    from reports.render import write_report  # with pandas: a third of what a command takes to begin

    try:
        return write_report(path), ""
    except HarnessError as error:
        return None, str(error)
    except Exception as error:  # noqa: BLE001  # a broken page is reported in one line; the verdict stands
        return None, f"the page could not be made: {type(error).__name__}: {error}"
