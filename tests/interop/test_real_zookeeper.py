"""The reference's brokers with a real ZooKeeper (the one of Kafka 3.9.1) in place of our coordination service: the same
failovers. What ZooKeeper holds is read by kazoo."""

import signal
from collections.abc import Iterator

import pytest
from kafka import KafkaProducer

from tests.interop.kafka_tools import kafka_home
from tests.interop.zookeeper_cluster import SLOW_MACHINE_S, WithRealZookeeper, all_in_sync, create, read, write
from tests.reference_impl.runtime.broker_processes import BROKERS, COORDINATION, running
from tests.waiting import until

HOME = kafka_home("3.9.1")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WithRealZookeeper]:
    with running(WithRealZookeeper(tmp_path_factory.mktemp("cluster"), HOME)) as made:
        assert made.zookeeper_version().startswith("Zookeeper version: 3.8.4")
        yield made


@pytest.fixture
def producer(cluster: WithRealZookeeper) -> Iterator[KafkaProducer]:
    made = KafkaProducer(bootstrap_servers=cluster.bootstrap, request_timeout_ms=1500, retry_backoff_ms=50)
    yield made
    made.close()


def controller(cluster: WithRealZookeeper) -> int:
    """-1 while there is none."""
    office = cluster.znode("/controller")
    return -1 if office is None else int(office["brokerid"])


def test_a_killed_leader_is_followed_by_the_next_of_the_assignment_and_comes_back_in_sync(
    cluster: WithRealZookeeper, producer: KafkaProducer
) -> None:
    create(cluster, "killed", [2, 3, 1])
    write(producer, "killed", range(100))
    cluster.end(2)
    until(lambda: cluster.state("killed")["leader"] != 2)
    state = cluster.state("killed")
    assert (state["leader"], state["leader_epoch"], sorted(state["isr"])) == (3, 1, [1, 3])

    write(producer, "killed", range(100, 200))
    cluster.start_broker(2)
    all_in_sync(cluster, "killed")
    assert cluster.state("killed")["leader"] == 3
    assert read(cluster, "killed", 200) == [b"%d" % number for number in range(200)]


def test_a_killed_controller_is_followed_by_another_with_the_next_epoch(
    cluster: WithRealZookeeper, producer: KafkaProducer
) -> None:
    until(lambda: controller(cluster) in BROKERS)
    old, epoch = controller(cluster), cluster.znode("/controller_epoch")
    others = [broker for broker in BROKERS if broker != old]
    create(cluster, "led", [old, *others])
    write(producer, "led", range(10))
    all_in_sync(cluster, "led")  # only then is the first of the others the next leader
    cluster.end(old)
    until(lambda: controller(cluster) in others)
    assert cluster.znode("/controller_epoch") == epoch + 1
    until(lambda: cluster.state("led")["leader"] == others[0])
    assert cluster.state("led")["controller_epoch"] == epoch + 1

    create(cluster, "created-by-the-next", others)
    write(producer, "created-by-the-next", range(10))
    write(producer, "led", range(10, 20))
    cluster.start_broker(old)
    all_in_sync(cluster, "led")
    assert cluster.znode("/controller_epoch") == epoch + 1


def test_a_broker_whose_session_expires_while_it_sleeps_wakes_as_no_leader_and_no_controller(
    cluster: WithRealZookeeper, producer: KafkaProducer
) -> None:
    until(lambda: controller(cluster) in BROKERS)
    asleep, epoch = controller(cluster), cluster.znode("/controller_epoch")
    others = [broker for broker in BROKERS if broker != asleep]
    create(cluster, "slept", [asleep, *others])
    write(producer, "slept", range(10))
    all_in_sync(cluster, "slept")  # only then is the first of the others the next leader
    registered = cluster.znode(f"/brokers/ids/{asleep}")
    cluster.running[asleep].send_signal(signal.SIGSTOP)
    try:
        until(lambda: cluster.znode(f"/brokers/ids/{asleep}") is None)
        until(lambda: cluster.state("slept")["leader"] == others[0])
        write(producer, "slept", range(10, 20))
    finally:
        cluster.running[asleep].send_signal(signal.SIGCONT)
    all_in_sync(cluster, "slept")
    assert cluster.znode(f"/brokers/ids/{asleep}")["timestamp"] != registered["timestamp"]
    assert controller(cluster) in others
    assert cluster.znode("/controller_epoch") == epoch + 1
    assert cluster.state("slept")["leader"] == others[0]
    write(producer, "slept", range(20, 30))
    assert read(cluster, "slept", 30) == [b"%d" % number for number in range(30)]


def test_zookeeper_may_die_and_return_and_the_brokers_still_fail_over(
    cluster: WithRealZookeeper, producer: KafkaProducer
) -> None:
    create(cluster, "unattended", [3, 1, 2])
    write(producer, "unattended", range(10))
    cluster.end(COORDINATION)
    write(producer, "unattended", range(10, 20))
    cluster.start_coordination()
    until(lambda: len(cluster.children("/brokers/ids")) == len(BROKERS), timeout_s=SLOW_MACHINE_S)
    cluster.end(3)
    until(lambda: cluster.state("unattended")["leader"] == 1)
    write(producer, "unattended", range(20, 30))
    assert read(cluster, "unattended", 30) == [b"%d" % number for number in range(30)]
    cluster.start_broker(3)
    all_in_sync(cluster, "unattended")
