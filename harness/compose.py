"""The one place where names become classes: a scenario's words become a cluster, a plan, clients and checks."""

import asyncio
import contextlib
import dataclasses
import fcntl
import io
import logging
import os
import shlex
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import faults.catalogue
import faults.links
import faults.plan
import faults.targets
import faults.triggers
from harness import memory, refusals
from harness.clients import catalogue as clients
from harness.clients.resolving import resolving
from harness.clock import SystemClock
from harness.cluster.local import ownership
from harness.cluster.local.ownership import RunOwnership
from harness.cluster.running import BrokerCluster
from harness.cluster.stored import stored_books
from harness.controller.collection import seal_unfinished
from harness.controller.context import Acknowledgements, Plan
from harness.controller.disturbance import Disturbance, FaultBook
from harness.controller.follower import Follower
from harness.controller.run import Progress, Run, RunOutcome, partitions_of
from harness.controller.steps import OrderedSteps
from harness.controller.worker_main import read_spec, run_worker
from harness.controller.workers import WorkerProcesses, Workers, controller_numbers, worker_specs
from harness.errors import HarnessError, UsageError
from harness.history.extent import records_in
from harness.history.run_folder import RunFolder
from harness.interfaces import ClientId, ClientMaker
from harness.judged import Judged, NotJudged
from harness.old_brokers import check_age, silent_version
from harness.printable import LogLines
from harness.scenario import ClusterSpec, Scenario
from harness.scenario_file import load, nearest
from harness.scenario_written import written_out
from harness.systems import (
    check_cluster,
    cluster_of,
    made,
    owes,
    sweep_containers,
    traits_of,
    undo_left_behind,
)
from harness.versions import stamp as run_stamp
from harness.versions import versions
from workloads.catalogue import NAMES as WORKLOADS
from workloads.catalogue import WORKLOADS as WORKLOAD_MAKERS

CLIENTS = clients.CLIENTS
_AFTER_HEALING = ("recover", "drain", "read back", "collect", "stop", "seal")


def check_names(scenario: Scenario) -> None:
    """Everything a scenario names is known and fits, before anything is started. Raises UsageError."""
    check_cluster(scenario)
    workload = scenario.workload
    for kind, name, known in (
        ("workload", workload.name, WORKLOADS),
        ("client", workload.client, tuple(CLIENTS)),
    ):
        if name not in known:
            raise UsageError(f"scenario {scenario.name}: unknown {kind} {name!r}; {nearest(name, known)}")
    clients.check_installed(workload.client)
    topics = [topic.name for topic in scenario.topics]
    for topic in workload.topics:
        if topic not in topics:
            raise UsageError(f"scenario {scenario.name}: the workload's topic {topic!r} is not in [[topics]]: {topics}")
    for spec in scenario.faults:
        faults.catalogue.make(spec, topics)
        faults.targets.parse(spec.target or "all")
        if spec.when is not None:
            faults.triggers.parse(spec.when)
    refusals.check_means(scenario)
    check_age(scenario, traits_of(scenario.cluster))
    if scenario.faults and scenario.steps:
        raise UsageError(f"scenario {scenario.name}: give either [[faults]] or [[steps]], not both")


def plan_of(scenario: Scenario) -> Plan:
    if scenario.steps:
        return OrderedSteps(scenario=scenario, resolve=faults.targets.resolve, links=faults.links)
    book = FaultBook(
        make=faults.catalogue.make,
        resolve=faults.targets.resolve,
        trigger=faults.triggers.parse,
        written_out=faults.plan.written_out,
    )
    return Disturbance(scenario=scenario, book=book)


def limits_of_client(scenario: Scenario) -> str:
    """What the client library cannot do of what the workload asks, in one line; empty when there is nothing."""
    return "" if scenario.workload.name == "none" else clients.limits(scenario.workload)


