"""Steps that harm disks and packets: each is one fault, proved when it begins and when it is over."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from harness.controller.context import PlanResult
from tests.harness.controller.fault_world import Play, player


@pytest.fixture
async def play(tmp_path: Path) -> AsyncIterator[Play]:
    async with player(tmp_path) as play:
        yield play


async def test_a_damaged_log_is_read_before_and_is_over_when_the_broker_has_started(play: Play) -> None:
    _, world = await play(
        {"act": {"damage": 2}}, {"act": {"kill": 1}}, {"act": {"damage": 1, "at": "middle"}}, {"act": {"start": 1}}
    )
    assert world.cluster.deeds == ["damage 2 orders-0 last", "kill 1", "damage 1 orders-0 middle", "start 1"]
    assert [(row["kind"], row["healed_proof"]) for row in world.faults()] == [
        ("damage", None), ("kill", "start 1 was seen"), ("damage", "start 1 was seen"),
    ]  # fmt: skip
    assert world.snapshots() == [("wipe", 2), ("kill", 1)]


async def test_a_full_disk_is_read_and_freed_and_its_broker_started(play: Play) -> None:
    result, world = await play({"act": {"fill": 2}}, {"act": {"free": 2}})
    assert result == PlanResult()
    assert world.cluster.deeds == ["fill 2", "free 2", "start 2"]
    assert [(row["kind"], row["proof"], row["healed_proof"]) for row in world.faults()] == [
        ("full", "fill 2 was seen", "free 2 was seen; start 2 was seen")
    ]
    assert world.snapshots() == [("heal", 2)]


async def test_packets_are_impaired_until_the_links_are_healed(play: Play) -> None:
    result, world = await play(
        {"act": {"impair": ["2>1"], "loss": "10 %", "reorder": "5 %", "delay": "20 ms"}}, {"act": {"heal": ["2>1"]}}
    )
    assert result == PlanResult()
    assert world.cluster.deeds == [
        "n2>n1 lose 10 % of their packets, let 5 % of their packets overtake others, delay every packet by 20 ms",
        "n2>n1 pass packets as they come again",
    ]
    assert [(row["kind"], row["links"]) for row in world.faults()] == [("impair", "n2>n1")]
