"""The local world with real processes: every fault has its effect on its victim only, and nothing is left behind.

One cluster of three brokers serves the module. Its address block is locked in the user's own state directory, which all
runs of this machine share.
"""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import pytest_asyncio
from kafka import KafkaProducer

from harness.cluster.catalogue import system_of
from harness.cluster.local.cluster import LocalCluster
from harness.cluster.local.ownership import processes_of
from harness.cluster.local.processes import PROCESSES, state_of
from harness.errors import HarnessError
from harness.history.run_folder import RunFolder
from harness.host.clock import SystemClock
from harness.ports.capabilities import CanDamageDisks
from harness.ports.cluster import (
    COORDINATION,
    CanCrash,
    CanCutLinks,
    CanLosePower,
    CanPause,
    CanReconfigure,
    CanSlowLinks,
    CanWipe,
    ClientId,
    Cluster,
    LeakCheck,
    Link,
    NodeId,
    Send,
    ShowsLogs,
    TopicDefinition,
    TopicPartition,
)
from harness.ports.faults import AlreadyDown
from harness.scenario.model import ClusterSpec
from reference_impl.wire.api_keys import ApiKey
from reference_impl.wire.messages import encode_request, request_class
from tests.harness.cluster.local.streams import is_silent
from tests.waiting import PATIENCE_S, comes_true, until

_QUESTION = encode_request(ApiKey.API_VERSIONS, 0, 1, "test", request_class(ApiKey.API_VERSIONS)())

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.cluster]

_LEADER, _FOLLOWER, _OTHER = NodeId(1), NodeId(2), NodeId(3)


def _link(source: int, target: int) -> Link:
    return Link(source=NodeId(source), target=NodeId(target))


def _made(folder: Path, spec: ClusterSpec, *, client_links: int = 1) -> LocalCluster:
    clock = SystemClock()
    run = RunFolder.create(folder, scenario="test", clock=clock, seed=1, stamp="now")
    return LocalCluster(run_path=run.path, system=system_of(spec), client_links=client_links, clock=clock)


def _place(cluster: LocalCluster, link: Link) -> tuple[str, int]:
    """Where the link from one node to another begins."""
    assert cluster._addresses is not None
    assert link.source is not None
    return cluster._addresses.link(link.source, link.target), cluster._addresses.internal_port


async def _until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not holds():
            await asyncio.sleep(0.02)


def _written_down(run: Path) -> list[int]:
    return [json.loads(line)["pid"] for line in (run / PROCESSES).read_text().splitlines()]


def _block(cluster: LocalCluster) -> int:
    """B of the cluster's addresses 127.B."""
    return int(cluster.coordination().split(".")[1])


def _listeners(block: int) -> list[str]:
    suffix = f"{block:02X}7F"
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return [row[1] for row in rows if row[3] == "0A" and row[1].split(":")[0].endswith(suffix)]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[LocalCluster]:
    made = _made(tmp_path_factory.mktemp("runs"), ClusterSpec(brokers=(3, 1, 2)), client_links=2)
    try:
        await made.start()
        definition = TopicDefinition(name="orders", assignment=((_LEADER, _FOLLOWER, _OTHER),))
        await made.create_topics([definition])
        yield made
    finally:
        await made.stop()
        await made.stop()


class Load:
    """Appends to orders/0 at the leader, acknowledged by it alone, and waits for logs to reach what was appended."""

    def __init__(self, cluster: LocalCluster, producer: KafkaProducer) -> None:
        self._cluster = cluster
        self._producer = producer

    def end(self, node: NodeId) -> int | None:
        return self._cluster.log_end(node, "orders", 0)

    async def append(self, count: int = 10) -> int:
        """The log end afterwards."""
        return await asyncio.to_thread(self._append, count)

    def _append(self, count: int) -> int:
        sent = [self._producer.send("orders", b"value", partition=0) for _ in range(count)]
        return max(int(each.get(PATIENCE_S).offset) for each in sent) + 1

    async def reaches(self, node: NodeId, end: int) -> None:
        await _until(lambda: self.end(node) == end)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def producer(cluster: LocalCluster) -> AsyncIterator[KafkaProducer]:
    """One for all tests: a new one might ask the very broker that is paused for its bearings."""
    made = await asyncio.to_thread(KafkaProducer, bootstrap_servers=cluster.bootstrap(ClientId(1)), acks=1)
    yield made
    await asyncio.to_thread(made.close)