def run_scenario(
    reference: str,
    *,
    runs: Path,
    seed: int | None,
    overrides: Sequence[str],
    command: Sequence[str],
    progress: Callable[[Progress], None],
    on_healed: Callable[[Path], None] = lambda _: None,
    tell: Callable[[str], None] = lambda _: None,
) -> tuple[RunFolder, RunOutcome]:
    """One run, sealed and not yet judged. Raises UsageError for the scenario, HarnessError for the machine.

    `tell` gets a line on what the client library cannot do of what the workload asks, before the run begins;
    `on_healed` the run's folder when the last fault is over.
    """
    scenario = load(reference, overrides=overrides, traits_of=traits_of)
    check_names(scenario)
    chosen = seed if seed is not None else scenario.seed if scenario.seed is not None else 1
    scenario = dataclasses.replace(scenario, seed=chosen)
    clock = SystemClock()
    stamp = run_stamp(clock.wall_ns())
    folder = RunFolder.create(runs, scenario=scenario.name, clock=clock, seed=chosen, stamp=stamp)
    folder.write_scenario(written_out(scenario), source=scenario.source)
    for line in (limits_of_client(scenario), *refusals.ignored(scenario)):
        if line:
            tell(line)
    client = {} if scenario.workload.name == "none" else clients.described(scenario.workload)
    folder.update(command=shlex.join(command), versions=versions() | client)
    with RunOwnership(folder.path) as owner, _logging_to(folder):
        if unlinked := folder.link_latest():
            tell(unlinked)
        outcome = asyncio.run(
            _run(scenario, folder, chosen, _noticing_healing(progress, lambda: on_healed(folder.path)))
        )
        owner.owes = owes(folder.path)
    return folder, outcome


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
    """Tells once when the run has passed its last heal."""
    told = False

    def show(seen: Progress) -> None:
        nonlocal told
        if seen.phase in _AFTER_HEALING and not told:
            told = True
            on_healed()
        progress(seen)

    return show


async def _run(scenario: Scenario, folder: RunFolder, seed: int, progress: Callable[[Progress], None]) -> RunOutcome:
    interrupt = asyncio.Event()
    _catch_signals(asyncio.get_running_loop(), interrupt)
    workload = scenario.workload
    cluster = cluster_of(scenario, folder)
    brokers_version = silent_version(traits_of(scenario.cluster))
    make_client = _clients(brokers_version)[clients.OWN]  # probes and final reads; workers have the workload's client

    def names(client: ClientId | None) -> Mapping[str, str]:
        return cluster.names_for(client) if isinstance(cluster, BrokerCluster) else {}

    def workers(acks: Acknowledgements) -> Workers:
        specs = worker_specs(
            producers=workload.producers,
            consumers=workload.consumers,
            bootstrap=lambda number: cluster.bootstrap(ClientId(number)),
            partitions=[(each.topic, each.partition) for each in partitions_of(scenario, workload.topics)],
            workload=dataclasses.asdict(workload),
            seed=seed,
            folder=folder.history,
            names=lambda number: names(ClientId(number)),
            brokers_version=brokers_version,
            processors=workload.processors,
        )
        command = [sys.executable, "-m", "harness", "worker"]
        return WorkerProcesses(
            specs=specs, command=command, folder=folder.path / "workers", acks=acks, spawn=cluster.spawn_worker
        )

    idle = workload.name == "none"
    run = Run(
        folder=folder,
        scenario=scenario,
        cluster=cluster,
        plan=plan_of(scenario),
        make_client=make_client,
        workers=None if idle else workers,
        numbers=controller_numbers(
            producers=0 if idle else workload.producers,
            consumers=0 if idle else workload.consumers,
            processors=0 if idle else workload.processors,
        ),
        clock=SystemClock(),
        seed=seed,
        interrupt=interrupt,
        write_out=written_out,
        progress=progress,
        needs=tuple(refusals.needs(scenario)),
        follow=lambda: Follower.start(folder.path, spawn=cluster.spawn_worker),
    )
    with resolving(lambda: names(None)):
        return await run.go()


def _clients(brokers_version: Sequence[int]) -> Mapping[str, ClientMaker]:
    return clients.for_silent_brokers(brokers_version) if brokers_version else CLIENTS


