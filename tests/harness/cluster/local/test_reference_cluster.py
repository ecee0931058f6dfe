"""Tests that need a cluster of their own: clients' links, the exact records after crashes, and a killed harness.

The single faults, on one shared cluster, are in test_local_cluster.py.
"""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from kafka import KafkaProducer
from kafka.errors import KafkaError

from harness.cluster.catalogue import system_of
from harness.cluster.local.cluster import LocalCluster
from harness.cluster.local.ownership import RunOwnership, processes_of, sweep
from harness.cluster.local.processes import state_of
from harness.errors import HarnessError
from harness.history.run_folder import RunFolder
from harness.host.clock import SystemClock
from harness.ports.cluster import ClientId, Link, NodeId, SeesNodesEnd, TopicDefinition
from harness.scenario.model import ClusterSpec
from tests.waiting import PATIENCE_S, until

pytestmark = pytest.mark.cluster

_TOPIC = "orders"
_ONE, _TWO, _THREE = NodeId(1), NodeId(2), NodeId(3)


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[LocalCluster]:
    """Broker 1 is the controller and leads the only partition; 2 and 3 follow."""
    run = RunFolder.create(tmp_path, scenario="local", clock=SystemClock(), seed=1, stamp="test")
    spec = ClusterSpec(brokers=(1, 2, 3))
    made = LocalCluster(run_path=run.path, system=system_of(spec), client_links=2, clock=SystemClock())
    try:
        await made.start()
        await made.create_topics([TopicDefinition(name=_TOPIC, assignment=((1, 2, 3),))])
        await _until(lambda: _is_led_by_one(made))
        yield made
    finally:
        await made.stop()