@pytest_asyncio.fixture(loop_scope="module")
async def load(cluster: LocalCluster, producer: KafkaProducer) -> AsyncIterator[Load]:
    made = Load(cluster, producer)
    end = await made.append(1)
    for node in (_LEADER, _FOLLOWER, _OTHER):
        await made.reaches(node, end)
    yield made
    await cluster.heal(cluster.links())


async def test_a_local_cluster_has_every_capability(cluster: LocalCluster) -> None:
    kinds = (Cluster, CanCrash, CanPause, CanCutLinks, CanSlowLinks, CanReconfigure, LeakCheck)
    disks = (ShowsLogs, CanWipe, CanLosePower, CanDamageDisks)
    assert [kind for kind in (*kinds, *disks) if not isinstance(cluster, kind)] == []


async def test_every_node_and_the_fabric_is_a_process_of_its_own(cluster: LocalCluster) -> None:
    run = cluster._run
    pids = list(processes_of(run))
    assert len(set(pids)) == len(cluster.nodes) + 1
    assert all(cluster.is_running(node.node) for node in cluster.nodes)
    assert [node.node for node in cluster.nodes] == [COORDINATION, 1, 2, 3]
    await cluster.live_partition_states([])
    assert await cluster.controller() == 3, "the first started"


async def test_cutting_a_followers_link_to_the_leader_stops_that_follower_alone(
    cluster: LocalCluster, load: Load
) -> None:
    before = load.end(_FOLLOWER)
    seen = await cluster.cut([_link(_FOLLOWER, _LEADER)])
    assert "link 2>1 cut, bytes wait" in seen.sentence
    end = await load.append()
    await load.reaches(_OTHER, end)
    assert load.end(_FOLLOWER) == before
    await cluster.heal([_link(_FOLLOWER, _LEADER)])
    await load.reaches(_FOLLOWER, end)


async def test_cutting_the_leaders_link_to_a_follower_stops_what_goes_over_it_and_not_the_follower(
    cluster: LocalCluster, load: Load
) -> None:
    link = _link(_LEADER, _FOLLOWER)
    assert "link 1>2 cut, bytes wait" in (await cluster.cut([link])).sentence
    reader, writer = await asyncio.open_connection(*_place(cluster, link))
    writer.write(_QUESTION)
    end = await load.append()
    await load.reaches(_FOLLOWER, end)
    assert await is_silent(reader)
    await cluster.heal([link])
    async with asyncio.timeout(PATIENCE_S):
        assert await reader.readexactly(1), "the answer had only waited"
    writer.close()


async def test_a_link_that_two_faults_cut_passes_nothing_until_both_are_over(cluster: LocalCluster, load: Load) -> None:
    link = _link(_FOLLOWER, _LEADER)
    await cluster.cut([link])
    await cluster.cut([link, _link(_OTHER, _LEADER)], mode="reset")
    seen = await cluster.heal([link, _link(_OTHER, _LEADER)], mode="reset")
    assert "link 2>1 stays cut: another fault is still in force there" in seen.sentence
    stood = load.end(_FOLLOWER)
    end = await load.append()
    await load.reaches(_OTHER, end)
    assert load.end(_FOLLOWER) == stood
    await cluster.heal([link])
    await load.reaches(_FOLLOWER, end)


async def test_a_damaged_follower_cuts_its_log_after_a_kill_and_copies_it_again(
    cluster: LocalCluster, load: Load
) -> None:
    end = await load.append()
    await load.reaches(_FOLLOWER, end)
    await cluster.kill(_FOLLOWER)
    sound = [record.value for record in cluster.read_replicas(_FOLLOWER)[0].records]
    await cluster.damage(_FOLLOWER, "orders", 0, at="middle")
    assert len(cluster.read_replicas(_FOLLOWER)[0].records) < len(sound)
    await cluster.start_node(_FOLLOWER)
    await _until(lambda: len(cluster.read_replicas(_FOLLOWER)[0].records) >= len(sound))
    rows = [event for event in cluster.collect().broker_events if event.reason == "corrupt batch found in recovery"]
    assert [(event.node, event.event, event.from_offset) for event in rows] == [(_FOLLOWER, "truncation", end)]


