"""A user's compose containers: found, stopped through Docker, cut by packet rules, their logs read."""

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from docker.errors import ImageNotFound

from harness.cluster.attached import compose_project
from harness.cluster.attached.administration import Administration
from harness.cluster.attached.by_docker import cluster_by_docker
from harness.cluster.attached.container_rules import can_cut
from harness.cluster.attached.journal import AttachedJournal, OwnTopic
from harness.cluster.broker_requests import BrokerConnection
from harness.cluster.docker import images
from harness.cluster.docker.engine import Engine, connect, is_there
from harness.cluster.docker.namespace import Namespace
from harness.cluster.docker.packet_rules import CHAIN
from harness.cluster.questions import BrokerQuestions
from harness.errors import HarnessError, UsageError
from harness.host.clock import SystemClock
from harness.ports.cluster import CanCrash, CanCutLinks, CanPause, CanStop, NodeId, TopicDefinition
from harness.ports.faults import AlreadyDown
from harness.scenario.model import AttachedSpec, ClusterSpec
from tests.harness.cluster.attached.compose_up import DATA, compose_up
from tests.waiting import comes_true

pytestmark = [
    pytest.mark.skipif(not is_there(), reason="no Docker engine answers: .ci/prepare-docker starts one"),
    pytest.mark.docker,
    pytest.mark.cluster,
]
LOCAL_BASE = "kafka-chaos-base:local"


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    connected = connect()
    yield connected
    connected.close()


@pytest.fixture(scope="module")
def project(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterSpec]:
    with pytest.MonkeyPatch.context() as monkeypatch:
        try:
            engine.client.images.get(LOCAL_BASE)
            monkeypatch.setenv(images.BASE_VARIABLE, LOCAL_BASE)
            image = images.provide(engine, images.reference_recipe())
        except (ImageNotFound, HarnessError) as error:
            pytest.skip(f"no image of the reference broker: {error}")
    name = f"kafkachaostest{uuid.uuid4().hex[:8]}"
    with compose_up(engine, image, tmp_path_factory.mktemp("compose"), project=name) as (file, bootstrap):
        services = {**{str(node): f"node{node}" for node in (1, 2, 3)}, "100": "zookeeper"}
        attached = AttachedSpec(services=services, data=DATA, prefix="")
        yield ClusterSpec(system=f"compose:{file}", bootstrap=bootstrap, attached=attached)


@pytest.fixture
async def cluster(project: ClusterSpec, tmp_path: Path) -> AsyncIterator[Any]:
    made = cluster_by_docker(project)(run_path=tmp_path, spec=project, clock=SystemClock())
    await asyncio.wait_for(_attached_to(made), 40)
    yield made
    for what, subject in AttachedJournal(tmp_path).owed():
        await made.undo(what, subject)
    await made.stop()


async def _attached_to(cluster: Any) -> None:
    """All three register within moments of their start."""

    async def all_there() -> bool:
        with contextlib.suppress(HarnessError):
            await cluster.start()
            if len(cluster.brokers) == 3:
                return True
            await cluster.stop()
        return False

    await comes_true(all_there, "three brokers answer")


async def test_it_is_killed_paused_and_stopped_through_docker_and_seen_from_outside(
    cluster: Any, tmp_path: Path
) -> None:
    assert isinstance(cluster, CanCrash)
    assert isinstance(cluster, CanPause)
    assert isinstance(cluster, CanStop)
    one, two = NodeId(1), NodeId(2)

    assert "is exited with code 137" in (await cluster.kill(one)).sentence
    assert not cluster.is_running(one)
    assert AttachedJournal(tmp_path).owed() == [("start", "1")]
    assert "answers" in (await cluster.start_node(one)).sentence
    assert "takes connections and answers nothing" in (await cluster.pause(two)).sentence
    assert "answers" in (await cluster.resume(two)).sentence
    assert "ended by SIGTERM" in (await cluster.shut_down(two)).sentence
    await cluster.start_node(two)
    assert AttachedJournal(tmp_path).owed() == []


async def test_a_container_that_somebody_else_stopped_or_paused_is_left_as_it_is(cluster: Any, tmp_path: Path) -> None:
    three = NodeId(3)
    container = cluster._containers[three]
    container.pause()
    try:
        with pytest.raises(HarnessError, match="is paused already, by somebody else, and is left alone"):
            await cluster.pause(three)
        assert "was not paused by this run" in (await cluster.resume(three)).sentence
    finally:
        container.unpause()
    container.stop()
    try:
        for harm in (cluster.kill, cluster.pause):
            with pytest.raises(AlreadyDown, match="broker 3 is down already, and not by this run"):
                await harm(three)
        assert "was not taken down by this run" in (await cluster.start_node(three)).sentence
        container.reload()
        assert container.attrs["State"]["Status"] == "exited"
        assert AttachedJournal(tmp_path).owed() == []
    finally:
        container.start()


