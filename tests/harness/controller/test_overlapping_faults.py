"""Faults of a schedule that meet: none waits for another, none takes another's victim or heals what is another's."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest

from harness.cluster.link_holders import LinkHolders
from harness.controller.context import SkippedFault
from harness.controller.fault_schedule import FaultSchedule
from harness.history.facts.fault_facts import came_late, overlapping
from harness.ports.cluster import Evidence, Link
from harness.scenario.model import FaultSpec
from tests.harness.controller.fault_world import FaultWorld, FaultyCluster, fault_world, scenario_of
from tests.harness.controller.suffering import sufferer
from tests.jumping_time import CLOCK


@pytest.fixture
async def suffer(tmp_path: Path) -> AsyncIterator[Any]:
    async with sufferer(tmp_path) as suffer:
        yield suffer


async def test_a_fault_waits_in_no_queue_for_a_victim_that_another_fault_has_down(suffer: Any) -> None:
    result, world = await suffer(
        FaultSpec(kind="kill", target="2", at_s=0.0, for_s=0.05),
        FaultSpec(kind="pause", target="2", at_s=0.01, for_s=0.02),
    )

    assert result.inconclusive == ()
    assert world.cluster.deeds == ["kill 2", "start 2"]
    assert result.skipped == (SkippedFault(kind="pause", target="2", trigger="at 0.01 s", why="no-victim"),)


async def test_of_several_victims_those_are_struck_who_can_be_and_the_others_are_reported(suffer: Any) -> None:
    result, world = await suffer(
        FaultSpec(kind="kill", target="2", at_s=0.0), FaultSpec(kind="pause", target="all", at_s=0.03, for_s=0.01)
    )

    assert world.cluster.deeds == ["kill 2", "pause 1", "pause 3", "resume 1", "resume 3"]
    assert result.skipped == (SkippedFault(kind="pause", target="broker 2", trigger="at 0.03 s", why="no-victim"),)


async def test_chance_draws_from_those_who_can_be_struck(suffer: Any) -> None:
    pauses = [FaultSpec(kind="pause", target="random(1)", at_s=0.01 * number) for number in range(3)]
    result, world = await suffer(*pauses, FaultSpec(kind="pause", target="random(1)", at_s=0.05))

    assert sorted(world.cluster.deeds) == ["pause 1", "pause 2", "pause 3"]
    assert [each.trigger for each in result.skipped] == ["at 0.05 s"], "nobody was left"


@pytest.mark.parametrize("seed", range(8))
async def test_faults_of_the_same_moment_strike_different_victims_if_the_plan_says_so(suffer: Any, seed: int) -> None:
    """A leader paused, and somebody else isolated: at the same time, whoever is drawn."""
    result, world = await suffer(
        FaultSpec(kind="pause", target="leader(orders/0)", at_s=0.03, for_s=0.2),
        FaultSpec(kind="isolate", target="random(1) - leader(orders/0)", at_s=0.03, for_s=0.2),
        seed=seed,
    )

    assert (result.inconclusive, result.skipped) == ((), ())
    paused, isolated = sorted(world.faults(), key=lambda row: row["scheduled"])
    assert (paused["nodes"], paused["kind"], isolated["kind"]) == ([1], "pause", "cut")
    assert isolated["nodes"] in ([2], [3])
    assert paused["begin_ns"] < isolated["end_ns"]
    assert isolated["begin_ns"] < paused["end_ns"]
    assert all(not came_late(row) for row in world.faults())
    assert overlapping(world.faults()) == [(frozenset({1}), frozenset(isolated["nodes"]))]


async def test_a_leader_that_is_taken_away_is_who_led_last_where_nobody_leads(suffer: Any) -> None:
    async def depose(world: FaultWorld) -> None:
        world.cluster.nobody_leads = True

    result, world = await suffer(
        FaultSpec(kind="pause", target="all - leader(orders/0)", at_s=0.06, for_s=0.02), during=depose
    )

    assert (result.inconclusive, result.skipped) == ((), ())
    assert world.cluster.deeds[:2] == ["pause 2", "pause 3"]


async def test_a_role_means_one_and_the_same_node_for_all_faults_of_a_moment(suffer: Any) -> None:
    """The kill makes broker 2 the leader while the slow one of the two is still at it."""
    result, world = await suffer(
        FaultSpec(kind="kill", target="leader(orders/0)", at_s=0.03),
        FaultSpec(kind="slow", target="leader(orders/0)", at_s=0.03),
    )

    assert [row["nodes"] for row in world.faults()] == [[1], [1]]
    assert result.inconclusive == ()


async def test_what_was_planned_and_what_came_are_both_recorded(suffer: Any) -> None:
    began_ns = CLOCK.monotonic_ns()
    _, world = await suffer(
        FaultSpec(kind="pause", target="2", at_s=0.05, for_s=0.01),
        FaultSpec(kind="kill", target="1 + 3", when="acks >= 0", delay_s=0.02, for_s=0.01),
    )

    rows = world.faults()
    assert sorted((row["scheduled"], row["nodes"][0]) for row in rows) == [(0, 2), (1, 1), (1, 3)]
    assert all(began_ns <= row["planned_ns"] <= row["asked_ns"] <= row["begin_ns"] for row in rows)
    (pause,) = (row for row in rows if row["kind"] == "pause")
    assert pause["planned_ns"] - began_ns >= 50_000_000


async def test_times_are_counted_since_the_load_began_and_no_fault_comes_before_it_is_warm(tmp_path: Path) -> None:
    scenario = scenario_of(
        faults=[
            FaultSpec(kind="pause", target=str(node), at_s=at_s, for_s=0.01) for node, at_s in ((1, 30.0), (2, 30.2))
        ],
        duration_s=30.3,
        warm_up_s=30.1,
    )
    async with fault_world(tmp_path, scenario) as world:
        load_began_ns = world.context.load_began_ns = CLOCK.monotonic_ns() - 30 * 10**9
        await FaultSchedule(scenario=scenario).run(world.context)
        since_s = (CLOCK.monotonic_ns() - load_began_ns) / 1e9
        assert 30.3 <= since_s < 60, "the load lasts as long as it says: not from now on, and its warm-up included"

    assert [round((row["planned_ns"] - load_began_ns) / 1e9, 3) for row in world.faults()] == [30.1, 30.2]


async def test_a_node_is_started_when_the_last_fault_that_holds_it_down_is_over(suffer: Any) -> None:
    result, world = await suffer(
        FaultSpec(kind="kill", target="2", at_s=0.0),
        FaultSpec(kind="wipe", target="2", at_s=0.03, for_s=0.02),
    )

    assert (result.inconclusive, result.skipped) == ((), ())
    assert world.cluster.deeds == ["kill 2", "wipe 2"]
    assert await world.context.heal_everything() == []
    assert world.cluster.deeds == ["kill 2", "wipe 2", "start 2"]
    assert [row["healed_proof_text"] for row in world.faults()] == ["start 2 was seen"] * 2
    assert len({row["end_ns"] for row in world.faults()}) == 1


async def test_a_link_is_healed_when_the_last_fault_that_cuts_it_is_over(suffer: Any) -> None:
    _, world = await suffer(
        FaultSpec(kind="cut", options={"links": ["2>1", "3>1"]}, at_s=0.0),
        FaultSpec(kind="cut", options={"links": ["2>1"]}, at_s=0.03, for_s=0.02),
    )
    assert world.cluster.cut_links == {"n2>n1", "n3>n1"}
    assert await world.context.heal_everything() == []

    assert world.cluster.deeds == [
        "cut n2>n1 n3>n1 hang",
        "cut n2>n1 hang",
        "heal n2>n1 n3>n1 resume",
    ]
    assert world.cluster.cut_links == set()


async def test_a_fault_waits_for_a_role_that_nobody_has_at_the_moment(suffer: Any) -> None:
    result, world = await suffer(
        FaultSpec(kind="crash", at_s=0.0, for_s=0.08),
        FaultSpec(kind="pause", target="leader(orders/0)", at_s=0.04, for_s=0.01),
    )

    assert result.inconclusive == ()
    assert world.cluster.deeds[-2:] == ["pause 1", "resume 1"]


async def test_a_fault_that_finds_no_victim_until_the_end_is_skipped_and_costs_no_verdict(
    suffer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.controller.fault_schedule._GRACE_S", 0.0)
    result, world = await suffer(
        FaultSpec(kind="crash", target="2", at_s=0.0), FaultSpec(kind="crash", target="2", at_s=0.01)
    )

    assert result.inconclusive == ()
    assert result.skipped == (SkippedFault(kind="crash", target="2", trigger="at 0.01 s", why="no-victim"),)
    assert world.cluster.deeds == ["kill 2"]


async def test_a_pause_whose_victim_another_fault_ends_before_it_was_seen_is_skipped(suffer: Any) -> None:
    async def slowly(world: FaultWorld) -> None:
        world.cluster.slow_s = 0.05

    result, world = await suffer(
        FaultSpec(kind="pause", target="2", at_s=0.02),
        FaultSpec(kind="crash", target="2", at_s=0.03),
        obstacle="pause 2",
        during=slowly,
    )

    assert world.cluster.deeds[:2] == ["pause 2", "kill 2"]
    assert result.inconclusive == ()
    assert result.skipped == (SkippedFault(kind="pause", target="2", trigger="at 0.02 s", why="no-victim"),)


async def test_a_fault_that_cannot_be_done_is_reported_and_the_others_go_on(suffer: Any) -> None:
    result, world = await suffer(
        FaultSpec(kind="crash", target="1", at_s=0.0, for_s=0.01),
        FaultSpec(kind="pause", target="2", at_s=0.03, for_s=0.01),
        obstacle="kill 1",
    )

    assert result.inconclusive == ("fault kill of broker 1: kill 1 did not work",)
    assert world.cluster.deeds == ["kill 1", "pause 2", "resume 2"]
    assert world.faults()[0]["begin_ns"] is None


async def test_links_that_two_faults_cut_are_healed_though_both_end_at_once(suffer: Any) -> None:
    both = [FaultSpec(kind="isolate", target=node, at_s=0.0, for_s=0.05) for node in ("1", "2")]
    _, world = await suffer(*both)

    assert all(row["end_ns"] for row in world.faults())
    assert world.cluster.cut_links == set()


async def test_a_fault_that_could_not_be_begun_holds_up_no_other(suffer: Any) -> None:
    result, world = await suffer(
        FaultSpec(kind="kill", target="1", at_s=0.0),
        FaultSpec(kind="pause", target="1", at_s=0.03, for_s=0.01),
        obstacle="kill 1",
    )

    assert result.inconclusive == ("fault kill of broker 1: kill 1 did not work",)
    assert result.skipped == ()
    assert world.cluster.deeds == ["kill 1", "pause 1", "resume 1"]


async def test_what_ends_by_itself_while_the_run_heals_is_not_healed_again(suffer: Any) -> None:
    _, world = await suffer(FaultSpec(kind="pause", target="2", at_s=0.0, for_s=0.01))
    context, healed = world.context, []

    async def heal_older() -> None:
        healed.append("older")

    async def heal_newer() -> None:
        healed.append("newer")
        context.healed(older)  # its own time was over meanwhile

    older = context.heal_later("older", heal_older)
    context.heal_later("newer", heal_newer)
    assert await context.heal_everything() == []
    assert healed == ["newer"]


class Counting(FaultyCluster):
    """Keeps a link cut until every cut of it is over, as the clusters of this machine do."""

    def __init__(self) -> None:
        super().__init__()
        self._cuts = LinkHolders[str]()

    def faults_on(self, link: Link) -> int:
        return self._cuts.count(link)

    async def cut(self, links: Sequence[Link], *, mode: Literal["hang", "reset"] = "hang") -> Evidence:
        self._cuts.hold(links, mode)
        return await super().cut(links, mode=mode)

    async def heal(self, links: Sequence[Link], *, mode: Literal["resume", "reset"] = "resume") -> Evidence:
        after = self._cuts.release(links, "hang" if mode == "resume" else "reset")
        return await super().heal([link for link in links if after[link] is None], mode=mode)


@pytest.mark.parametrize("first_over", [0, 1])
@pytest.mark.parametrize("modes", [("hang", "hang"), ("hang", "reset"), ("reset", "hang")], ids=str)
async def test_where_the_cluster_counts_a_link_passes_again_when_both_cuts_are_over(
    suffer: Any, monkeypatch: pytest.MonkeyPatch, modes: tuple[str, str], first_over: int
) -> None:
    monkeypatch.setattr("tests.harness.controller.fault_world.FaultyCluster", Counting)
    both = [
        FaultSpec(kind="cut", options={"links": ["2>1"], "mode": mode}, at_s=0.01 * n) for n, mode in enumerate(modes)
    ]
    both[first_over] = replace(both[first_over], for_s=0.04)
    _, world = await suffer(*both)

    assert world.cluster.cut_links == {"n2>n1"}, "the other one is still in force"
    assert await world.context.heal_everything() == []
    assert world.cluster.cut_links == set()