async def test_a_link_cut_by_reset_stops_the_follower_and_heals(cluster: LocalCluster, load: Load) -> None:
    before = load.end(_FOLLOWER)
    seen = await cluster.cut([_link(_FOLLOWER, _LEADER)], mode="reset")
    assert "connections are reset, 0 connections held" in seen.sentence
    end = await load.append()
    await load.reaches(_OTHER, end)
    assert load.end(_FOLLOWER) == before
    await cluster.heal([_link(_FOLLOWER, _LEADER)], mode="reset")
    await load.reaches(_FOLLOWER, end)


async def test_a_slow_link_is_slow_until_it_is_not(cluster: LocalCluster, load: Load) -> None:
    assert "by 50 ms" in (await cluster.slow([_link(_FOLLOWER, _LEADER)], delay_ms=50)).sentence
    await load.reaches(_FOLLOWER, await load.append())
    assert "without delay" in (await cluster.slow([_link(_FOLLOWER, _LEADER)], delay_ms=0)).sentence


async def test_a_pause_of_a_broker_that_has_ended_by_itself_is_refused_in_words(
    cluster: LocalCluster, load: Load
) -> None:
    pid = cluster._process(_FOLLOWER).pid
    os.kill(pid, signal.SIGKILL)
    until(lambda: state_of(pid) in ("", "Z"), "the kernel has ended it")  # and the loop has not heard of it
    with pytest.raises(AlreadyDown, match=f"broker 2 is not running: process {pid} has ended by itself"):
        await cluster.pause(_FOLLOWER)
    assert not cluster.is_running(_FOLLOWER) or await cluster._process(_FOLLOWER).wait()
    await cluster.start_node(_FOLLOWER)
    await load.reaches(_FOLLOWER, await load.append())


async def test_a_paused_broker_is_seen_stopped_and_goes_on_when_resumed(cluster: LocalCluster, load: Load) -> None:
    pid = cluster._process(_FOLLOWER).pid
    before = load.end(_FOLLOWER)
    assert f"process {pid} of broker 2 is in state T" in (await cluster.pause(_FOLLOWER)).sentence
    assert state_of(pid) == "T"
    end = await load.append()
    await load.reaches(_OTHER, end)
    assert load.end(_FOLLOWER) == before
    await cluster.resume(_FOLLOWER)
    assert state_of(pid) != "T"
    await load.reaches(_FOLLOWER, end)


async def test_a_killed_broker_is_gone_and_comes_back_as_another_process(cluster: LocalCluster, load: Load) -> None:
    pid = cluster._process(_FOLLOWER).pid
    with pytest.raises(HarnessError, match="broker 2 is running; kill it"):
        await cluster.wipe(_FOLLOWER)
    await cluster.kill(_FOLLOWER)
    assert state_of(pid) == ""
    assert not cluster.is_running(_FOLLOWER)
    with pytest.raises(HarnessError, match="broker 2 is not running"):
        await cluster.kill(_FOLLOWER)
    end = await load.append()
    await cluster.start_node(_FOLLOWER)
    await load.reaches(_FOLLOWER, end)
    assert cluster._process(_FOLLOWER).pid != pid
    assert "was running already" in (await cluster.start_node(_FOLLOWER)).sentence


async def test_a_wiped_disk_is_empty_noticed_and_filled_again(cluster: LocalCluster, load: Load) -> None:
    await cluster.kill(_FOLLOWER)
    assert "is empty" in (await cluster.wipe(_FOLLOWER)).sentence
    assert list(cluster._folders(_FOLLOWER).data.iterdir()) == []
    assert cluster.log_end(_FOLLOWER, "orders", 0) is None
    assert cluster.high_watermark(_FOLLOWER, "orders", 0) is None
    assert cluster.read_replicas(_FOLLOWER) == []
    assert not any(event.event == "directory_lost" for event in cluster.collect().broker_events)
    await cluster.start_node(_FOLLOWER)
    await load.reaches(_FOLLOWER, await load.append())
    (lost,) = [event for event in cluster.collect().broker_events if event.event == "directory_lost"]
    assert lost.node == _FOLLOWER
    assert lost.t_ns <= SystemClock().monotonic_ns()
    mine, leaders = cluster.read_replicas(_FOLLOWER)[0], cluster.read_replicas(_LEADER)[0]
    assert mine.records == leaders.records