async def _until(holds: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not await holds():
            await asyncio.sleep(0.02)


async def _is_led_by_one(cluster: LocalCluster) -> bool:
    states = await cluster.live_partition_states([_TOPIC])
    return [(state.leader, state.isr) for state in states] == [(1, (1, 2, 3))] * 3


def _produce(bootstrap: str, *, limit_s: float = 10.0) -> None:
    producer = KafkaProducer(
        bootstrap_servers=bootstrap.split(","),
        acks=1,
        enable_idempotence=False,
        max_block_ms=int(limit_s * 1000),
        bootstrap_timeout_ms=int(limit_s * 1000),
    )
    try:
        producer.send(_TOPIC, b"value", partition=0).get(limit_s)
    finally:
        producer.close(1)


async def _reaches(cluster: LocalCluster, end: int, *nodes: NodeId) -> None:
    async def holds() -> bool:
        return all(cluster.log_end(node, _TOPIC, 0) == end for node in nodes)

    await _until(holds)


async def _is_told(cluster: LocalCluster, event: str, node: NodeId) -> bool:
    return any((each.event, each.node) == (event, node) for each in cluster.collect().broker_events)


async def test_a_client_is_cut_by_its_own_links_alone(cluster: LocalCluster) -> None:
    links = [Link(client=ClientId(1), target=broker) for broker in (_ONE, _TWO, _THREE)]
    await cluster.cut(links, mode="reset")
    with pytest.raises(KafkaError):
        await asyncio.to_thread(_produce, cluster.bootstrap(ClientId(1)), limit_s=1.0)
    assert cluster.log_end(_ONE, _TOPIC, 0) == 0
    await asyncio.to_thread(_produce, cluster.bootstrap(ClientId(2)))
    await cluster.heal(links)
    await asyncio.to_thread(_produce, cluster.bootstrap(ClientId(1)))
    await _reaches(cluster, 2, _ONE, _TWO, _THREE)


async def test_an_end_that_nobody_ordered_is_seen_and_faults_go_on_with_a_node_that_is_down(
    cluster: LocalCluster,
) -> None:
    pid = _pid(cluster, _TWO)
    os.kill(pid, signal.SIGKILL)
    until(lambda: state_of(pid) == "")  # blocks the loop: the process is gone, and nobody here has heard of it
    with pytest.raises(HarnessError, match=r"broker 2 is not running: process \d+ has ended by itself"):
        await cluster.pause(_TWO)
    assert "is not running any more" in (await cluster.resume(_TWO)).sentence
    assert (await cluster.kill(_TWO)).sentence == "broker 2 had ended with code -9 by itself before SIGKILL"
    [end] = cluster.node_ends()
    assert (end.node, end.signal, end.exit_status, end.reason, end.back_ns) == (
        _TWO,
        signal.SIGKILL,
        None,
        "none",
        None,
    )
    await cluster.start_node(_TWO)
    [end] = cluster.node_ends()
    assert end.back_ns is not None
    assert end.back_ns > end.t_ns


async def test_what_the_harness_ends_is_no_end_of_its_own(cluster: LocalCluster) -> None:
    await cluster.kill(_TWO)
    await cluster.start_node(_TWO)
    await cluster.shut_down(_TWO)
    assert isinstance(cluster, SeesNodesEnd)
    assert cluster.node_ends() == ()
    with pytest.raises(HarnessError, match="is not running"):
        await cluster.kill(_TWO)


async def test_a_broker_that_is_told_to_stop_by_somebody_ends_in_order(cluster: LocalCluster) -> None:
    os.kill(_pid(cluster, _THREE), signal.SIGTERM)

    async def ended() -> bool:
        return bool(cluster.node_ends())

    await _until(ended)
    [end] = cluster.node_ends()
    assert (end.node, end.signal, end.exit_status, end.reason) == (_THREE, None, 0, "none")


def _pid(cluster: LocalCluster, node: NodeId) -> int:
    return next(int(each["process"]) for each in cluster.whereabouts() if each["node"] == node)


async def test_the_books_tell_leaders_controllers_registrations_lost_disks_and_settings(
    cluster: LocalCluster,
) -> None:
    await cluster.set_topic_config(_TOPIC, {"min.insync.replicas": "2"})
    assert await cluster.elect(_TOPIC, 0, kind="preferred") == 84  # ELECTION_NOT_NEEDED: 1 leads already
    await cluster.kill(_THREE)
    await cluster.wipe(_THREE)
    await cluster.start_node(_THREE)
    await _until(lambda: _is_told(cluster, "directory_lost", _THREE))
    await cluster.kill(_ONE)

    async def is_led_by_two() -> bool:
        states = await cluster.live_partition_states([_TOPIC])
        return any(state.leader == _TWO and state.observer == _TWO for state in states)

    await _until(is_led_by_two)
    assert await cluster.controller() in (_TWO, _THREE)
    await cluster.stop()
    reported = cluster.collect()
    assert (reported.partition_states[0].leader, reported.partition_states[0].isr) == (1, (1, 2, 3))
    assert reported.partition_states[0].replicas == (1, 2, 3)
    assert reported.partition_states[-1].leader == 2
    assert all(state.exact for state in reported.partition_states)
    epochs = [state.partition_epoch for state in reported.partition_states]
    assert epochs == list(range(len(epochs))), "every change of the partition is there"
    assert reported.controllers[0].node == 1
    assert reported.controllers[-1].node in (2, 3)
    assert (reported.controllers[-1].controller_epoch or 0) == (reported.controllers[0].controller_epoch or 0) + 1
    assert ("min.insync.replicas", "2") in [(change.key, change.value) for change in reported.configuration]
    seen = {(event.event, event.node) for event in reported.broker_events}
    assert {("broker_registered", _ONE), ("broker_gone", _ONE), ("directory_lost", _THREE)} <= seen
    times = [state.t_ns for state in reported.partition_states]
    assert times == sorted(times)
    assert 0 <= time.monotonic_ns() - times[0] < 120 * 10**9, "on the run's own axis"


_HOLDER = """
import asyncio, pathlib, sys
from harness.cluster.catalogue import system_of
from harness.host.clock import SystemClock
from harness.cluster.local.cluster import LocalCluster
from harness.cluster.local.ownership import RunOwnership
from harness.scenario.model import ClusterSpec
from tests.waiting import PATIENCE_S, until

async def main() -> None:
    spec = ClusterSpec(brokers=(1,), settings={"default.replication.factor": "1"})
    run = pathlib.Path(sys.argv[1])
    cluster = LocalCluster(run_path=run, system=system_of(spec), client_links=1, clock=SystemClock())
    await cluster.start()
    print("ready", flush=True)
    await asyncio.Event().wait()

with RunOwnership(pathlib.Path(sys.argv[1])):
    asyncio.run(main())
"""


def test_a_harness_killed_in_the_middle_leaves_no_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    run = RunFolder.create(tmp_path, scenario="local", clock=SystemClock(), seed=1, stamp="test").path
    holder = subprocess.Popen([sys.executable, "-c", _HOLDER, str(run)], stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "ready\n"
        assert len(list(processes_of(run))) == 3
    finally:
        holder.send_signal(signal.SIGKILL)
        holder.wait(10)
        if holder.stdout is not None:
            holder.stdout.close()
    sweep()
    until(lambda: all(state_of(pid) in ("", "Z") for pid in processes_of(run)), "the end of its processes")
    with RunOwnership(run):
        pass  # and the folder is free
