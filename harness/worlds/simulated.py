"""The simulated world: a whole run in one loop, of a folder whose scenario is written out. One seed, one history."""

import asyncio
import contextlib
import dataclasses
from collections.abc import Callable, Coroutine
from typing import Any

import pyarrow as pa

from harness.clients.aio import AioClient
from harness.clients.aio_member import AioMember
from harness.cluster.brokers.reference import ReferenceSystem
from harness.cluster.simulated.cluster import SimulatedCluster
from harness.cluster.simulated.disk_watch import DiskWatch
from harness.cluster.simulated.loop import SimulatedClock, SimulatedLoop, Stuck
from harness.cluster.simulated.machines import Machine, begun_on
from harness.cluster.simulated.no_way_out import Escape, NoWayOut
from harness.cluster.simulated.node_logs import nodes_log
from harness.controller.run import Run, RunOutcome
from harness.controller.workers.tasks import WorkerTasks
from harness.errors import leaves
from harness.history.run_folder import RunFolder
from harness.host.clock import Clock
from harness.ports.clients import ClientUse
from harness.ports.cluster import Client, ClientMaker
from harness.ports.load import WorkloadSpec
from harness.scenario.file import scenario_of
from harness.scenario.model import Scenario
from harness.worlds import World
from harness.worlds.one_try import OneTryClient

MakeRun = Callable[[Scenario, World, asyncio.Event], Run]


def simulate(folder: RunFolder, *, make_run: MakeRun, hear: Callable[[Callable[[], None]], None]) -> RunOutcome:
    """The run of a folder whose scenario is written out, recorded and sealed. `hear` is given what interrupts it."""
    scenario = scenario_of(folder)
    assert scenario.seed is not None, "a run has one"
    loop = SimulatedLoop(scenario.seed)
    interrupt = asyncio.Event()
    hear(interrupt.set)
    clock = SimulatedClock(loop)
    world = world_of(scenario, folder, clock)
    run = make_run(scenario, world, interrupt)
    pa.array([0])  # the first one loads pandas and numpy, which draw from the system's chance as they are loaded
    guard = NoWayOut(clock=clock, chance=loop.chance("libraries"))
    ended: list[str] = []  # what left the world comes first: it may be why the world stood still
    try:
        with (
            nodes_log(),
            contextlib.chdir(folder.path),
            asyncio.Runner(loop_factory=lambda: loop) as runner,
            DiskWatch(),
            guard,
        ):
            runner.run(run.record())
    except* Escape as escapes:
        ended = [_left(each) for each in leaves(escapes)]
    except* Stuck as stuck:
        ended = [f"the simulated world stood still: {each}" for each in leaves(stuck)]
    broken = world.cluster.invariants.broken if isinstance(world.cluster, SimulatedCluster) else None
    if broken is not None:
        folder.update(broken_invariant=dataclasses.asdict(broken))
    ended = [*map(_left, guard.escapes), *ended]
    return run.seal(error=ended[0] if ended else None)


def _left(escape: Escape | str) -> str:
    return f"something left the simulated world: {escape}"


def world_of(scenario: Scenario, folder: RunFolder, clock: Clock) -> World:
    """Nothing is started. A broken invariant ends what is done to the cluster, but where flaws are planted: there, what
    a user would see of them is looked for as well."""
    cluster = SimulatedCluster(
        run_path=folder.path,
        system=ReferenceSystem(spec=scenario.cluster),
        client_links=max(scenario.workload.workers, 1),
        clock=clock,
    )
    cut_short = asyncio.Event()
    if not scenario.cluster.flaws:
        cluster.invariants.on_broken = lambda broken: cut_short.set()

    def begin(name: str, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        return begun_on(Machine(name=name), work)

    workers = WorkerTasks(
        scenario=scenario,
        cluster=cluster,
        make_client=_client_maker(clock, once=False),
        history=folder.history,
        clock=clock,
        begin=begin,
    )
    return World(
        cluster=cluster, workers=workers, make_client=_client_maker(clock, once=True), clock=clock, cut_short=cut_short
    )


def _client_maker(clock: Clock, *, once: bool) -> ClientMaker:
    """`once`: whoever wants no retries asks a broker once. The load has the library's clients, whatever it wants."""

    def make_client(*, bootstrap: str, settings: WorkloadSpec, use: ClientUse | None = None) -> Client:
        kind = OneTryClient if once and settings.retries == 0 else AioClient
        if use is not None and (use.group or use.transactional_id):
            kind = AioMember
        return kind(bootstrap=bootstrap, settings=settings, use=use, clock=clock, repeats=True)

    return make_client
