"""A fault is the same whoever asks for it: a schedule and a step do the same, prove the same and undo the same."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from faults.catalogue import by_name
from harness.controller.context import PlanResult
from harness.controller.fault_schedule import FaultSchedule
from harness.errors import UsageError
from harness.scenario.model import FaultSpec
from tests.harness.controller.fault_world import (
    FaultWorld,
    FaultyCluster,
    Play,
    fault_world,
    player,
    scenario_of,
    steps_of,
)

# A fault as a schedule asks for it -> the same as a step does, and the step that ends it.
SAME: list[tuple[FaultSpec, dict[str, Any], dict[str, Any] | None]] = [
    (FaultSpec(kind="kill", target="1 + 3"), {"kill": [1, 3]}, {"start": [1, 3]}),
    (FaultSpec(kind="stop", target="leader(orders/0)"), {"stop": 1}, {"start": 1}),
    (FaultSpec(kind="restart", target="2", options={"down": "10 ms"}), {"restart": 2, "down": "10 ms"}, None),
    (FaultSpec(kind="rolling-restart", target="2 + 3"), {"rolling-restart": [2, 3]}, None),
    (FaultSpec(kind="pause", target="2"), {"pause": 2}, {"resume": 2}),
    (
        FaultSpec(kind="isolate", target="1", options={"from": "coordination"}),
        {"isolate": 1, "from": "coordination"},
        {"heal": "isolate"},
    ),
    (FaultSpec(kind="halves", target="1"), {"halves": 1}, {"heal": "all"}),
    (FaultSpec(kind="majority-ring"), {"majority-ring": "all"}, {"heal": ["1>3", "3>1"]}),
    (FaultSpec(kind="bridge", target="2"), {"bridge": 2}, {"heal": "bridge"}),
    (
        FaultSpec(kind="cut", options={"links": ["2>1", "clients>3"], "mode": "reset"}),
        {"cut": ["2>1", "clients>3"], "mode": "reset"},
        {"heal": ["clients>3", "2>1"]},
    ),
    (FaultSpec(kind="hold-fetches", target="1"), {"hold-fetches": 1}, {"heal": "all"}),
    (
        FaultSpec(kind="hold-requests", target="1", options={"request": "Fetch", "held": "answers"}),
        {"hold-requests": 1, "request": "Fetch", "held": "answers"},
        {"heal": "all"},
    ),
    (
        FaultSpec(kind="lose-requests", target="1", options={"request": "Fetch", "nth": 2}),
        {"lose-requests": 1, "request": "Fetch", "nth": 2},
        {"heal": "all"},
    ),
    (FaultSpec(kind="slow", target="3", options={"delay": "4 s"}), {"slow": 3, "delay": "4 s"}, {"heal": "slow"}),
    (FaultSpec(kind="slow", options={"links": ["3>1"]}), {"slow": ["3>1"]}, {"heal": ["3>1"]}),
    (
        FaultSpec(kind="impair", options={"links": ["2>1"], "loss": "10 %", "reorder": "5 %"}),
        {"impair": ["2>1"], "loss": "10 %", "reorder": "5 %"},
        {"heal": ["2>1"]},
    ),
    (FaultSpec(kind="wipe", target="3"), {"wipe": 3}, {"start": 3}),
    (FaultSpec(kind="power-loss", target="3", options={"records": 2}), {"power-loss": 3, "records": 2}, {"start": 3}),
    (FaultSpec(kind="damage", target="2", options={"at": "middle"}), {"damage": 2, "at": "middle"}, {"start": 2}),
    (FaultSpec(kind="fill", target="2"), {"fill": 2}, {"free": 2}),
    (FaultSpec(kind="power-off", target="2"), {"power-off": 2}, {"start": 2}),
    (FaultSpec(kind="kill-at-write", target="2"), {"kill-at-write": 2}, {"start": 2}),
    (FaultSpec(kind="fail-at-write", target="2"), {"fail-at-write": 2}, {"start": 2}),
    (FaultSpec(kind="preferred-election"), {"preferred-election": "all"}, None),
    (FaultSpec(kind="unclean-election"), {"unclean-election": "all"}, None),
    (
        FaultSpec(kind="reconfigure", options={"settings": {"a": "1"}, "afterwards": {"a": "2"}}),
        {"reconfigure": "all", "settings": {"a": "1"}, "afterwards": {"a": "2"}},
        {"heal": "all"},
    ),
]
OVER_BY_ITSELF = ("restart", "rolling-restart", "preferred-election", "unclean-election")
COLUMNS = (
    "kind",
    "label_text",
    "nodes",
    "links",
    "proved",
    "proof_text",
    "healed_proof_text",
)


@pytest.fixture
async def play(tmp_path: Path) -> AsyncIterator[Play]:
    async with player(tmp_path) as play:
        yield play


async def scheduled(folder: Path, spec: FaultSpec) -> tuple[PlanResult, FaultWorld]:
    timed = FaultSpec(kind=spec.kind, target=spec.target, options=spec.options, at_s=0.0, for_s=0.02)
    scenario = scenario_of(faults=[timed], duration_s=0.05)
    async with fault_world(folder, scenario) as world:
        two_records(world.cluster)
        return await FaultSchedule(scenario=scenario).run(world.context), world


def two_records(cluster: FaultyCluster) -> None:
    cluster.set_log("a", "b")


def rows_of(world: FaultWorld) -> list[dict[str, Any]]:
    return [{name: row[name] for name in COLUMNS} for row in world.faults()]


def test_every_fault_is_asked_for_in_both_ways_here() -> None:
    assert {spec.kind for spec, _, _ in SAME} == set(by_name())


@pytest.mark.parametrize(("spec", "act", "ending"), SAME, ids=lambda each: getattr(each, "kind", ""))
async def test_a_fault_does_and_proves_the_same_by_schedule_and_by_step(
    tmp_path: Path, play: Play, spec: FaultSpec, act: dict[str, Any], ending: dict[str, Any] | None
) -> None:
    result, by_schedule = await scheduled(tmp_path / "schedule", spec)
    assert (result.inconclusive, result.skipped) == ((), ())

    result, by_step = await play({"act": act}, *([{"act": ending}] if ending else []), before=two_records)
    assert result == PlanResult()

    assert by_step.cluster.deeds == by_schedule.cluster.deeds != []
    assert rows_of(by_step) == rows_of(by_schedule)
    assert all(row["healed_proof_text"] for row in rows_of(by_step))
    assert sorted(by_step.snapshots()) == sorted(by_schedule.snapshots())
    assert {row["step"] for row in by_step.faults()} == {0}
    assert {row["scheduled"] for row in by_schedule.faults()} == {0}


@pytest.mark.parametrize(("spec", "act", "_"), SAME, ids=lambda each: getattr(each, "kind", ""))
async def test_a_step_too_can_give_a_fault_its_time(play: Play, spec: FaultSpec, act: dict[str, Any], _: Any) -> None:
    if spec.kind in OVER_BY_ITSELF:
        (step,) = steps_of({"act": {**act, "for": "20 ms"}})
        with pytest.raises(UsageError, match="is over by itself and has no `for`"):
            _ = step.planned
        return
    result, world = await play({"act": {**act, "for": "20 ms"}}, before=two_records)
    assert result == PlanResult()
    assert all(row["healed_proof_text"] for row in world.faults())


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (FaultSpec(kind="crash", target="1"), FaultSpec(kind="kill", target="1")),
        (FaultSpec(kind="shut-down", target="1"), FaultSpec(kind="stop", target="1")),
        (FaultSpec(kind="disk-loss", target="1"), FaultSpec(kind="wipe", target="1")),
        (FaultSpec(kind="disk-full", target="1"), FaultSpec(kind="fill", target="1")),
        (
            FaultSpec(kind="cut-coordination", target="1"),
            FaultSpec(kind="isolate", target="1", options={"from": "coordination"}),
        ),
        (
            FaultSpec(kind="slow-link", target="3", options={"links": ["3>1"], "delay": "4 s"}),
            FaultSpec(kind="slow", options={"links": ["3>1"], "delay": "4 s"}),
        ),
        (
            FaultSpec(kind="disk-damage", target="1"),
            FaultSpec(kind="damage", target="1", options={"running": False}),
        ),
    ],
    ids=lambda spec: spec.kind,
)
async def test_an_old_name_does_what_the_new_one_does(tmp_path: Path, old: FaultSpec, new: FaultSpec) -> None:
    _, by_old = await scheduled(tmp_path / "old", old)
    _, by_new = await scheduled(tmp_path / "new", new)
    assert by_old.cluster.deeds == by_new.cluster.deeds != []
    assert rows_of(by_old) == rows_of(by_new)


async def test_a_fault_that_strikes_no_node_is_called_without_one(tmp_path: Path) -> None:
    _, world = await scheduled(tmp_path, FaultSpec(kind="preferred-election"))
    assert [row["label_text"] for row in world.faults()] == ["preferred-election"]


# -- how faults and the disks they harm get on with each other ----------------------------------------


async def test_a_damaged_log_is_read_before_and_is_over_when_the_broker_has_started(play: Play) -> None:
    damage_in_the_middle = {"act": {"damage": 1, "at": "middle"}}
    _, world = await play(
        {"act": {"damage": 2}}, {"act": {"kill": 1}}, damage_in_the_middle, {"act": {"start": 1}}, before=two_records
    )
    assert world.cluster.deeds == ["damage 2 orders-0 last", "kill 1", "damage 1 orders-0 middle", "start 1"]
    assert [(row["kind"], row["healed_proof_text"]) for row in world.faults()] == [
        ("damage", None),
        ("kill", "start 1 was seen"),
        ("damage", "start 1 was seen"),
    ]
    assert world.snapshots() == [("wipe", 2), ("kill", 1)]


async def test_a_full_disk_is_read_and_freed_and_its_broker_started(play: Play) -> None:
    result, world = await play({"act": {"fill": 2}}, {"act": {"free": 2}})
    assert result == PlanResult()
    assert world.cluster.deeds == ["fill 2", "free 2", "start 2"]
    assert world.snapshots() == [("heal", 2)]


async def test_a_heal_ends_the_faults_of_its_name_and_no_others(play: Play) -> None:
    _, world = await play(
        {"act": {"slow": ["2>1"]}}, {"act": {"isolate": 3}}, {"act": {"pause": 1}}, {"act": {"heal": "isolate"}}
    )
    assert [row["end_ns"] is not None for row in world.faults()] == [False, True, False]
