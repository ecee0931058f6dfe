"""Ordered steps: each act is proved, a wait in vain ends the story, a failed expectation does not."""

import asyncio
import time
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from harness.controller import probes
from harness.controller.context import PlanResult
from harness.controller.steps import OrderedSteps
from harness.ports.cluster import Evidence, NodeId
from harness.scenario.steps import read_step
from tests.harness.controller.fault_world import (
    FaultWorld,
    FaultyCluster,
    Play,
    fault_world,
    player,
    scenario_of,
    steps_of,
)


@pytest.fixture
async def play(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Play]:
    monkeypatch.setattr(probes, "QUIET_S", 0.03)
    async with player(tmp_path) as play:
        yield play


# -- the order ----------------------------------------


async def test_steps_go_one_after_the_other_and_each_tells_what_was_seen(play: Play) -> None:
    result, world = await play(
        {"act": {"kill": 1}},
        {"wait": {"leader": 2, "topic": "orders"}},
        {"expect": {"isr": [3, 2], "topic": "orders"}},
        {"act": {"start": 1}},
        {"wait": {"recovered": True}},
    )

    assert result == PlanResult()
    rows = world.rows("steps")
    assert [row["outcome"] for row in rows] == ["ok"] * 5
    assert [row["seen_text"] for row in rows[:4]] == [
        "kill in force on broker 1",
        "leader 2",
        "ISR [2, 3]",
        "start 1 was seen",
    ]
    assert all(earlier["end_ns"] <= later["begin_ns"] for earlier, later in pairwise(rows))


async def test_a_wait_that_runs_out_is_inconclusive_and_ends_the_story(play: Play) -> None:
    result, world = await play(
        {"act": {"kill": 3}},
        {"wait": {"leader": 2, "topic": "orders"}, "within": "50 ms"},
        {"act": {"kill": 1}},
    )

    assert result.inconclusive == (
        "step 2 (line 11): wait leader 2 (topic orders): not within 0.05 s; last seen: leader 1",
    )
    assert result.ended_at == 1
    assert world.outcomes() == ["ok", "timeout"]
    assert world.cluster.deeds == ["kill 3"]


async def test_a_failed_expectation_is_recorded_and_the_story_goes_on(play: Play) -> None:
    result, world = await play(
        {"expect": {"leader": 3, "topic": "orders"}, "within": "20 ms"},
        {"act": {"kill": 1}},
    )

    assert result.inconclusive == ()
    assert world.outcomes() == ["failed", "ok"]
    assert world.rows("steps")[0]["seen_text"] == "leader 1"


async def test_an_act_that_cannot_be_done_in_time_or_at_all_is_inconclusive(play: Play) -> None:
    def slow(cluster: Any) -> None:
        cluster.slow_s = 1.0

    result, world = await play({"act": {"kill": 1}, "within": "30 ms"}, {"act": {"kill": 2}}, before=slow)
    assert result.inconclusive == ("step 1 (line 10): kill 1: not done within 0.03 s",)
    world.cluster.slow_s = 0.0
    assert await world.context.heal_everything() == []

    for body, message in (
        ({"resume": 1}, "node 1 has nothing in force that resume could undo"),
        ({"kill": "leader(nothing/0)"}, "nobody has that role now"),
        ({"heal": ["2>1"]}, "heal 2>1: nothing of that name is in force that heal could undo"),
    ):
        result, _ = await play({"act": body}, {"act": {"kill": 2}})
        assert message in result.inconclusive[0]
        assert len(result.inconclusive) == 1


# -- processes ----------------------------------------


async def test_several_are_killed_at_once_each_as_a_fault_of_its_own(play: Play) -> None:
    def slow(cluster: Any) -> None:
        cluster.slow_s = 0.03

    _, world = await play({"act": {"kill": [1, 2]}}, before=slow)

    rows = world.faults()
    assert [(row["kind"], row["nodes"], row["step"]) for row in rows] == [("kill", [1], 0), ("kill", [2], 0)]
    assert max(row["asked_ns"] for row in rows) < min(row["begin_ns"] for row in rows)
    assert sorted(world.snapshots()) == [("kill", 1), ("kill", 2)]