def _catch_signals(loop: asyncio.AbstractEventLoop, interrupt: asyncio.Event) -> None:
    """The first Ctrl-C heals, stops and analyses what there is; the second ends at once: the next command sweeps."""

    def on_signal(number: int, frame: FrameType | None) -> None:
        if interrupt.is_set():
            os._exit(130)
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
        clock = SystemClock()
        seal_unfinished(folder, books=stored_books(folder, clock), clock=clock)
    return folder


def _refuse_while_it_goes_on(folder: RunFolder) -> None:
    """Its harness, which holds the lock, completes it better than anybody else can."""
    with contextlib.suppress(FileNotFoundError), folder.files.open(ownership.LOCK) as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            raise HarnessError(f"{folder.path}: the run goes on; judge it when it has ended") from None


def _unsealed(path: Path) -> HarnessError | None:
    """Seals the folder; why that cannot be done."""
    try:
        sealed(path)
    except HarnessError as error:
        return error
    return None


class Bench:
    """Where runs are judged: one Spark session for as many runs as there are. The JVM is started when it is made.

    `folders`: what is to be judged, as far as it is there, for how much that is decides how the JVM compiles.
    """

    def __init__(self, *, master: str = "local[2]", folders: Sequence[Path] = ()) -> None:
        from harness.checks.early_session import EarlySession

        self._early = EarlySession(master=master, records=sum(map(records_in, folders)))

    def warm_up(self, *_: object) -> None:
        """Beside a run whose faults are over: the first check of a session costs seconds more than the next."""
        self._early.warm_up()

    def judge(self, path: Path, *, progress: Callable[[str], None] = lambda _: None) -> Judged:
        """Raises HarnessError where it cannot be judged."""
        (judged,) = self.judge_many([path], progress=progress)
        if isinstance(judged, NotJudged):
            raise judged.error
        return judged

    def judge_many(
        self, paths: Sequence[Path], *, progress: Callable[[str], None] = lambda _: None, pages: bool = True
    ) -> list[Judged | NotJudged]:
        """Judges all as one job, then renders each; a page that cannot be made never changes the verdict."""
        self._early.open()  # beside the sealing
        from harness.checks.judge import judge_each

        folders = [path.resolve() for path in paths]  # the JVM works in a directory of its own
        unfit = {folder: error for folder in folders if (error := _unsealed(folder)) is not None}
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
        self._early.close()


def render(path: Path) -> tuple[Path | None, str]:
    from reports.render import write_report  # with pandas: a third of what a command takes to begin

    try:
        return write_report(path), ""
    except HarnessError as error:
        return None, str(error)
    except Exception as error:  # noqa: BLE001  # a broken page is told in one line; the verdict stands
        return None, f"the page could not be made: {type(error).__name__}: {error}"


# ---- other commands -------------------------------------------------------------------------------------------------


def run_cluster(spec: ClusterSpec, *, ready: Callable[[dict[str, str]], None]) -> None:
    """A cluster alone, in a temporary folder, until SIGINT or SIGTERM."""
    with tempfile.TemporaryDirectory(prefix="kafka-chaos-cluster-") as folder, RunOwnership(Path(folder)):
        asyncio.run(_serve(Path(folder), spec, ready))


async def _serve(folder: Path, spec: ClusterSpec, ready: Callable[[dict[str, str]], None]) -> None:
    interrupt = asyncio.Event()
    _catch_signals(asyncio.get_running_loop(), interrupt)
    cluster = made(spec, folder, client_links=1)
    try:
        await cluster.start()
        ready({"bootstrap": cluster.bootstrap(ClientId(1)), "coordination": cluster.coordination()})
        await interrupt.wait()
    finally:
        await cluster.stop()


def sweep() -> list[str]:
    # Containers first: the other sweep strikes the run off the list.
    return [*sweep_containers(), *ownership.sweep(undo_left_behind)]


def worker(spec: str) -> None:
    """The hidden command: one client process of a workload."""
    told = read_spec(spec)
    with resolving(lambda: told.names):
        run_worker(spec, workloads=WORKLOAD_MAKERS, clients=_clients(told.brokers_version))
