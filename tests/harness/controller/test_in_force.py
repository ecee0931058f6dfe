"""Faults in force: each is written down before it begins, ended once whoever asks, and promised to the run."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from faults.disks.power_loss import PowerLoss
from faults.disks.wipe import Wipe
from faults.network.cut import Cut
from faults.network.slow import Slow
from faults.processes.kill import Kill
from faults.processes.pause import Pause
from faults.processes.rolling_restart import RollingRestart
from faults.processes.stop import Stop
from harness.controller.faults.in_force import FaultInForce, FaultsInForce, Occasion
from harness.errors import HarnessError
from harness.ports.cluster import Evidence, NodeId
from harness.ports.faults import Fault
from tests.harness.controller.fault_world import FaultWorld, fault_world, scenario_of
from tests.waiting import comes_true

ONE, TWO = NodeId(1), NodeId(2)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[FaultWorld]:
    async with fault_world(tmp_path, scenario_of()) as world:
        yield world


async def begun(world: FaultWorld, in_force: FaultsInForce, fault: Fault, *nodes: NodeId) -> FaultInForce:
    struck = replace(fault.strikes(world.cluster, nodes), topics=("orders",))
    label = f"{fault.name} broker {', '.join(map(str, struck.nodes))}"
    asked = in_force.ask(fault, struck, label=label, occasion=Occasion(planned_ns=1, step=4))
    await in_force.begin(asked)
    return asked


async def seen(holds: Callable[[], bool], what: str) -> None:
    async def now() -> bool:
        return holds()

    await comes_true(now, what)


async def killed(world: FaultWorld, in_force: FaultsInForce, node: NodeId = ONE) -> FaultInForce:
    return await begun(world, in_force, Kill(), node)


async def cut(world: FaultWorld, in_force: FaultsInForce) -> FaultInForce:
    return await begun(world, in_force, Cut(links=("2>1",)))


async def test_a_fault_is_asked_begun_with_proof_and_ended_with_proof(world: FaultWorld) -> None:
    in_force = FaultsInForce(world.context)

    fault = await killed(world, in_force)
    assert [each.number for each in in_force.all()] == [fault.number]
    await in_force.end(fault)

    (row,) = world.faults()
    assert row["asked_ns"] <= row["begin_ns"] <= row["end_asked_ns"] <= row["end_ns"]
    assert (row["proof_text"], row["healed_proof_text"], row["step"]) == ("kill 1 was seen", "start 1 was seen", 4)
    assert in_force.all() == []
    assert await world.context.heal_everything() == []
    assert world.cluster.deeds == ["kill 1", "start 1"]


async def test_a_disk_is_read_as_a_node_went_down_before_another_fault_harms_it(world: FaultWorld) -> None:
    in_force = FaultsInForce(world.context)
    order: list[str] = []
    late = asyncio.Event()
    snapshot = world.context.snapshot

    async def slowly(reason: Any, node: int, **more: Any) -> None:
        await late.wait()
        order.append(f"read: {reason}")
        await snapshot(reason, node, **more)

    world.context.snapshot = slowly  # type: ignore[method-assign]
    stopping = asyncio.create_task(begun(world, in_force, Stop(), ONE))
    await seen(lambda: bool(world.cluster.deeds), "the stop has begun")
    wiping = asyncio.create_task(begun(world, in_force, Wipe(), ONE))
    wiping.add_done_callback(lambda _: order.append("wiped"))
    await seen(lambda: len(in_force.all()) == 2, "the wipe is asked for")
    late.set()
    await in_force.end(await wiping)
    await in_force.end(await stopping)

    assert order == ["read: kill", "wiped"]


async def test_a_disk_is_read_after_a_kill_and_before_a_heal(world: FaultWorld) -> None:
    in_force = FaultsInForce(world.context)
    read_at: list[tuple[str, int, int]] = []
    snapshot = world.context.snapshot

    async def noted(reason: Any, node: int, **more: Any) -> None:
        read_at.append((reason, node, len(world.cluster.deeds)))
        await snapshot(reason, node, **more)

    world.context.snapshot = noted  # type: ignore[method-assign]
    await killed(world, in_force, NodeId(3))
    await in_force.end(await cut(world, in_force))

    assert read_at == [("kill", 3, 1), ("heal", 1, 2), ("heal", 2, 2)]
    assert world.snapshots() == [("kill", 3), ("heal", 1), ("heal", 2)]


async def test_a_disk_that_is_wiped_under_a_running_broker_is_read_before(world: FaultWorld) -> None:
    in_force = FaultsInForce(world.context)

    await begun(world, in_force, Wipe(), ONE)
    assert world.snapshots() == [("wipe", 1)]

    await killed(world, in_force, TWO)
    await begun(world, in_force, Wipe(), TWO)
    assert world.snapshots() == [("wipe", 1), ("kill", 2)], "a dead broker's disk was read when it died"


async def test_a_wipe_that_leaves_the_disk_as_it_is_goes_down_as_a_kill(world: FaultWorld) -> None:
    """Its victim was alone in the ISR when it was dead: what it lost then would say more of the schedule."""
    in_force = FaultsInForce(world.context)
    kill = world.cluster.kill

    async def alone(node: NodeId) -> Evidence:
        seen = await kill(node)
        world.cluster.isr = (int(node),)
        return seen

    world.cluster.kill = alone  # type: ignore[method-assign]
    await begun(world, in_force, Wipe(spare=True), ONE)

    (row,) = world.faults()
    assert (row["kind"], row["proved"]) == ("kill", True)
    assert row["label_text"] == "kill, no wipe broker 1"
    assert "its disk was left as it is" in row["proof_text"]
    assert world.cluster.deeds == ["kill 1"]
    assert world.snapshots() == [("wipe", 1), ("kill", 1)], "read again as it went down"
    assert not world.rows("disk_events")


async def test_two_who_end_a_fault_at_once_end_it_once(world: FaultWorld) -> None:
    in_force = FaultsInForce(world.context)
    fault = await cut(world, in_force)
    world.cluster.slow_s = 0.02

    await asyncio.gather(in_force.end(fault), in_force.end(fault), world.context.heal_everything())

    assert [deed.split()[0] for deed in world.cluster.deeds] == ["cut", "heal"]
    assert fault.over.is_set()


async def test_an_end_that_was_broken_off_is_kept_by_the_run(world: FaultWorld) -> None:
    in_force = FaultsInForce(world.context)
    fault = await cut(world, in_force)
    world.cluster.slow_s = 10.0
    ending = asyncio.create_task(in_force.end(fault))
    while len(world.cluster.deeds) < 2:
        await asyncio.sleep(0.001)
    ending.cancel()
    await asyncio.gather(ending, return_exceptions=True)
    world.cluster.slow_s = 0.0

    assert await world.context.heal_everything() == []

    assert world.faults()[0]["healed_proof_text"].startswith("heal n2>n1")
    assert world.cluster.cut_links == set()


async def test_a_fault_broken_off_while_it_began_is_undone_all_the_same(world: FaultWorld) -> None:
    in_force = FaultsInForce(world.context)
    world.cluster.obstacle = "kill 1"

    with pytest.raises(HarnessError):
        await killed(world, in_force)
    await world.context.heal_everything()

    (row,) = world.faults()
    assert row["begin_ns"] is None
    assert row["end_ns"] is not None
    assert world.cluster.deeds == ["kill 1", "start 1"]


async def test_a_heal_that_fails_is_reported_and_the_others_go_on_newest_first(world: FaultWorld) -> None:
    in_force = FaultsInForce(world.context)
    for node in (1, 2, 3):
        await killed(world, in_force, NodeId(node))
    world.cluster.obstacle = "start 2"

    failures = await world.context.heal_everything()

    assert failures == ["healing 'kill broker 2' failed: start 2 did not work"]
    assert world.cluster.deeds[3:] == ["start 3", "start 2", "start 1"]
    assert [row["end_ns"] is not None for row in world.faults()] == [True, False, True]


async def test_what_is_not_in_force_cannot_be_undone(world: FaultWorld) -> None:
    in_force = FaultsInForce(world.context)
    fault = await killed(world, in_force)

    assert in_force.undone_by("start", ONE) == [fault]
    with pytest.raises(HarnessError, match="node 2 has nothing in force that start could undo"):
        in_force.undone_by("start", TWO)
    with pytest.raises(HarnessError, match="node 1 has nothing in force that resume could undo"):
        in_force.undone_by("resume", ONE)


async def test_a_node_is_down_or_paused_by_what_is_in_force_and_by_what_the_cluster_sees(world: FaultWorld) -> None:
    in_force = FaultsInForce(world.context)
    await begun(world, in_force, Pause(), TWO)
    world.cluster.running.discard(3)

    assert [in_force.state_of(NodeId(node)) for node in (1, 2, 3)] == ["up", "paused", "down"]


async def test_a_node_is_down_until_its_start_was_seen(world: FaultWorld) -> None:
    in_force = FaultsInForce(world.context)
    fault = await killed(world, in_force)
    world.cluster.slow_s = 10.0
    ending = asyncio.create_task(in_force.end(fault))
    while len(world.cluster.deeds) < 2:
        await asyncio.sleep(0.001)
    world.cluster.running.add(1)  # the process is there, and does not listen yet

    assert in_force.state_of(ONE) == "down"

    ending.cancel()
    await asyncio.gather(ending, return_exceptions=True)
    world.cluster.slow_s = 0.0
    await in_force.end(fault)
    assert in_force.state_of(ONE) == "up"


async def test_a_node_that_two_faults_hold_down_is_started_once_by_the_run_too(world: FaultWorld) -> None:
    in_force = FaultsInForce(world.context)
    await killed(world, in_force)
    await begun(world, in_force, Wipe(), ONE)

    assert await world.context.heal_everything() == []

    assert world.cluster.deeds == ["kill 1", "wipe 1", "start 1"]
    assert all(row["healed_proof_text"] == "start 1 was seen" for row in world.faults())


async def test_a_fault_that_is_to_be_alone_begins_beside_no_harm_and_keeps_others_away_until_it_is_over(
    world: FaultWorld,
) -> None:
    """A second broker that left meanwhile would leave the ISR to the one that has just lost records."""
    in_force, alone = FaultsInForce(world.context), PowerLoss(spare=True)

    other = await killed(world, in_force, TWO)
    assert in_force.lets_begin(Kill()), "others care for themselves"
    assert not in_force.lets_begin(alone)
    await in_force.end(other)
    await begun(world, in_force, Cut(links=("c1>1",)))
    assert in_force.lets_begin(alone), "what clients suffer takes no replica away"
    await begun(world, in_force, Slow(links=("2>1",), delay_s=0.05))
    assert in_force.lets_begin(alone), "nor does a delay that is over before anybody's patience is"
    slow = await begun(world, in_force, Slow(links=("1>2",), delay_s=0.5))
    assert not in_force.lets_begin(alone)
    await in_force.end(slow)

    struck = alone.strikes(world.cluster, (ONE,))
    asked = in_force.ask(alone, struck, label="power-loss", occasion=Occasion(planned_ns=1, step=4))
    assert not in_force.lets_begin(Kill())
    await in_force.end(asked)
    assert in_force.lets_begin(Kill())


async def test_a_fault_of_several_nodes_is_ended_once_though_they_are_started_together(world: FaultWorld) -> None:
    in_force = FaultsInForce(world.context)
    rolling = await begun(world, in_force, RollingRestart(rejoin_s=0.0), ONE, TWO)
    rolling.released = True  # as after a failure
    one, two = await killed(world, in_force, ONE), await killed(world, in_force, TWO)

    await asyncio.gather(in_force.end(one), in_force.end(two))

    assert in_force.all() == []
    assert await world.context.heal_everything() == []
    assert all(row["end_ns"] is not None for row in world.faults())