async def test_one_of_several_that_cannot_be_killed_leaves_no_other_half_done(play: Play) -> None:
    def slow(cluster: Any) -> None:
        cluster.slow_s = 0.02
        cluster.running.discard(1)

    result, world = await play({"act": {"kill": [1, 2]}}, before=slow)

    assert "broker 1 is not running" in result.inconclusive[0]
    assert [row["begin_ns"] is not None for row in world.faults()] == [False, True]


async def test_a_start_ends_the_kill_and_the_lost_disk_with_one_proof(play: Play) -> None:
    _, world = await play({"act": {"kill": 1}}, {"act": {"wipe": 1}}, {"act": {"start": 1}})

    assert [(row["kind"], row["healed_proof_text"]) for row in world.faults()] == [
        ("kill", "start 1 was seen"),
        ("wipe", "start 1 was seen"),
    ]
    assert all(row["end_asked_ns"] <= row["end_ns"] for row in world.faults())
    assert await world.context.heal_everything() == []
    assert world.cluster.deeds == ["kill 1", "wipe 1", "start 1"]


async def test_a_lost_disk_left_to_the_run_is_over_only_when_the_broker_runs(play: Play) -> None:
    _, world = await play({"act": {"kill": 1}}, {"act": {"wipe": 1}})

    await world.context.heal_everything()

    assert [row["healed_proof_text"] for row in world.faults()] == ["start 1 was seen"] * 2


async def test_a_restart_starts_whom_it_killed_though_the_role_has_moved(play: Play) -> None:
    _, world = await play({"act": {"restart": "leader(orders/0)", "down": "30 ms"}})

    assert world.cluster.deeds == ["kill 1", "start 1"]
    assert world.faults()[0]["end_ns"] is not None


async def test_a_clean_stop_and_a_pause_are_faults_with_their_own_kinds(play: Play) -> None:
    _, world = await play({"act": {"stop": 3}}, {"act": {"pause": 1}}, {"act": {"resume": 1}}, {"act": {"start": 3}})

    assert world.cluster.deeds == ["stop 3", "pause 1", "resume 1", "start 3"]
    assert [row["kind"] for row in world.faults()] == ["stop", "pause"]
    assert all(row["end_ns"] for row in world.faults())


# -- links ----------------------------------------


async def test_a_cut_for_a_while_heals_by_itself_while_the_story_goes_on(play: Play) -> None:
    result, world = await play({"act": {"cut": ["2>1"], "for": "40 ms"}}, {"act": {"kill": 3}})

    assert result == PlanResult()
    assert world.cluster.deeds == ["cut n2>n1 hang", "kill 3", "heal n2>n1 resume"]
    cut = world.faults()[0]
    assert cut["links"] == [{"source": 2, "client": None, "target": 1}]
    assert (cut["nodes"], cut["healed_proof_text"]) == ([1, 2], "heal n2>n1 resume was seen")


async def test_what_a_step_healed_is_not_waited_for_again(play: Play) -> None:
    began = time.monotonic()
    _, world = await play({"act": {"pause": 1, "for": "60 s"}}, {"act": {"resume": 1}})

    assert world.cluster.deeds == ["pause 1", "resume 1"]
    assert time.monotonic() - began < 60


async def test_a_heal_after_a_while_that_fails_makes_the_run_inconclusive(play: Play) -> None:
    def broken(cluster: Any) -> None:
        cluster.obstacle = "resume 1"

    result, _ = await play({"act": {"pause": 1, "for": "10 ms"}}, before=broken)

    assert result.inconclusive == ("resume 1 did not work",)


async def test_heal_all_heals_cuts_and_delays_and_leaves_processes_alone(play: Play) -> None:
    _, world = await play(
        {"act": {"kill": 3}},
        {"act": {"cut": ["1>2", "clients>2"], "mode": "reset"}},
        {"act": {"slow": ["2>1"], "delay": "4 s"}},
        {"act": {"heal": "all"}},
    )

    assert world.cluster.deeds == [
        "kill 3",
        "cut n1>n2 c1>n2 reset",
        "slow n2>n1 4000",
        "heal n1>n2 c1>n2 reset",
        "slow n2>n1 0",
    ]
    assert [row["end_ns"] is None for row in world.faults()] == [True, False, False]
    assert [[(end["source"], end["client"], end["target"]) for end in row["links"]] for row in world.faults()] == [
        [],
        [(1, None, 2), (None, 1, 2)],
        [(2, None, 1)],
    ]


