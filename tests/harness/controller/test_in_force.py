"""Faults in force: each is written down before it begins, ended once whoever asks, and promised to the run."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from harness.controller.in_force import FaultInForce, FaultsInForce
from harness.errors import HarnessError
from harness.interfaces import NodeId
from tests.harness.controller.fault_world import FaultWorld, fault_world, scenario_of

ONE, TWO = NodeId(1), NodeId(2)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[FaultWorld]:
    async with fault_world(tmp_path, scenario_of()) as world:
        yield world


async def killed(world: FaultWorld, in_force: FaultsInForce, node: NodeId = ONE) -> FaultInForce:
    begin, end = partial(world.cluster.kill, node), partial(world.cluster.start_node, node)
    return await in_force.begin(kind="kill", label=f"kill broker {node}", nodes=[node], begin=begin, end=end, step=4)


async def cut(world: FaultWorld, in_force: FaultsInForce) -> FaultInForce:
    links = [link for link in world.cluster.links() if str(link) == "n2>n1"]
    return await in_force.begin(
        kind="cut",
        label="cut 2>1",
        nodes=[ONE, TWO],
        begin=lambda: world.cluster.cut(links),
        end=lambda: world.cluster.heal(links),
        links=lambda: "n2>n1",
    )


async def test_a_fault_is_asked_begun_with_proof_and_ended_with_proof(world: FaultWorld) -> None:
    in_force = FaultsInForce(world.context)

    fault = await killed(world, in_force)
    assert [each.number for each in in_force.all()] == [fault.number]
    await in_force.end(fault)

    (row,) = world.faults()
    assert row["t_asked"] <= row["t_begin"] <= row["t_end_asked"] <= row["t_end"]
    assert (row["proof"], row["healed_proof"], row["step"]) == ("kill 1 was seen", "start 1 was seen", 4)
    assert in_force.all() == []
    assert await world.context.heal_everything() == []
    assert world.cluster.deeds == ["kill 1", "start 1"]


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

    async def lose(node: NodeId) -> Any:
        await world.cluster.kill(node)
        return await world.cluster.wipe(node)

    start = partial(world.cluster.start_node, ONE)
    await in_force.begin(kind="wipe", label="lost", nodes=[ONE], begin=partial(lose, ONE), end=start)
    assert world.snapshots() == [("wipe", 1)]

    await killed(world, in_force, TWO)
    wipe = partial(world.cluster.wipe, TWO)
    await in_force.begin(kind="wipe", label="lost", nodes=[TWO], begin=wipe, end=partial(world.cluster.start_node, TWO))
    assert world.snapshots() == [("wipe", 1), ("kill", 2)], "a dead broker's disk was read when it died"


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

    assert world.faults()[0]["healed_proof"].startswith("heal n2>n1")
    assert world.cluster.cut_links == set()


async def test_a_fault_broken_off_while_it_began_is_undone_all_the_same(world: FaultWorld) -> None:
    in_force = FaultsInForce(world.context)
    world.cluster.obstacle = "kill 1"

    with pytest.raises(HarnessError):
        await killed(world, in_force)
    await world.context.heal_everything()

    (row,) = world.faults()
    assert row["t_begin"] is None
    assert row["t_end"] is not None
    assert world.cluster.deeds == ["kill 1", "start 1"]


async def test_a_heal_that_fails_is_told_and_the_others_go_on_newest_first(world: FaultWorld) -> None:
    in_force = FaultsInForce(world.context)
    for node in (1, 2, 3):
        await killed(world, in_force, NodeId(node))
    world.cluster.obstacle = "start 2"

    failures = await world.context.heal_everything()

    assert failures == ["healing 'kill broker 2' failed: start 2 did not work"]
    assert world.cluster.deeds[3:] == ["start 3", "start 2", "start 1"]
    assert [row["t_end"] is not None for row in world.faults()] == [True, False, True]


async def test_what_is_not_in_force_cannot_be_undone(world: FaultWorld) -> None:
    in_force = FaultsInForce(world.context)
    fault = await killed(world, in_force)

    assert in_force.one(ONE, "kill") is fault
    assert in_force.of_node(TWO, ("kill",)) == []
    with pytest.raises(HarnessError, match="node 1 has no pause in force"):
        in_force.one(ONE, "pause")
