"""When a campaign uses a cluster again and when it takes a fresh one. The clusters are processes that do nothing: what
they say decides, and what the judge says of their runs."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from harness.campaign.journal import Ended
from harness.campaign.plan import PlannedRun
from harness.campaign.rows import RunJudged
from harness.campaign.shared.clusters import BOOK, SharedClusters
from harness.history.files_below import FilesBelow
from tests.harness.campaign.test_campaign_outcome import judged, planned, seen
from tests.waiting import comes_true

# Makes a run folder and says that it is well, unless the scenario's name says otherwise.
HOST = """
import json, os, sys, pathlib
folder = pathlib.Path(sys.argv[1])
for number, line in enumerate(sys.stdin):
    asked = json.loads(line)
    name = pathlib.Path(asked["scenario"]).stem
    def say(**told): print(json.dumps(told), flush=True)
    if name == "needs-health" and number:
        say(type="unfit", why="broker 1 ended")
        break
    if name == "cannot-begin":
        say(type="performed", error="no such client")
        break
    run = pathlib.Path(asked["runs"]) / f"{folder.name}-{number}"
    run.mkdir()
    (run / "run.json").write_text("{}")
    say(type="performed", error="")
    say(type="between", unfit="link n1>n2 is not healed" if name == "harms" else "", as_started=name != "moves")
    if name == "dies":
        break
"""
TOPIC = '[[topics]]\nname = "orders"\n'


class World:
    """`run` gives the name of the run's cluster, "0001" the first, and the place of the run on it."""

    def __init__(self, top: Path, clusters: SharedClusters) -> None:
        self._top = top
        self.clusters = clusters
        self._number = 0

    async def run(self, name: str = "plain", text: str = "", verdict: RunJudged | None = None) -> str:
        ended = await self.begin(name, text)
        self.clusters.judged(verdict or judged(ended.number, "pass"))
        await comes_true(self._settled, "the health check after the run")
        return Path(ended.folder).name

    async def begin(self, name: str = "plain", text: str = "") -> Ended:
        self._number += 1
        place = self._top / "plan" / str(self._number)
        place.mkdir(parents=True)
        (place / f"{name}.toml").write_text(TOPIC + text)
        run: PlannedRun = planned(self._number)
        ended = await self.clusters.run_one(run, place / f"{name}.toml", interrupt=asyncio.Event())
        assert isinstance(ended, Ended)
        return ended

    async def _settled(self) -> bool:
        return self.clusters.is_settled

    def book(self) -> list[dict[str, object]]:
        return [json.loads(line) for line in (self._top / BOOK).read_text().splitlines()]


@asynccontextmanager
async def world_of(top: Path, *, most: int = 2, runs_each: int = 10) -> AsyncIterator[World]:
    host = [sys.executable, "-c", HOST]
    clusters = SharedClusters(FilesBelow(top), most=most, runs_each=runs_each, keep_all=False, limit_s=60.0, host=host)
    try:
        yield World(top, clusters)
    finally:
        await clusters.close()


async def test_runs_follow_each_other_on_one_cluster_up_to_the_stated_number(tmp_path: Path) -> None:
    async with world_of(tmp_path, runs_each=2) as world:
        assert [await world.run() for _ in range(3)] == ["0001-0", "0001-1", "0002-0"]
    assert [(each["runs"], each["ended"]) for each in world.book()] == [
        ([1, 2], "it had its 2 runs"), ([3], "the campaign ended"),
    ]  # fmt: skip
    assert not list((tmp_path / "clusters").iterdir())


@pytest.mark.parametrize(
    "verdict",
    [
        judged(1, "violation", findings=[seen("a")]),
        judged(1, "inconclusive"),
        judged(1, "pass", findings=[seen("a", "permitted")]),
    ],
)
async def test_a_finding_ends_the_sharing_and_its_cluster_is_kept(tmp_path: Path, verdict: RunJudged) -> None:
    async with world_of(tmp_path) as world:
        assert await world.run(verdict=verdict) == "0001-0"
        assert await world.run() == "0002-0"
    assert [path.name for path in (tmp_path / "clusters").iterdir()] == ["0001"]


async def test_a_cluster_whose_last_run_has_no_verdict_yet_is_not_used(tmp_path: Path) -> None:
    async with world_of(tmp_path) as world:
        first = await world.begin()
        second = await world.begin()
        third = asyncio.create_task(world.begin())  # there may be two clusters
        assert Path(second.folder).name == "0002-0"
        world.clusters.judged(judged(first.number, "pass"))
        assert Path((await third).folder).name == "0001-1"


@pytest.mark.parametrize(
    ("name", "why"), [("harms", "link n1>n2 is not healed"), ("dies", "its process ended between two runs")]
)
async def test_a_cluster_that_is_not_well_after_a_run_ends(tmp_path: Path, name: str, why: str) -> None:
    async with world_of(tmp_path) as world:
        assert await world.run(name) == "0001-0"
        assert await world.run() == "0002-0"
        assert (world.book()[0]["runs"], world.book()[0]["ended"]) == ([1], why)


async def test_a_run_that_finds_its_cluster_unwell_begins_on_a_fresh_one(tmp_path: Path) -> None:
    async with world_of(tmp_path) as world:
        assert await world.run() == "0001-0"
        assert await world.run("needs-health") == "0002-0"


async def test_a_run_that_cannot_begin_is_an_error_with_its_reason_and_ends_its_cluster(tmp_path: Path) -> None:
    async with world_of(tmp_path) as world:
        ended = await world.begin("cannot-begin")
        assert (ended.folder, ended.error) == ("", "no such client")
        assert await world.run() == "0002-0"


async def test_other_settings_of_brokers_and_spent_clusters_need_a_fresh_one(tmp_path: Path) -> None:
    wipe = '[[faults]]\nkind = "wipe"\ntarget = "leader(orders/0)"\nat = "1 s"\nfor = "1 s"\n'
    async with world_of(tmp_path) as world:
        assert await world.run() == "0001-0"
        assert await world.run(text='[cluster.settings]\n"replica.lag.time.max.ms" = 1500\n') == "0002-0"
        assert await world.run(text=wipe) == "0001-1"
        assert await world.run() == "0003-0"


async def test_where_the_controller_moved_only_a_scenario_that_names_no_broker_follows(tmp_path: Path) -> None:
    by_number = '[[faults]]\nkind = "kill"\ntarget = "1"\nat = "1 s"\nfor = "1 s"\n'
    async with world_of(tmp_path) as world:
        assert await world.run("moves") == "0001-0"
        assert await world.run("moves", by_number) == "0002-0"
        assert await world.run() == "0002-1"


async def test_what_a_killed_campaign_left_of_its_clusters_is_removed_and_their_numbers_are_not_given_again(
    tmp_path: Path,
) -> None:
    (tmp_path / "clusters" / "0007" / "nodes").mkdir(parents=True)
    async with world_of(tmp_path) as world:
        assert await world.run() == "0008-0"