@pytest.mark.skipif(not can_cut(), reason="packet rules take root, nsenter and iptables")
async def test_a_partition_stops_packets_outlives_restarts_of_a_container_and_leaves_nothing(cluster: Any) -> None:
    made: Any = cluster  # isinstance would narrow it
    assert isinstance(cluster, CanCutLinks)
    links = [link for link in made.links() if {link.source, link.target} == {1, 2}]

    assert "packet rules stop 1>2" in (await made.cut(links)).sentence
    await made.kill(NodeId(2))
    await made.start_node(NodeId(2))
    container = made._containers[NodeId(2)]
    assert "--dport 9092" in rules_in(container), "they went with the network and were written again"
    container.restart(timeout=1)  # by somebody else

    async def written_again() -> bool:
        await made.live_partition_states([])
        return "--dport 9092" in rules_in(container)

    await comes_true(written_again, "it has its rules again")
    assert "came up by itself 1 times meanwhile" in (await made.heal(links)).sentence
    assert rules_in(container) == ""


def rules_in(container: Any) -> str:
    saved = Namespace(container, entry="nsenter").run(["iptables-save", "-t", "filter"])
    return "\n".join(line for line in saved.splitlines() if CHAIN in line)


async def test_the_replicas_logs_are_read_out_of_the_containers_and_the_topic_goes_in_the_end(
    cluster: Any, tmp_path: Path
) -> None:
    await cluster.create_topics([TopicDefinition(name="read", assignment=((1, 2, 3),))])
    logs: list[Any] = []

    async def readable() -> bool:
        logs[:] = await asyncio.to_thread(cluster.read_replicas, NodeId(1))
        return bool(logs)

    await comes_true(readable, "the log of broker 1")
    assert [(log.topic, log.partition, log.log_end) for log in logs] == [("read", 0, 0)]

    data = cluster._spec.attached.data
    of_others = f"mkdir {data}/theirs-0 && seq 1 2000 | sed 's#^#{data}/theirs-0/#' | xargs touch"
    assert cluster._containers[NodeId(1)].exec_run(["sh", "-c", of_others]).exit_code == 0
    await asyncio.to_thread(cluster.read_replicas, NodeId(1))
    brought = {path.name for path in (tmp_path / "nodes" / "1" / "data").iterdir()}
    assert brought <= {"read-0", "replication-offset-checkpoint"}, "what is not the run's is not copied"

    with pytest.raises(HarnessError, match="topic 'read' is there already"):
        await cluster.create_topics([TopicDefinition(name="read", assignment=((1, 2, 3),))])
    settings = {(row.name, row.key): row.value for row in cluster.collect().configuration}
    assert settings["read", "unclean.leader.election.enable"] == "false"
    assert AttachedJournal(tmp_path).owed() == [("delete", "read")]


@pytest.mark.parametrize("place", ["/etc", "/nowhere"])
async def test_data_that_is_no_brokers_data_directory_is_refused_before_anything_is_made(
    project: ClusterSpec, tmp_path: Path, place: str
) -> None:
    spec = replace(project, attached=replace(project.attached, data=place))
    wrong = cluster_by_docker(spec)(run_path=tmp_path, spec=spec, clock=SystemClock())
    with pytest.raises(HarnessError, match=f"has no {place}/meta.properties: name the broker's data directory"):
        await wrong.start()
    await wrong.stop()
    assert AttachedJournal(tmp_path).owed() == []


async def test_a_topic_that_no_broker_tells_of_is_refused_by_the_controller_and_stays(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = TopicDefinition(name="theirs", partitions=1, replication_factor=3)
    await made_by_somebody(cluster, there)

    async def nothing(_: Administration) -> set[str]:
        return set()

    monkeypatch.setattr(Administration, "topics", nothing)
    with pytest.raises(HarnessError, match="topic 'theirs' is there already"):
        await cluster.create_topics([there])
    assert AttachedJournal(tmp_path).owed() == []


async def test_a_topic_that_took_the_name_of_the_runs_is_there_after_the_run(cluster: Any, tmp_path: Path) -> None:
    taken = TopicDefinition(name="taken", partitions=1, replication_factor=3)
    await cluster.create_topics([taken])
    administration = Administration(cluster._addresses, connect=BrokerConnection)
    await administration.delete(OwnTopic(name="taken"))
    await made_by_somebody(cluster, taken)

    assert "is deleted" in (await cluster.undo("delete", "taken")).sentence

    async def is_there() -> bool:
        return "taken" in await administration.topics()

    await comes_true(is_there, "their topic is known")
    administration.close()


async def made_by_somebody(cluster: Any, topic: TopicDefinition) -> None:
    somebody = BrokerQuestions(cluster._addresses, is_running=cluster.is_running, clock=SystemClock())

    async def made() -> bool:
        return await somebody.create_topic(topic) == 0  # not while the name is being freed

    await comes_true(made, f"somebody makes topic {topic.name}")


def test_containers_are_found_by_the_file_they_were_made_of(project: ClusterSpec, tmp_path: Path) -> None:
    engine, found = compose_project.find(project)
    engine.close()
    assert sorted(found) == [1, 2, 3, 100]

    other = tmp_path / "compose.yaml"
    other.write_text("services: {}")
    with pytest.raises(UsageError, match="compose has made no containers of it"):
        compose_project.find(ClusterSpec(system=f"compose:{other}"))
