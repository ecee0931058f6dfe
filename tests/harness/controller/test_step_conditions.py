"""What a step waits for or expects: whether it holds, and what was seen, in words."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from harness.controller.context import PlanResult
from harness.controller.step_conditions import Condition
from harness.scenario_steps import EXPECTATIONS
from tests.harness.controller.fault_world import FaultWorld, Play, fault_world, player, scenario_of


@pytest.fixture
async def play(tmp_path: Path) -> AsyncIterator[Play]:
    async with player(tmp_path) as play:
        yield play


@pytest.mark.parametrize(
    ("body", "seen"),
    [
        ({"isr": [2, 1, 3]}, "ISR [1, 2, 3]"),
        ({"isr_order": [1, 2, 3]}, "ISR [1, 2, 3]"),
        ({"leader": 1}, "leader 1"),
        ({"leader_epoch": 0}, "leader epoch 0"),
        ({"leaders": [1]}, "leaders [1]"),
        ({"log_end": {"1": 2, "3": 2}}, "log end 2 on broker 1, log end 2 on broker 3"),
        ({"high_watermark": {"2": 2}}, "checkpointed high watermark 2 on broker 2"),
        ({"epoch_file": {"1": [[0, 0]]}}, "epochs [[0, 0]] on broker 1"),
        ({"controller": 1}, "controller 1"),
        ({"controller_epoch": 0}, "controller epoch 0"),
        ({"acks": 0}, "0 records acknowledged of 0 awaited"),
        ({"recovered": True}, "every partition has a leader and its full ISR"),
        ({"elapsed": 0}, "0.0 s passed"),
    ],
)
async def test_a_condition_that_holds_is_told_as_it_was_seen(play: Play, body: dict[str, Any], seen: str) -> None:
    _, world = await play({"expect": body}, before=lambda cluster: cluster.set_log("a", "b"))

    assert [(row["outcome"], row["seen"]) for row in world.rows("steps")] == [("ok", seen)]


async def test_every_word_that_a_scenario_may_use_is_a_condition(tmp_path: Path) -> None:
    words = set(EXPECTATIONS) - {"produce", "read", "elect"}
    async with fault_world(tmp_path, scenario_of()) as world:
        for word in words:
            assert Condition({word: "0"}, world.context).name == word


async def test_acks_with_a_plus_count_from_the_step(play: Play) -> None:
    async def load(world: FaultWorld) -> None:
        world.context.acks.add(ok=5)
        while world.outcomes() == ["skipped"]:
            await asyncio.sleep(0.005)
            world.context.acks.add(ok=1)

    result, world = await play({"wait": {"acks": "+10"}}, during=load)

    assert result == PlanResult()
    assert world.context.acks.ok >= 10


async def test_throughout_demands_that_it_goes_on_holding(play: Play) -> None:
    async def shrink(world: FaultWorld) -> None:
        while not world.outcomes():  # it holds when the step begins
            await asyncio.sleep(0.005)
        world.cluster.isr = (1,)

    step = {"wait": {"isr": [1, 2, 3], "throughout": "10 s"}}
    result, _ = await play(step, during=shrink)
    assert "last seen: ISR [1], " in result.inconclusive[0]
    assert "before the end of the 10 s it had to hold" in result.inconclusive[0]

    result, _ = await play({"wait": {"isr": [1, 2, 3], "throughout": "120 ms"}})
    assert result == PlanResult()


async def test_recovered_forgives_only_who_is_not_running(play: Play) -> None:
    def one_behind(cluster: Any) -> None:
        cluster.isr = (1, 2)

    result, _ = await play({"wait": {"recovered": True}, "within": "10 ms"}, before=one_behind)
    assert "orders-0: [3] not in the ISR [1, 2]" in result.inconclusive[0]

    result, _ = await play({"act": {"kill": 3}}, {"wait": {"recovered": True}}, before=one_behind)
    assert result == PlanResult()
