"""What becomes of a simulated run that would leave its world or stands still, and who asks brokers once in it."""

import asyncio
import shutil
import time
from pathlib import Path

import pytest

from harness import compose
from harness.cluster.simulated.loop import SimulatedClock, SimulatedLoop, Stuck
from harness.cluster.simulated.no_way_out import Escape
from harness.controller.context import PlanResult, RunContext
from harness.controller.run import Run, RunOutcome
from harness.controller.workers.tasks import WorkerTasks
from harness.history.run_folder import RunFolder
from harness.ports.load import WorkloadSpec
from harness.preflight.looking import all_ready
from harness.scenario.model import Scenario
from harness.worlds import World
from harness.worlds.one_try import OneTryClient
from harness.worlds.simulated import simulate, world_of

pytestmark = pytest.mark.cluster


def _begun(runs: Path) -> tuple[Scenario, RunFolder]:
    (scenario,) = all_ready([("no-faults", ["cluster.world=simulated", "workload.duration=1 s"])])
    return compose._begun(scenario, runs=runs, seed=1, command=[])


class _Ends:
    """A plan that ends by that error, in a task of its own as every plan's work."""

    def __init__(self, error: AssertionError) -> None:
        self._error = error

    async def run(self, context: RunContext) -> PlanResult:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._raises())
        return PlanResult()

    async def _raises(self) -> None:
        raise self._error


class _LeavesAndStands(_Ends):
    """Its work is ended by an escape that nobody hears; then nothing is left to do."""

    async def run(self, context: RunContext) -> PlanResult:
        await asyncio.wait([asyncio.create_task(asyncio.to_thread(time.sleep, 0))])
        return await super().run(context)


def _outcome(folder: RunFolder, plan: _Ends) -> RunOutcome:
    def make_run(scenario: Scenario, world: World, interrupt: asyncio.Event) -> Run:
        run = compose.recording(scenario, folder, world, interrupt, lambda _: None)
        run.plan = plan
        return run

    return simulate(folder, make_run=make_run, hear=lambda _: None)


@pytest.mark.parametrize("error", [Escape("a thread is wanted"), Stuck("nothing is scheduled")])
def test_a_run_that_ends_so_is_sealed_with_the_reason(error: AssertionError, tmp_path: Path) -> None:
    _, folder = _begun(tmp_path)

    outcome = _outcome(folder, _Ends(error))

    assert outcome.status == folder.run["status"] == "error"
    assert str(error) in folder.run["error"]
    assert folder.sealed


def test_a_world_that_stands_still_since_something_left_it_says_what_left_it(tmp_path: Path) -> None:
    _, folder = _begun(tmp_path)

    _outcome(folder, _LeavesAndStands(Stuck("nothing is scheduled")))

    assert folder.run["error"].startswith("something left the simulated world: time.sleep at ")


def test_what_is_collected_later_has_the_time_at_which_the_world_ended(tmp_path: Path) -> None:
    _, folder = _begun(tmp_path)

    def make_run(scenario: Scenario, world: World, interrupt: asyncio.Event) -> Run:
        return compose.recording(scenario, folder, world, interrupt, lambda _: None)

    simulate(folder, make_run=make_run, hear=lambda _: None)
    ended_ns = folder.run["phases"][-1]["t"]
    folder.update(status="started", collected=False)  # as if its process had been killed
    shutil.rmtree(folder.path / "tables")
    (folder.path / "tables").mkdir()

    compose.sealed(folder.path)

    taken = [row["time_ns"] for row in folder.table("replica_snapshots").to_pylist() if row["reason"] == "end"]
    assert taken
    assert set(taken) == {ended_ns}


def test_a_load_without_retries_is_the_librarys_and_only_probes_ask_once(tmp_path: Path) -> None:
    scenario, folder = _begun(tmp_path)
    loop = SimulatedLoop(1)
    kinds: list[bool] = []

    async def made() -> None:
        world = world_of(scenario, folder, SimulatedClock(loop))
        assert isinstance(world.workers, WorkerTasks)
        for make in (world.make_client, world.workers._make_client):
            client = make(bootstrap="10.0.0.2:9094", settings=WorkloadSpec(retries=0))
            kinds.append(isinstance(client, OneTryClient))
            await client.close()

    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(made())

    assert kinds == [True, False]
