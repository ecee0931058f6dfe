"""What a step waits for or expects: whether it holds, and what was seen, in words."""

import asyncio
import dataclasses
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from harness.controller.context import PlanResult
from harness.controller.step_conditions import Condition
from harness.controller.step_questions import ASKED
from harness.scenario.steps import EXPECTATIONS
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
        ({"leaders_each": {"1": 1, "2": 0}}, "broker 1 leads 1, broker 2 leads 0"),
        ({"leader_seen_by": {"1": 1, "3": 1}}, "broker 1 says 1, broker 3 says 1"),
        ({"agreed": True}, "every broker reports the same"),
        ({"registered": [1, 2, 3]}, "registered [1, 2, 3]"),
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
async def test_a_condition_that_holds_is_reported_as_it_was_seen(play: Play, body: dict[str, Any], seen: str) -> None:
    _, world = await play({"expect": body}, before=lambda cluster: cluster.set_log("a", "b"))

    assert [(row["outcome"], row["seen_text"]) for row in world.rows("steps")] == [("ok", seen)]


async def test_every_word_that_a_scenario_may_use_is_a_condition(tmp_path: Path) -> None:
    words = set(EXPECTATIONS) - {"produce", "read", "elect"} - ASKED
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


async def test_what_dead_brokers_said_last_is_not_taken_for_what_is(tmp_path: Path) -> None:
    async with fault_world(tmp_path, scenario_of()) as world:
        observer = world.context.observer
        await observer.poll_once()
        assert await Condition({"leader": 1}, world.context).ask() == (True, "leader 1")
        world.cluster.running.clear()
        while not observer.nobody_answers:
            await observer.next_round()
        for body in ({"leader": 1}, {"isr": [1, 2, 3]}, {"recovered": True}):
            assert await Condition(body, world.context).ask() == (False, "no broker answers")
        world.cluster.running.add(2)
        while observer.nobody_answers:
            await observer.next_round()
        assert await Condition({"leader": 2}, world.context).ask() == (True, "leader 2")


async def test_brokers_that_tell_different_leaders_do_not_agree(play: Play) -> None:
    async def zombie(world: FaultWorld) -> None:
        view = world.context.observer.view_of(3, "orders", 0)
        assert view is not None
        world.context.observer._views["orders", 0][3] = dataclasses.replace(view, leader=3)
        await world.context.observer.stop()

    result, _ = await play(
        {"wait": {"agreed": True}, "within": "1 s"}, {"act": {"kill": 3}}, {"wait": {"agreed": True}}
    )
    assert result == PlanResult(), "who is down is not asked"

    _, world = await play({"act": {"pause": 2}}, during=zombie)
    agreed = await Condition({"agreed": True}, world.context).ask()
    seen = await Condition({"leader_seen_by": {"1": 1, "3": 3}}, world.context).ask()
    assert (agreed[0], "3: (3, 0," in agreed[1]) == (False, True)
    assert seen == (True, "broker 1 says 1, broker 3 says 3")