async def test_heal_finds_the_cut_by_the_names_it_was_made_with_in_any_order(play: Play) -> None:
    result, world = await play(
        {"act": {"cut": ["3>1"]}},
        {"act": {"cut": ["clients>2", "1>100"]}},
        {"act": {"heal": ["1>100", "clients>2"]}},
    )

    assert result == PlanResult()
    assert world.cluster.cut_links == {"n3>n1"}


async def test_a_broker_is_isolated_from_what_is_named(play: Play) -> None:
    for origin, expected in (
        ("coordination", {"n1>n100"}),
        ("clients", {"c1>n1"}),
        ("peers", {"n1>n2", "n2>n1", "n1>n3", "n3>n1"}),
        ("cluster", {"n1>n2", "n2>n1", "n1>n3", "n3>n1", "n1>n100"}),
    ):
        _, world = await play({"act": {"isolate": "leader(orders/0)", "from": origin}})
        assert world.cluster.cut_links == expected
        await world.context.heal_everything()
        assert world.cluster.cut_links == set()


# -- probes and administration ----------------------------------------


async def test_a_story_cannot_go_on_without_the_records_it_produces(play: Play) -> None:
    def refuse(cluster: Any) -> None:
        cluster.answer = ("fail", 19)

    result, _ = await play({"act": {"produce": "r0..r2"}}, {"act": {"kill": 1}}, before=refuse)
    assert "3 of 3 were not acknowledged (error 19)" in result.inconclusive[0]

    result, world = await play({"act": {"produce": "r0..r2"}})
    assert result == PlanResult()
    assert world.rows("steps")[0]["seen_text"] == "3 acknowledged, offsets 0 to 2"


@pytest.mark.parametrize(
    ("answer", "expected", "outcome"),
    [
        (("fail", 19), 19, "ok"),
        (("fail", 19), 0, "failed"),
        (("ok", 0), 0, "ok"),
        (("ok", 0), 19, "failed"),
        (("info", None), 0, "failed"),
        (("info", None), 19, "failed"),
        (("info", 20), 20, "ok"),
    ],
)
async def test_a_produce_is_expected_to_be_answered_with_a_code(
    play: Play, answer: tuple[str, int | None], expected: int, outcome: str
) -> None:
    def answers(cluster: Any) -> None:
        cluster.answer = answer

    result, world = await play({"expect": {"produce": "x, y", "error": expected}}, before=answers)

    assert result == PlanResult()
    assert world.outcomes() == [outcome]


async def test_a_refused_record_must_not_have_grown_the_log_that_is_watched(play: Play) -> None:
    _, world = await play({"expect": {"produce": "x", "log_end_unchanged_on": 1}})

    assert world.outcomes() == ["failed"]
    assert world.rows("steps")[0]["seen_text"] == "offset 0; log end of broker 1 0 before, 1 after"


async def test_exactly_the_values_in_their_order_are_expected_to_be_read(play: Play) -> None:
    steps = [
        {"expect": {"read": "r0..r2"}, "within": "10 ms"},
        {"expect": {"read": "r0, r2, r1"}, "within": "10 ms"},
        {"expect": {"read": "r0, r1"}, "within": "10 ms"},
    ]
    _, world = await play(*steps, before=lambda cluster: cluster.set_log("r0", "r1", "r2"))

    assert world.outcomes() == ["ok", "failed", "failed"]
    assert world.rows("steps")[2]["seen_text"] == "read 3 values (r0, r1, r2) instead of 2 values (r0, r1)"


async def test_an_expected_read_is_asked_again_until_it_holds(play: Play) -> None:
    async def later(world: FaultWorld) -> None:
        while len(list(world.folder.glob("probe-*.jsonl"))) < 2:
            await asyncio.sleep(0.01)
        world.cluster.set_log("r0")

    _, world = await play({"expect": {"read": "r0"}}, during=later)

    assert world.outcomes() == ["ok"]


