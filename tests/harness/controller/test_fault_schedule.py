"""A plan of faults: each finds its moment and its victims, ends in its time, and none spoils the others."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from faults.processes.pause import Pause
from harness.controller.context import SkippedFault
from harness.host.randomness import stream
from harness.ports.cluster import Node, NodeId
from harness.scenario.model import FaultSpec
from harness.scenario.written import explicit
from tests.harness.controller.fault_world import FaultWorld, fault_world, scenario_of
from tests.harness.controller.suffering import schedule_of, sufferer


@pytest.fixture
async def suffer(tmp_path: Path) -> AsyncIterator[Any]:
    async with sufferer(tmp_path) as suffer:
        yield suffer


def moments(rows: Sequence[dict[str, Any]]) -> list[tuple[float, float]]:
    """Beginning and end of each fault, in seconds after the first was asked."""
    first = min(row["asked_ns"] for row in rows)
    return [((row["begin_ns"] - first) / 1e9, (row["end_ns"] - first) / 1e9) for row in rows]


async def test_a_timed_fault_begins_and_ends_in_its_time_with_both_proofs(suffer: Any) -> None:
    result, world = await suffer(FaultSpec(kind="crash", target="leader(orders/0)", at_s=0.02, for_s=0.05))

    assert result.inconclusive == ()
    (row,) = world.faults()
    assert (row["kind"], row["label_text"], row["nodes"], row["trigger_text"]) == (
        "kill",
        "kill of broker 1",
        [1],
        "at 0.02 s",
    )
    assert (row["proof_text"], row["healed_proof_text"]) == ("kill 1 was seen", "start 1 was seen")
    ((begin, end),) = moments([row])
    assert end - begin >= 0.045
    assert world.snapshots() == [("kill", 1)]


async def test_a_fault_without_an_end_lasts_until_the_run_heals_it(suffer: Any) -> None:
    result, world = await suffer(FaultSpec(kind="cut-coordination", target="controller", at_s=0.0))

    assert result.inconclusive == ()
    assert world.cluster.cut_links == {"n1>n100"}
    assert await world.context.heal_everything() == []
    assert world.cluster.cut_links == set()
    (row,) = world.faults()
    assert row["links"] == [{"source": 1, "client": None, "target": 100}]
    assert row["end_ns"] is not None


async def test_a_fault_that_has_begun_ends_in_its_own_time_though_the_load_is_over(suffer: Any) -> None:
    _, world = await suffer(FaultSpec(kind="pause", target="2", at_s=0.02, for_s=0.1), duration_s=0.05)

    assert world.cluster.deeds == ["pause 2", "resume 2"]


async def test_no_target_means_every_broker_at_once(suffer: Any) -> None:
    _, world = await suffer(FaultSpec(kind="crash", at_s=0.0, for_s=0.02))

    assert [row["nodes"] for row in world.faults()] == [[1], [2], [3]], "each victim's fault has its own proof"
    assert world.cluster.deeds == ["kill 1", "kill 2", "kill 3", "start 1", "start 2", "start 3"]


async def test_what_was_drawn_is_written_out_and_the_same_for_the_same_seed(suffer: Any) -> None:
    drawn = FaultSpec(kind="pause", target="random(1)", every_s=0.04, for_s=0.01)

    planned = scenario_of(faults=[drawn], duration_s=0.3, warm_up_s=0.0)
    faults = explicit(planned, chance=stream(1, "schedule")).faults

    _, world = await suffer(*faults, duration_s=0.3)
    _, other = await suffer(*faults, duration_s=0.3)

    assert world.cluster.deeds == other.cluster.deeds
    assert len(world.faults()) == len(faults) > 0


# -- triggers ----------------------------------------


async def test_a_fault_waits_for_acknowledgements_and_its_delay(suffer: Any) -> None:
    async def load(world: FaultWorld) -> None:
        await asyncio.sleep(0.02)
        world.context.acks.add(ok=499)
        await asyncio.sleep(0.02)
        assert world.cluster.deeds == []
        world.context.acks.add(ok=1)

    fault = FaultSpec(kind="pause", target="1", when="acks >= 500", delay_s=0.01, for_s=0.01)
    result, world = await suffer(fault, during=load, duration_s=2.0)

    assert result.inconclusive == ()
    assert world.faults()[0]["trigger_text"] == "acks >= 500"


async def test_a_second_fault_hits_the_new_leader_as_soon_as_there_is_one(suffer: Any) -> None:
    result, world = await suffer(
        FaultSpec(kind="crash", target="leader(orders/0)", at_s=0.03),
        FaultSpec(kind="crash", target="leader(orders/0)", when="new_leader(orders/0)"),
        duration_s=1.0,
    )

    assert result.inconclusive == ()
    assert world.cluster.deeds == ["kill 1", "kill 2"]


async def test_a_fault_hits_when_the_isr_has_shrunk(suffer: Any) -> None:
    result, world = await suffer(
        FaultSpec(kind="crash", target="followers(orders/0)", at_s=0.03),
        FaultSpec(kind="pause", target="1", when="isr(orders/0) <= 1"),
        duration_s=1.0,
    )

    assert result.inconclusive == ()
    assert world.cluster.deeds == ["kill 2", "kill 3", "pause 1"]


@pytest.mark.parametrize("when", ["acks >= 500", "new_leader(orders/0)", "isr(orders/0) <= 2"])
async def test_a_fault_whose_trigger_never_comes_is_skipped_and_costs_no_verdict(suffer: Any, when: str) -> None:
    result, world = await suffer(FaultSpec(kind="crash", target="1", when=when), duration_s=0.05)

    assert result.inconclusive == ()
    assert result.skipped == (SkippedFault(kind="crash", target="1", trigger=when, why="no-trigger"),)
    assert not world.faults()


async def test_one_trigger_after_the_other_is_waited_for(suffer: Any) -> None:
    async def load(world: FaultWorld) -> None:
        world.context.acks.add(ok=10)
        await world.context.observer.wait_until(lambda: world.context.observer.leader("orders", 0) == 2, timeout_s=2)
        await asyncio.sleep(0.03)
        assert "pause 2" not in world.cluster.deeds
        world.context.acks.add(ok=5)

    result, world = await suffer(
        FaultSpec(kind="crash", target="leader(orders/0)", at_s=0.02),
        FaultSpec(
            kind="pause", target="leader(orders/0)", when="elapsed >= 10 ms then new_leader(orders/0) then acks >= +5"
        ),
        during=load,
        duration_s=2.0,
    )

    assert (result.inconclusive, result.skipped) == ((), ())
    assert world.cluster.deeds == ["kill 1", "pause 2"]


async def test_a_trigger_begins_a_fault_as_often_as_it_comes_and_the_fault_may(suffer: Any) -> None:
    async def load(world: FaultWorld) -> None:
        for _ in range(20):
            world.context.acks.add(ok=10)
            await asyncio.sleep(0.02)

    fault = FaultSpec(kind="pause", target="1", when="acks >= +10", times=3, for_s=0.01)
    result, world = await suffer(fault, during=load, duration_s=0.6)

    assert (result.inconclusive, result.skipped) == ((), ())
    assert world.cluster.deeds == ["pause 1", "resume 1"] * 3


async def test_a_fault_that_began_once_and_not_as_often_as_it_might_is_not_skipped(suffer: Any) -> None:
    async def load(world: FaultWorld) -> None:
        world.context.acks.add(ok=10)

    fault = FaultSpec(kind="pause", target="1", when="acks >= 10 then acks >= +10", times=2, for_s=0.01)
    once = FaultSpec(kind="pause", target="2", when="acks >= 10", times=1, for_s=0.01)
    result, world = await suffer(once, fault, during=load, duration_s=0.2)

    assert [skipped.target for skipped in result.skipped] == ["1"]
    assert world.cluster.deeds == ["pause 2", "resume 2"]


async def test_a_fault_begins_when_another_has_been_started_again(suffer: Any) -> None:
    result, world = await suffer(
        FaultSpec(kind="crash", target="3", at_s=0.01, for_s=0.03),
        FaultSpec(kind="pause", target="1", when="restarted", for_s=0.01),
        duration_s=1.0,
    )

    assert result.inconclusive == ()
    assert world.cluster.deeds == ["kill 3", "start 3", "pause 1", "resume 1"]


@pytest.mark.parametrize(
    ("isr", "when"),
    [((1,), "isr_shrinks(orders/0)"), ((1, 2, 3, 4), "isr_grows(orders/0)"), ((1, 2, 3, 4), "isr(orders/0) >= 4")],
)
async def test_a_fault_begins_when_the_isr_changes(suffer: Any, isr: tuple[int, ...], when: str) -> None:
    async def change(world: FaultWorld) -> None:
        await world.context.observer.wait_until(lambda: bool(world.context.observer.isr("orders", 0)), timeout_s=2)
        await world.context.observer.next_round()
        await world.context.observer.next_round()
        world.cluster.isr = isr

    result, world = await suffer(
        FaultSpec(kind="pause", target="1", when=when, for_s=0.01), during=change, duration_s=1.0
    )

    assert result.skipped == ()
    assert world.cluster.deeds == ["pause 1", "resume 1"]


@pytest.mark.parametrize("when", ["no_leader(orders/0)", "epoch_change(orders/0)"])
async def test_a_fault_begins_when_nobody_leads_any_more(suffer: Any, when: str) -> None:
    async def depose(world: FaultWorld) -> None:
        await world.context.observer.wait_until(lambda: world.context.observer.leader("orders", 0) > 0, timeout_s=2)
        await world.context.observer.next_round()
        await world.context.observer.next_round()
        world.cluster.nobody_leads = True

    result, world = await suffer(
        FaultSpec(kind="pause", target="1", when=when, for_s=0.01), during=depose, duration_s=1.0
    )

    assert result.skipped == ()
    assert world.cluster.deeds == ["pause 1", "resume 1"]


@pytest.mark.parametrize("ends_now_at", [6, 10, 12])
async def test_a_fault_begins_when_a_replicas_log_ends_sooner_than_before(suffer: Any, ends_now_at: int) -> None:
    async def cut(world: FaultWorld) -> None:
        world.cluster.ends = {2: 10}
        await world.context.observer.wait_until(lambda: bool(world.context.observer.isr("orders", 0)), timeout_s=2)
        for _ in range(3):
            await world.context.observer.next_round()
        world.cluster.ends = {2: ends_now_at}

    result, world = await suffer(
        FaultSpec(kind="pause", target="1", when="truncated(orders/0)", for_s=0.01), during=cut, duration_s=0.5
    )

    struck = ["pause 1", "resume 1"] if ends_now_at < 10 else []
    assert world.cluster.deeds == struck
    assert [skipped.why for skipped in result.skipped] == ([] if struck else ["no-trigger"])


@pytest.mark.parametrize("target", ["isr(orders/0)", "all"])
async def test_whoever_has_a_role_and_no_link_to_be_cut_is_skipped_and_one_who_is_named_is_not(
    suffer: Any, target: str
) -> None:
    """Between the members of an ISR and the others there is no link where all brokers are members."""
    result, world = await suffer(FaultSpec(kind="isolate", target=target, at_s=0.05, for_s=0.01))

    named = target == "all"
    assert world.cluster.deeds == []
    assert [skipped.why for skipped in result.skipped] == ([] if named else ["no-victim"])
    assert any("there is no such link" in missed for missed in result.inconclusive) == named


async def test_a_power_loss_of_more_than_a_replica_holds_is_skipped_and_kills_nobody(suffer: Any) -> None:
    fault = FaultSpec(kind="power-loss", target="2", at_s=0.0, for_s=0.01, options={"records": 1000})
    result, world = await suffer(fault)

    assert result.inconclusive == ()
    assert [(skipped.kind, skipped.why) for skipped in result.skipped] == [("power-loss", "no-victim")]
    assert not any(deed.startswith(("kill", "lose")) for deed in world.cluster.deeds)


async def test_a_fault_waits_for_the_end_of_one_that_has_to_be_alone_and_then_looks_for_its_victim(
    suffer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Pause, "alone", property(lambda _: True))
    result, world = await suffer(
        FaultSpec(kind="pause", target="leader(orders/0)", at_s=0.0, for_s=0.06),
        FaultSpec(kind="crash", target="leader(orders/0)", at_s=0.02, for_s=0.02),
        duration_s=0.3,
    )

    assert (result.skipped, result.inconclusive) == ((), ())
    assert world.cluster.deeds == ["pause 1", "resume 1", "kill 1", "start 1"]


async def test_a_fault_is_skipped_if_one_that_has_to_be_alone_does_not_end(
    suffer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Pause, "alone", property(lambda _: True))
    result, world = await suffer(
        FaultSpec(kind="pause", target="2", at_s=0.0),
        FaultSpec(kind="crash", target="3", at_s=0.02, for_s=0.02),
    )

    assert [(skipped.kind, skipped.why) for skipped in result.skipped] == [("crash", "not-alone")]
    assert world.cluster.deeds == ["pause 2"]


# -- kinds with a way of their own ----------------------------------------


async def test_a_rolling_restart_is_over_when_the_last_is_back(suffer: Any) -> None:
    result, world = await suffer(FaultSpec(kind="rolling-restart", target="2 + 3", at_s=0.0))

    assert result.inconclusive == ()
    assert world.cluster.deeds[:4] == ["stop 2", "start 2", "stop 3", "start 3"]
    (row,) = world.faults()
    assert row["begin_ns"] < row["end_ns"]
    assert row["proof_text"] == "stop 2 was seen; start 2 was seen; stop 3 was seen; start 3 was seen"


async def test_a_lost_disk_is_read_while_it_is_there(suffer: Any) -> None:
    _, world = await suffer(FaultSpec(kind="disk-loss", target="3", at_s=0.0, for_s=0.02))

    assert world.snapshots() == [("wipe", 3)]
    assert world.cluster.deeds == ["kill 3", "wipe 3", "start 3"]
    assert world.faults()[0]["kind"] == "wipe"


async def test_a_slow_link_tells_its_links_and_options(suffer: Any) -> None:
    fault = FaultSpec(kind="slow-link", target="3", at_s=0.0, for_s=0.02, options={"links": ["3>1"], "delay": "4 s"})
    _, world = await suffer(fault)

    (row,) = world.faults()
    assert (row["kind"], row["links"]) == ("slow", [{"source": 3, "client": None, "target": 1}])
    assert row["label_text"] == "slow of 3>1 (delay 4 s)"
    assert world.cluster.deeds == ["slow n3>n1 4000", "slow n3>n1 0"]


# -- interruption ----------------------------------------


async def test_an_interrupted_plan_leaves_promises_that_the_run_keeps(tmp_path: Path) -> None:
    scenario = scenario_of(
        faults=[
            FaultSpec(kind="crash", target="3", at_s=0.0, for_s=60.0),
            FaultSpec(kind="isolate", target="1", at_s=0.0),
            FaultSpec(kind="pause", target="2", at_s=50.0),
        ],
        duration_s=60.0,
    )
    async with fault_world(tmp_path, scenario) as world:
        playing = asyncio.create_task(schedule_of(scenario).run(world.context))
        while len([row for row in world.faults() if row["begin_ns"]]) < 2:
            await asyncio.sleep(0.005)
        playing.cancel()
        await asyncio.gather(playing, return_exceptions=True)
        assert playing.cancelled()

        assert await world.context.heal_everything() == []

        assert all(row["healed_proof_text"] and row["end_asked_ns"] <= row["end_ns"] for row in world.faults())
        assert world.cluster.cut_links == set()
        assert world.cluster.is_running(NodeId(3))
        assert world.context.recorder.faults_in_force() == []


async def test_a_controller_that_is_no_broker_is_found_by_its_role_and_named_as_the_cluster_names_it(
    suffer: Any,
) -> None:
    async def set_apart(world: FaultWorld) -> None:
        world.cluster.nodes = [Node(node=NodeId(0), role="controller", name="controller 0"), *world.cluster.nodes]
        world.cluster.running.add(0)  # the lowest running node is controller there

    result, world = await suffer(FaultSpec(kind="crash", target="controller", at_s=0.05, for_s=0.02), during=set_apart)

    assert result.inconclusive == ()
    (row,) = world.faults()
    assert (row["label_text"], row["nodes"]) == ("kill of controller 0", [0])


async def test_a_fault_lasts_from_its_effect_on_whatever_its_proof_takes(suffer: Any) -> None:
    async def slow_to_prove(world: FaultWorld) -> None:
        world.cluster.proof_s = 80.0

    pause = FaultSpec(kind="pause", target="1", at_s=0.02, for_s=100.0)
    _, world = await suffer(pause, duration_s=100.0, during=slow_to_prove)

    (row,) = world.faults()
    assert 100 <= (row["end_asked_ns"] - row["begin_ns"]) / 1e9 < 160
