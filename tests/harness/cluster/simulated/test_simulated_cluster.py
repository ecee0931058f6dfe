"""A simulated cluster tells of its nodes what processes would: why one does not start, and when and how one ends."""

import asyncio
import contextvars
import logging
from pathlib import Path

import pytest

from harness.cluster.simulated.cluster import SimulatedCluster
from harness.cluster.simulated.machines import Machine, context_on
from harness.cluster.simulated.node_logs import nodes_log
from harness.cluster.simulated.nodes import RunningNode
from harness.errors import HarnessError
from harness.host.clock import Clock
from harness.ports.cluster import NodeId, Send, TopicDefinition
from harness.ports.faults import NothingToStrike
from reference_impl.storage.log_directory import CLEAN_SHUTDOWN_FILE
from tests.harness.cluster.simulated.simulated_cluster import in_a_cluster

pytestmark = pytest.mark.cluster

BROKER = NodeId(1)


def test_why_a_node_does_not_start_is_in_its_log_and_in_the_error(tmp_path: Path) -> None:
    folder = tmp_path / "nodes" / "1"

    async def work(cluster: SimulatedCluster, clock: Clock) -> None:
        await cluster.kill(BROKER)
        (folder / "config" / "hosts").write_text("alone", encoding="utf-8")
        with pytest.raises(HarnessError, match="broker 1 cannot start: ConfigurationError"):
            await cluster.start_node(BROKER)

    in_a_cluster(tmp_path, work)

    assert "broker 1 cannot start: ConfigurationError" in (folder / "log").read_text()


@pytest.mark.parametrize("context", [contextvars.copy_context(), context_on(Machine(name="worker-1"))])
def test_what_is_logged_and_is_no_nodes_is_the_harnesss(
    context: contextvars.Context, capsys: pytest.CaptureFixture[str]
) -> None:
    with nodes_log():
        context.run(logging.getLogger("asyncio").error, "Task exception was never retrieved")

    assert "ERROR asyncio: Task exception was never retrieved" in capsys.readouterr().err


class _Node:
    """One that never ends when it is asked to, or takes a while to be abandoned; set `failed` and it cannot work."""

    def __init__(self) -> None:
        self.failed: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()
        self.stops = 0

    async def stop(self) -> None:
        self.stops += 1
        await asyncio.sleep(3600)

    async def abandon(self) -> None:
        await asyncio.sleep(1)


async def _with_another_node_in_its_place(cluster: SimulatedCluster) -> _Node:
    """As if it had come so far only to hang or to fail."""
    await cluster.kill(BROKER)
    node = _Node()

    async def begin() -> RunningNode:
        return node

    cluster._begins(BROKER, begin())
    await asyncio.sleep(0.1)
    return node


def test_a_node_that_does_not_end_by_itself_is_told_after_15_seconds(tmp_path: Path) -> None:
    took_s: list[float] = []

    async def work(cluster: SimulatedCluster, clock: Clock) -> None:
        await _with_another_node_in_its_place(cluster)
        began_ns = clock.monotonic_ns()
        with pytest.raises(HarnessError, match=r"broker 1 did not end within 15 s of SIGTERM; see .*nodes/1/log"):
            await cluster.shut_down(BROKER)
        took_s.append((clock.monotonic_ns() - began_ns) / 1e9)
        assert cluster.is_running(BROKER)

    in_a_cluster(tmp_path, work)

    assert took_s == [pytest.approx(15, abs=0.1)]


def test_a_node_that_fails_and_is_killed_at_once_ends_once_and_its_next_life_goes_on(tmp_path: Path) -> None:
    async def work(cluster: SimulatedCluster, clock: Clock) -> None:
        node = await _with_another_node_in_its_place(cluster)
        node.failed.set_result(OSError("no disk"))
        await asyncio.sleep(0)
        await cluster.kill(BROKER)
        assert not cluster.is_running(BROKER)
        await cluster.start_node(BROKER)
        await asyncio.sleep(5)
        assert cluster.is_running(BROKER)
        assert not cluster._endings, "what has ended is not kept"

    in_a_cluster(tmp_path, work)


async def _is_not_there_and_has_not_ended_cleanly(cluster: SimulatedCluster, folder: Path) -> None:
    assert not cluster.is_running(BROKER)
    await asyncio.sleep(60)
    assert not (folder / "data" / CLEAN_SHUTDOWN_FILE).exists()
    assert "broker 1 stopped" not in (folder / "log").read_text()
    await cluster.start_node(BROKER)
    assert "ended by itself" in (await cluster.shut_down(BROKER)).sentence
    assert (folder / "data" / CLEAN_SHUTDOWN_FILE).exists(), "its next life can end cleanly"


def test_a_kill_ends_a_stop_that_has_taken_too_long(tmp_path: Path) -> None:
    async def work(cluster: SimulatedCluster, clock: Clock) -> None:
        await cluster.pause(BROKER)
        with pytest.raises(HarnessError, match="did not end within 15 s"):
            await cluster.shut_down(BROKER)
        await cluster.kill(BROKER)
        await _is_not_there_and_has_not_ended_cleanly(cluster, tmp_path / "nodes" / "1")

    in_a_cluster(tmp_path, work)


def test_a_kill_ends_a_stop_that_is_still_waited_for_and_whoever_waits_is_told(tmp_path: Path) -> None:
    async def work(cluster: SimulatedCluster, clock: Clock) -> None:
        waiting = asyncio.create_task(cluster.shut_down(BROKER))
        await asyncio.sleep(0.000_1)
        await cluster.kill(BROKER)
        assert "for another reason than SIGTERM" in (await waiting).sentence
        await _is_not_there_and_has_not_ended_cleanly(cluster, tmp_path / "nodes" / "1")

    in_a_cluster(tmp_path, work)


