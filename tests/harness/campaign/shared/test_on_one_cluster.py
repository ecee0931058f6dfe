"""Two runs on one real cluster, and what is looked at between two runs."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from harness.campaign.journal import Ended
from harness.campaign.shared.clusters import SharedClusters
from harness.campaign.shared.health import Health
from harness.checks.judge import judge_many
from harness.clock import SystemClock
from harness.cluster.local.cluster import LocalCluster
from harness.history.files_below import FilesBelow
from harness.history.run_folder import RunFolder
from harness.ports.cluster import Link, NodeId, TopicDefinition
from harness.scenario.model import ClusterSpec
from reports.run.page import build
from tests.harness.campaign.test_campaign_outcome import judged, planned
from tests.waiting import comes_true

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

PLAIN = """
[cluster]
brokers = [3, 1, 2]
[[topics]]
name = "orders"
assignment = [[1, 2, 3]]
settings = { "min.insync.replicas" = 2 }
[workload]
producers = 1
consumers = 1
duration = "1 s"
warm_up = "0 s"
[coverage]
elections = "= 0"
broker_starts = "= 3"
"""
WITH_A_KILL = PLAIN.replace("1 s", "3 s").partition("[coverage]")[0] + (
    '[[faults]]\nkind = "kill"\ntarget = "leader(orders/0)"\nat = "0 s"\nfor = "1 s"\n[coverage]\nelections = 1\n'
)


async def test_a_run_is_judged_by_its_own_history_whatever_happened_on_its_cluster_before(
    spark: SparkSession, tmp_path: Path
) -> None:
    clusters = SharedClusters(FilesBelow(tmp_path), most=1, runs_each=5, keep_all=False, limit_s=120.0)
    folders = []

    async def is_settled() -> bool:
        return clusters.is_settled

    try:
        for number, text in enumerate((WITH_A_KILL, PLAIN), 1):
            (tmp_path / f"{number}.toml").write_text(text)
            ended = await clusters.run_one(planned(number), tmp_path / f"{number}.toml", interrupt=asyncio.Event())
            assert isinstance(ended, Ended)
            assert not ended.error
            folders.append(tmp_path / ended.folder)
            clusters.judged(judged(number, "pass"))
            await comes_true(is_settled, "the health check")
    finally:
        await clusters.close()
    first, rows = judge_many(folders, spark)
    assert first.verdict.value == "pass", first.sentence
    assert (rows.verdict.value, rows.sentence[:5]) == ("pass", "Pass:"), rows.sentence
    folder = RunFolder(folders[1])
    assert folder.table("faults").num_rows == 0
    exact = [row for row in folder.table("partition_states").to_pylist() if row["exact"]]
    assert {(row["topic"], row["leader_epoch"]) for row in exact} == {("orders", 0)}
    assert folder.table("topics").num_rows == 1
    assert [row["node"] for row in folder.table("controllers").to_pylist()] == [3]
    assert "0001" in dict(build(folders[1]).facts)["Shared cluster"]
    assert (folders[1] / "nodes" / "1" / "log").read_text().count("orders-0: leader 1 in epoch 0") == 1
    assert "orders-0: leader 2 in epoch 1" not in (folders[1] / "nodes" / "2" / "log").read_text()


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[LocalCluster]:
    made = LocalCluster(run_path=tmp_path, spec=ClusterSpec(brokers=(1, 2, 3)), client_links=1, clock=SystemClock())
    try:
        await made.start()
        yield made
    finally:
        await made.stop()


async def test_between_two_runs_topics_go_and_every_harm_that_is_left_is_seen(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    health = Health(cluster, folder=tmp_path / "health", clock=SystemClock())
    await health.begin()
    await cluster.create_topics([TopicDefinition(name="orders", assignment=((1, 2, 3),))])
    assert await health.check() == ""
    assert await cluster.live_partition_states(["orders"]) == []
    assert not list(tmp_path.glob("nodes/*/data/orders-0"))
    assert await health.as_started()
    link = Link(source=NodeId(2), target=NodeId(1))
    await cluster.cut([link])
    assert "is not healed" in await health.check(within_s=1.0)
    await cluster.heal([link])
    await cluster.pause(NodeId(2))
    assert "broker 2 does not run" in await health.check(within_s=1.0)
    await cluster.resume(NodeId(2))
    await cluster.kill(NodeId(3))
    assert "broker 3 is not running" in await health.check(within_s=1.0)
