"""Real Kafka in the local world, in every layout: roles, links and records are right, and a leak would be detected."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from harness.cluster.brokers.kafka_jars import installed
from harness.cluster.brokers.kafka_versions import resolve_version
from harness.cluster.catalogue import system_of
from harness.cluster.local.cluster import LocalCluster
from harness.history.run_folder import RunFolder
from harness.host.clock import SystemClock
from harness.ports.cluster import Link, NodeId, TopicDefinition
from harness.scenario.model import ClusterSpec
from tests.end_to_end.shell import marked_processes
from tests.waiting import comes_true

pytestmark = [pytest.mark.cluster, pytest.mark.jvm, pytest.mark.asyncio(loop_scope="module")]

FIRST = ("4.3.1", "kraft")
FURTHER = [("4.3.1", "kraft-quorum"), ("4.3.1", "kraft-combined"), ("3.9.1", "zookeeper")]
LAYOUTS = [
    pytest.param(layout, id=" ".join(layout), marks=[] if layout is FIRST else pytest.mark.further)
    for layout in (FIRST, *FURTHER)
]


@pytest_asyncio.fixture(params=LAYOUTS, scope="module", loop_scope="module")
async def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[LocalCluster]:
    """One for the tests of a layout: each leaves every node running and every link whole, and has its own topic."""
    version, layout = request.param
    if installed(resolve_version(version)) is None:
        pytest.skip(f"Kafka {version} is not on this machine: kafka-chaos fetch-kafka {version}")
    clock = SystemClock()
    run = RunFolder.create(tmp_path_factory.mktemp("run"), scenario="kafka", clock=clock, seed=1, stamp="test")
    spec = ClusterSpec(brokers=(1, 2, 3), system=f"kafka:{version}", layout=layout)
    made = LocalCluster(run_path=run.path, system=system_of(spec), client_links=1, clock=clock)
    try:
        await made.start()
        yield made
    finally:
        await made.stop()
    assert marked_processes(f"KAFKA_CHAOS_RUN={run.path.resolve()}") == []


def links_between(cluster: LocalCluster, node: int) -> list[Link]:
    """All that the node opens to others and others to it; clients are left alone."""
    return [link for link in cluster.links() if node in (link.source, link.target) and link.client is None]


async def test_a_leader_cut_from_everybody_stays_a_zombie_until_the_heal_and_its_books_tell_the_change(
    cluster: LocalCluster,
) -> None:
    await cluster.create_topics([TopicDefinition(name="orders", assignment=((1, 2, 3),))])

    async def believed(expected: dict[int, int]) -> bool:
        states = await cluster.live_partition_states(["orders"])
        return {state.observer: state.leader for state in states} == expected

    await comes_true(lambda: believed({1: 1, 2: 1, 3: 1}), "everybody knows the first leader")
    assert await cluster.controller() in [int(node.node) for node in cluster.nodes]
    cut = links_between(cluster, 1)
    await cluster.cut(cut)
    await comes_true(lambda: believed({1: 1, 2: 2, 3: 2}), "the others have a new leader, and the zombie knows nothing")
    assert cluster.leaks() == []
    await cluster.heal(cut)
    await comes_true(lambda: believed({1: 2, 2: 2, 3: 2}), "the zombie has heard of it")

    await cluster.kill(NodeId(3))
    assert not cluster.is_running(NodeId(3))
    await cluster.start_node(NodeId(3))
    RunFolder(cluster._run).add_anchor(SystemClock())

    async def both_starts_told() -> bool:
        # A broker listens before it has said that it started; its book is read as often as it takes.
        events = [event.event for event in cluster.collect().broker_events if event.node == 3]
        return events.count("broker_start") == 2

    await comes_true(both_starts_told, "broker 3 told both of its starts")
    history = cluster.collect()
    leaders = [(state.leader, state.leader_epoch) for state in history.partition_states if state.topic == "orders"]
    assert leaders[0] == (1, 0)
    assert any(leader == 2 and epoch >= 1 for leader, epoch in leaders)
    assert all(state.exact for state in history.partition_states)
    assert history.controllers


async def test_a_wiped_disk_comes_back_as_another_one_and_is_filled_again(cluster: LocalCluster) -> None:
    await cluster.create_topics([TopicDefinition(name="payments", assignment=((1, 2, 3),))])

    async def in_sync(expected: set[int]) -> bool:
        states = await cluster.live_partition_states(["payments"])
        return bool(states) and all(set(state.isr) == expected for state in states)

    await comes_true(lambda: in_sync({1, 2, 3}), "all replicas are in sync")
    await cluster.kill(NodeId(3))
    assert "is empty" in (await cluster.wipe(NodeId(3))).sentence
    assert cluster.read_replicas(NodeId(3)) == []
    await comes_true(lambda: in_sync({1, 2}), "the dead replica is out")
    await cluster.start_node(NodeId(3))
    await comes_true(lambda: in_sync({1, 2, 3}), "the empty replica has come back")