def test_a_node_is_asked_to_end_once_however_often_it_is_shut_down(tmp_path: Path) -> None:
    async def work(cluster: SimulatedCluster, clock: Clock) -> None:
        node = await _with_another_node_in_its_place(cluster)
        for _ in range(2):
            with pytest.raises(HarnessError, match="did not end within 15 s"):
                await cluster.shut_down(BROKER)
        assert node.stops == 1

    in_a_cluster(tmp_path, work)


def _topic_made(cluster: SimulatedCluster) -> TopicDefinition:
    return TopicDefinition(name="orders", partitions=1, replication_factor=1)


async def _written(cluster: SimulatedCluster, count: int) -> None:
    for number in range(count):
        record = Send(topic="orders", partition=0, value=b"v%d" % number)
        error, _ = await cluster.questions().produce(BROKER, [record], acks="all", timeout_s=5)
        assert error == 0


def test_a_power_loss_takes_what_was_not_synced_and_says_from_where(tmp_path: Path) -> None:
    async def work(cluster: SimulatedCluster, clock: Clock) -> None:
        await cluster.create_topics([_topic_made(cluster)])
        await _leads(cluster)
        await _written(cluster, 20)
        await cluster.kill(BROKER)
        assert cluster.log_end(BROKER, "orders", 0) == 20
        evidence = await cluster.lose_unsynced(BROKER)
        (lost,) = (each for each in evidence.destroyed if each.topic == "orders")
        end = cluster.log_end(BROKER, "orders", 0) or 0
        assert lost.from_offset == end < 20
        await cluster.start_node(BROKER)
        await _leads(cluster)
        await _written(cluster, 1)

    in_a_cluster(tmp_path, work)


@pytest.mark.parametrize("torn", [False, True])
def test_a_kill_at_a_write_leaves_the_log_as_it_was_and_the_node_starts_again(tmp_path: Path, torn: bool) -> None:
    async def work(cluster: SimulatedCluster, clock: Clock) -> None:
        await cluster.create_topics([_topic_made(cluster)])
        await _leads(cluster)
        await _written(cluster, 5)
        killing = asyncio.create_task(cluster.kill_at_write(BROKER, nth=1, torn=torn, within_s=5))
        await asyncio.sleep(0)
        record = Send(topic="orders", partition=0, value=b"never there")
        with pytest.raises((OSError, TimeoutError)):
            await cluster.questions().produce(BROKER, [record], acks="all", timeout_s=2)
        assert "before a write of" in (await killing).sentence
        assert cluster.log_end(BROKER, "orders", 0) == 5
        await cluster.start_node(BROKER)
        await _leads(cluster)
        assert cluster.log_end(BROKER, "orders", 0) == 5

    in_a_cluster(tmp_path, work)


def test_a_kill_at_a_write_strikes_no_life_that_ended_before_and_none_that_came_after_it(tmp_path: Path) -> None:
    async def work(cluster: SimulatedCluster, clock: Clock) -> None:
        await cluster.create_topics([_topic_made(cluster)])
        await _leads(cluster)
        killing = asyncio.create_task(cluster.kill_at_write(BROKER, nth=1000, torn=False, within_s=60))
        await asyncio.sleep(0)
        began_ns = clock.monotonic_ns()
        await cluster.kill(BROKER)
        with pytest.raises(NothingToStrike, match="had not changed its disk 1000 times before it ended"):
            await killing
        assert clock.monotonic_ns() - began_ns < 10e9
        await cluster.start_node(BROKER)
        await _leads(cluster)
        await _written(cluster, 5)
        assert cluster.is_running(BROKER)

    in_a_cluster(tmp_path, work)


def test_a_broker_ends_when_its_disk_fails_and_has_what_was_acknowledged_when_it_is_back(tmp_path: Path) -> None:
    async def work(cluster: SimulatedCluster, clock: Clock) -> None:
        await cluster.create_topics([_topic_made(cluster)])
        await _leads(cluster)
        await _written(cluster, 5)
        failing = asyncio.create_task(cluster.fail_at_write(BROKER, nth=1, within_s=10))
        await asyncio.sleep(0)
        record = Send(topic="orders", partition=0, value=b"refused")
        with pytest.raises((OSError, TimeoutError)):
            await cluster.questions().produce(BROKER, [record], acks="all", timeout_s=2)
        assert "refused a write (EIO), and it ended" in (await failing).sentence
        assert not cluster.is_running(BROKER)
        await cluster.start_node(BROKER)
        await _leads(cluster)
        assert cluster.log_end(BROKER, "orders", 0) == 5
        await _written(cluster, 1)

    in_a_cluster(tmp_path, work)


def test_a_broker_halts_on_a_full_disk_and_goes_on_when_there_is_room(tmp_path: Path) -> None:
    async def work(cluster: SimulatedCluster, clock: Clock) -> None:
        await cluster.create_topics([_topic_made(cluster)])
        await _leads(cluster)
        await cluster.fill_disk(BROKER)
        record = Send(topic="orders", partition=0, value=b"no room")
        with pytest.raises((OSError, TimeoutError)):
            await cluster.questions().produce(BROKER, [record], acks="all", timeout_s=2)
        assert not cluster.is_running(BROKER)
        await cluster.free_disk(BROKER)
        await cluster.start_node(BROKER)
        await _leads(cluster)
        await _written(cluster, 1)

    in_a_cluster(tmp_path, work)


async def _leads(cluster: SimulatedCluster) -> None:
    async with asyncio.timeout(30):
        while not any(each.leader == BROKER for each in await cluster.live_partition_states(["orders"])):
            await asyncio.sleep(0.1)