async def test_a_leader_that_answers_no_end_offset_is_read_until_it_is_quiet(play: Play) -> None:
    def frozen(cluster: Any) -> None:
        cluster.set_log("r0", "r1")
        cluster.ends_known = False

    began = time.monotonic()
    _, world = await play({"expect": {"read": "r0, r1"}}, {"expect": {"read": "r0"}, "within": "10 ms"}, before=frozen)

    assert world.outcomes() == ["ok", "failed"]
    assert "OffsetNotAvailableError 78" in world.rows("steps")[1]["seen_text"]
    assert time.monotonic() - began < 3


async def test_nobody_to_ask_does_not_count_as_an_empty_log(play: Play) -> None:
    def dead(cluster: Any) -> None:
        cluster.running.clear()

    _, world = await play({"expect": {"read": ""}, "within": "10 ms"}, before=dead)
    assert world.outcomes() == ["failed"]

    _, world = await play({"expect": {"read": ""}})
    assert world.outcomes() == ["ok"]


async def test_topics_are_configured_and_elections_asked_for(play: Play) -> None:
    def declined(cluster: Any) -> None:
        cluster.election_error = 84

    _, world = await play(
        {"act": {"configure": {"unclean.leader.election.enable": True, "min.insync.replicas": 2}}},
        {"act": {"elect": "preferred"}},
    )
    assert world.cluster.settings == {"unclean.leader.election.enable": "true", "min.insync.replicas": "2"}
    assert world.cluster.deeds[1:] == ["elect orders-0 preferred"]

    result, world = await play(
        {"expect": {"elect": "unclean", "error": 84}}, {"act": {"elect": "unclean"}}, before=declined
    )
    assert world.outcomes() == ["ok", "timeout"]
    assert "answered with error 84" in result.inconclusive[0]


# -- interruption ----------------------------------------


async def test_an_interrupted_story_leaves_promises_that_the_run_keeps(tmp_path: Path) -> None:
    steps = steps_of(
        {"act": {"kill": 3}},
        {"act": {"cut": ["2>1"], "for": "60 s"}},
        {"act": {"pause": 1}},
        {"wait": {"elapsed": "60 s"}, "within": "90 s"},
    )
    scenario = scenario_of(steps=steps)
    async with fault_world(tmp_path, scenario) as world:
        plan = OrderedSteps(scenario=scenario)
        playing = asyncio.create_task(plan.run(world.context))
        while len(world.outcomes()) < 4:
            await asyncio.sleep(0.005)
        playing.cancel()
        await asyncio.gather(playing, return_exceptions=True)
        assert playing.cancelled()

        assert await world.context.heal_everything() == []

        assert world.cluster.deeds[3:] == ["resume 1", "heal n2>n1 resume", "start 3"]
        assert all(row["healed_proof_text"] and row["end_ns"] for row in world.faults())
        assert world.outcomes() == ["ok", "ok", "ok", "skipped"]
        assert world.cluster.is_running(NodeId(3))
        assert [task for task in asyncio.all_tasks() if task.get_name() not in ("observer",)] == [
            asyncio.current_task()
        ]


# -- what is refused when the file is read ----------------------------------------


@pytest.mark.parametrize(
    "table", [{"act": {"heal": 2}}, {"act": {"heal": [2]}}, {"expect": {"read": "r0", "from": "c"}}]
)
def test_links_that_name_nothing_are_refused_when_the_file_is_read(table: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="link"):
        read_step(table, line=1)


async def test_an_act_by_somebody_elses_means_has_the_time_that_these_may_take(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FaultyCluster, "longest_act_s", 30.0, raising=False)
    monkeypatch.setattr(FaultyCluster, "kill", _kill_slowly)
    result, world = await play({"act": {"kill": 1}, "within": "10 ms"})
    assert result == PlanResult()
    assert world.outcomes() == ["ok"]


async def _kill_slowly(cluster: FaultyCluster, node: NodeId) -> Evidence:
    await asyncio.sleep(0.1)
    return await cluster.shut_down(node)