async def test_each_broker_is_asked_for_itself(cluster: LocalCluster, load: Load) -> None:
    end = await load.append(1)
    questions, orders = cluster.questions(), TopicPartition(topic="orders", partition=0)
    assert list(await questions.registered()) == [_LEADER, _FOLLOWER, _OTHER]

    async def is_readable() -> bool:
        return bool((await questions.fetch(_LEADER, orders, end - 1, epoch=-1, version=11)).values)

    await comes_true(is_readable, "the high watermark passes what the leader alone acknowledged")
    last = await questions.fetch(_LEADER, orders, end - 1, epoch=-1, version=11)
    assert (last.error, last.values) == (0, ("value",)), "not the whole batch that it lies in"
    assert (await questions.fetch(_LEADER, orders, end + 1, epoch=-1, version=11)).error == 1
    assert (await questions.fetch(_FOLLOWER, orders, 0, epoch=-1, version=10)).error == 6
    assert (await questions.epoch_end(_LEADER, orders, 9))[1] == -1
    assert (await questions.epoch_end(_FOLLOWER, orders, 0))[0] == 6
    defaults = await questions.config_defaults(_LEADER, ["replica.lag.time.max.ms", "replica.lag.max.messages"])
    assert defaults == {"replica.lag.time.max.ms": "30000", "replica.lag.max.messages": None}
    assert await questions.configure_broker(_LEADER, {"auto.leader.rebalance.enable": "true"}) == 42
    assert await questions.create_topic(TopicDefinition(name="wide", partitions=1, replication_factor=4)) == 38
    x = Send(topic="orders", partition=0, value=b"x")
    assert await questions.produce(_FOLLOWER, [x], acks="1", timeout_s=1.0) == (6, -1)
    assert await questions.produce(_LEADER, [x, x], acks="all", timeout_s=5.0) == (0, end)
    with pytest.raises(ConnectionResetError):
        await questions.produce(_FOLLOWER, [x], acks="0", timeout_s=1.0)
    with pytest.raises(HarnessError, match="there is no broker 9"):
        await questions.epoch_end(NodeId(9), orders, 0)


async def test_a_broker_shuts_down_by_itself_when_asked(cluster: LocalCluster, load: Load) -> None:
    assert "ended by itself with code 0" in (await cluster.shut_down(_FOLLOWER)).sentence
    assert "runs as process" in (await cluster.start_node(_FOLLOWER)).sentence
    await load.reaches(_FOLLOWER, await load.append())


async def test_after_all_this_no_node_goes_past_the_links(cluster: LocalCluster) -> None:
    assert cluster.leaks() == []
    assert {str(link) for link in cluster.links()} == {
        *("n1>n2", "n1>n3", "n2>n1", "n2>n3", "n3>n1", "n3>n2", "n1>n100", "n2>n100", "n3>n100"),
        *("c1>n1", "c1>n2", "c1>n3", "c2>n1", "c2>n2", "c2>n3"),
    }


async def test_a_second_cluster_beside_it_is_apart_and_leaves_nothing(cluster: LocalCluster, tmp_path: Path) -> None:
    second = _made(tmp_path, ClusterSpec(brokers=(0,)))
    with pytest.raises(HarnessError, match="not running"):
        second.bootstrap(None)
    try:
        await second.start()
        block = _block(second)
        assert block != _block(cluster)
        assert len(_listeners(block)) == 6, "3 of the broker, 1 of the coordination service, 2 of links"
        await second.create_topics([TopicDefinition(name="mine", partitions=1, replication_factor=1)])
        assert await cluster.live_partition_states(["mine"]) == []
    finally:
        await second.stop()
    assert [pid for pid in _written_down(second._run) if state_of(pid)] == []
    assert _listeners(block) == []
    assert second.collect().controllers[0].node == 0


async def test_a_broker_that_refuses_its_settings_is_reported_in_one_line_and_nothing_stays(tmp_path: Path) -> None:
    refused = _made(tmp_path, ClusterSpec(brokers=(1,), settings={"replica.lag.time.max.ms": "x"}))
    try:
        with pytest.raises(HarnessError) as error:
            await refused.start()
        block = _block(refused)
    finally:
        await refused.stop()
    assert "\n" not in str(error.value)
    assert "broker 1 ended with code" in str(error.value)
    log = refused._folders(_LEADER).log
    assert str(log) in str(error.value)
    assert "replica.lag.time.max.ms" in log.read_text()
    assert [pid for pid in _written_down(refused._run) if state_of(pid)] == []
    assert _listeners(block) == []
