"""What a broker does while its disk is slow, and what it does only after the disk has finished."""

import asyncio
import os
import threading
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic

from reference_impl.core.identifiers import TopicPartition
from reference_impl.core.leader_epochs import EpochEntry
from reference_impl.core.state import PartitionState
from reference_impl.runtime.broker import Broker
from reference_impl.runtime.controller.controller import ControllerRole
from reference_impl.runtime.disk_work import DiskEffects
from reference_impl.runtime.handlers.fetch import FetchHandler
from reference_impl.runtime.in_process import InProcessCluster
from reference_impl.storage.checkpoints import read_epochs, read_offsets
from reference_impl.storage.epoch_checkpoint import EpochCheckpoint
from reference_impl.storage.log_directory import LogDirectory
from reference_impl.wire.api_keys import ApiKey
from reference_impl.wire.key_values import KeyValue, key_value_batch
from reference_impl.wire.messages import decode_request, encode_request, request_class
from reference_impl.wire.record_batches import stamp
from tests.reference_impl.runtime.conftest import running_cluster
from tests.reference_impl.runtime.gated_disk import GatedDisk
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.cluster

ORDERS, PAYMENTS = TopicPartition("orders", 0), TopicPartition("payments", 0)
SLOW, OTHER = 1, 2
Gated = tuple[InProcessCluster, GatedDisk]


@pytest.fixture
async def slow(tmp_path: Path) -> AsyncIterator[Gated]:
    """Broker SLOW has a gated disk; its timers write nothing by themselves."""
    disks = {broker: GatedDisk() for broker in (1, 2, 3)}
    never = str(10**9)
    settings = {
        "replica.high.watermark.checkpoint.interval.ms": never,
        "log.flush.offset.checkpoint.interval.ms": never,
        "log.flush.start.offset.checkpoint.interval.ms": never,
        "min.insync.replicas": "1",
    }
    async with running_cluster(tmp_path, settings=settings, disk_work=disks.__getitem__) as cluster:
        yield cluster, disks[SLOW]


async def administered(cluster: InProcessCluster, action: str, *arguments: Any) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=cluster.bootstrap)
    await admin.start()
    try:
        await getattr(admin, action)(*arguments)
    finally:
        await admin.close()


async def create(cluster: InProcessCluster, topic: str, *replicas: list[int], **configs: str) -> None:
    assignments = dict(enumerate(replicas))
    await administered(
        cluster, "create_topics", [NewTopic(topic, -1, -1, replica_assignments=assignments, topic_configs=configs)]
    )


def leads(cluster: InProcessCluster, broker: int, key: TopicPartition = ORDERS) -> bool:
    partition = cluster.brokers[broker].replicas.partitions.get(key)
    return partition is not None and partition.is_leader


async def send(cluster: InProcessCluster, topic: str, partition: int = 0, *, acks: Any = "all") -> None:
    producer = AIOKafkaProducer(bootstrap_servers=cluster.bootstrap, acks=acks)
    await producer.start()
    try:
        await producer.send_and_wait(topic, b"value", partition=partition)
    finally:
        await producer.stop()


@asynccontextmanager
async def sending(cluster: InProcessCluster) -> AsyncIterator[None]:
    """Records to ORDERS all the time, one behind the other."""
    producer = AIOKafkaProducer(bootstrap_servers=cluster.bootstrap, linger_ms=0)
    await producer.start()
    sent = 0

    async def send_on() -> None:
        nonlocal sent
        while True:
            await producer.send_and_wait("orders", b"value", partition=0)
            sent += 1

    task = asyncio.ensure_future(send_on())
    try:
        await cluster.until(lambda: sent > 10)
        yield
        before = sent
        await cluster.until(lambda: sent > before + 10)
    finally:
        task.cancel()
        await producer.stop()


def state_of(cluster: InProcessCluster, broker: int) -> PartitionState:
    state = cluster.brokers[broker].replicas.partitions[ORDERS].state
    assert state is not None
    return state


def controller_of(broker: Broker) -> ControllerRole | None:
    role = broker._controlling.role
    return role if role is not None and role.controller_epoch != -1 else None


async def test_the_loop_waits_for_no_fsync_whatever_topics_and_leaders_do(
    cluster: InProcessCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_the_loop: list[str] = []
    elsewhere = 0
    real = os.fsync

    def fsync(descriptor: int) -> None:
        nonlocal elsewhere
        if threading.current_thread() is threading.main_thread():
            by_the_loop.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        else:
            elsewhere += 1
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    await create(cluster, "orders", *([1, 2, 3] for _ in range(10)))
    await cluster.until(lambda: all(leads(cluster, 1, TopicPartition("orders", number)) for number in range(10)))
    await send(cluster, "orders")
    await administered(cluster, "create_partitions", {"orders": NewPartitions(12)})
    await cluster.until(lambda: any(leads(cluster, broker, TopicPartition("orders", 11)) for broker in (1, 2, 3)))
    await cluster.kill(1)
    await cluster.until(lambda: leads(cluster, 2))
    await send(cluster, "orders")
    await cluster.until(lambda: cluster.brokers[3].replicas.partitions[ORDERS].log.log_end_offset == 2)
    await cluster.until(lambda: 2 in cluster.brokers[3].replicas._checkpointed.values())
    await cluster.start_broker(1)
    await cluster.until(lambda: set(state_of(cluster, 2).isr) == {1, 2, 3})
    async with sending(cluster):
        (controller,) = filter(None, map(controller_of, cluster.brokers.values()))
        await controller.as_controller(lambda term: term.elect([ORDERS], unclean=False))
        await cluster.until(lambda: leads(cluster, 1))
    await administered(cluster, "delete_topics", ["orders"])
    await cluster.until(lambda: not any(broker.replicas.partitions for broker in cluster.brokers.values()))
    assert by_the_loop == []
    assert elsewhere > 40


class Durable:
    """What each leader-epoch-checkpoint would be after a power loss: synced, and its name synced behind it."""

    def __init__(self, patched: pytest.MonkeyPatch) -> None:
        self.checked = 0
        self._synced: dict[str, str] = {}
        self._durable: dict[str, str] = {}
        real_fsync, real_write = os.fsync, EpochCheckpoint.write

        def fsync(descriptor: int) -> None:
            real_fsync(descriptor)
            path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
            if path.name == "leader-epoch-checkpoint.tmp":
                self._synced[str(path.parent)] = path.read_text()
            elif str(path) in self._synced:
                self._durable[str(path)] = self._synced[str(path)]

        def write(checkpoint: EpochCheckpoint, entries: tuple[EpochEntry, ...], sync: bool) -> None:
            real_write(checkpoint, entries, sync)
            if sync:
                lines = self._durable[str(checkpoint._path.parent)].splitlines()[2:]
                assert lines == [f"{epoch} {start}" for epoch, start in entries]
                self.checked += 1

        patched.setattr(os, "fsync", fsync)
        patched.setattr(EpochCheckpoint, "write", write)


async def test_no_epoch_is_used_before_it_would_survive_a_power_loss(
    cluster: InProcessCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    durable = Durable(monkeypatch)
    await create(cluster, "orders", [1, 2, 3], [1, 2, 3])
    await cluster.until(lambda: leads(cluster, 1))
    await send(cluster, "orders")
    await cluster.kill(1)
    await cluster.until(lambda: leads(cluster, 2))
    await send(cluster, "orders")
    await cluster.until(lambda: cluster.brokers[3].replicas.partitions[ORDERS].log.log_end_offset == 2)
    returned = (await cluster.start_broker(1)).replicas.partitions
    await cluster.until(lambda: ORDERS in returned and returned[ORDERS].log.leader_epochs.latest_epoch > 0)
    assert durable.checked >= 2 + 2 + 2 + 2  # first leaders; their followers' or the next leaders; and who returned


async def test_while_the_disk_is_slow_others_are_led_and_no_session_is_lost(slow: Gated, tmp_path: Path) -> None:
    cluster, disk = slow
    await create(cluster, "payments", [SLOW])
    await cluster.until(lambda: leads(cluster, SLOW, PAYMENTS))
    registered = cluster.brokers[SLOW].replicas.broker_epoch
    disk.shut()
    await create(cluster, "orders", [SLOW, OTHER])
    await disk.somebody_waits()
    await send(cluster, "payments")
    # Longer than a session: only heartbeats keep it.
    sessions = float(cluster.config(SLOW).zookeeper_session_timeout_ms) / 1000
    began = asyncio.get_running_loop().time()
    await cluster.until(lambda: asyncio.get_running_loop().time() - began > 1.5 * sessions)
    assert cluster.brokers[SLOW].replicas.broker_epoch == registered
    assert not leads(cluster, SLOW)
    disk.open()
    await cluster.until(lambda: leads(cluster, SLOW))
    await send(cluster, "orders")


async def test_nobody_leads_before_his_replica_and_its_epoch_are_safe_on_disk(slow: Gated, tmp_path: Path) -> None:
    cluster, disk = slow
    disk.shut()
    await create(cluster, "orders", [SLOW, OTHER])
    await disk.somebody_waits()
    assert ORDERS not in cluster.brokers[SLOW].replicas.partitions
    disk.let_one_pass()
    await disk.somebody_waits()
    folder = tmp_path / str(SLOW) / "data" / "orders-0"
    assert ORDERS in cluster.brokers[SLOW].replicas.partitions
    assert (folder / "partition.metadata").exists()
    assert not leads(cluster, SLOW)
    assert read_epochs(folder / "leader-epoch-checkpoint") == []
    disk.let_one_pass()
    await cluster.until(lambda: leads(cluster, SLOW))
    assert read_epochs(folder / "leader-epoch-checkpoint") == [(0, 0)]


async def test_a_follower_that_hears_of_its_leader_first_is_not_sent_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With an error it would retry only after a minute."""
    disks = {broker: GatedDisk() for broker in (1, 2, 3)}
    settings = {
        "replica.fetch.backoff.ms": "60000",
        "replica.fetch.wait.max.ms": "10000",
        "replica.lag.time.max.ms": "30000",
        "replica.socket.timeout.ms": "20000",
    }
    early: list[FetchHandler] = []
    real = FetchHandler._answer_when_leading

    async def noted(handler: FetchHandler, *arguments: Any) -> Any:
        early.append(handler)
        return await real(handler, *arguments)

    monkeypatch.setattr(FetchHandler, "_answer_when_leading", noted)
    async with running_cluster(tmp_path, settings=settings, disk_work=disks.__getitem__) as cluster:
        disks[SLOW].shut()
        await create(cluster, "orders", [SLOW, OTHER])
        await cluster.until(lambda: bool(early))
        assert not leads(cluster, SLOW)
        disks[SLOW].open()
        await send(cluster, "orders")


async def test_a_controllers_request_is_carried_out_although_its_connection_is_gone(slow: Gated) -> None:
    cluster, disk = slow
    broker = cluster.brokers[SLOW]
    entry = request_class(ApiKey.LEADER_AND_ISR).fields["partition_states"].data_class
    state = entry(
        topic="orders",
        topic_id=uuid.UUID(int=5),
        partition=0,
        leader=SLOW,
        leader_epoch=0,
        isr=[SLOW],
        partition_epoch=0,
        replicas=[SLOW],
        controller_epoch=1,
        is_new=True,
    )
    body = request_class(ApiKey.LEADER_AND_ISR)(
        controller_id=broker.metadata.controller_id,
        controller_epoch=broker.replicas.controller_epoch,
        broker_epoch=broker.replicas.broker_epoch,
        is_full=False,
        partition_states=[state],
        live_brokers=[],
    )
    disk.shut()
    asked = asyncio.ensure_future(
        broker.replicas.leader_and_isr(decode_request(encode_request(ApiKey.LEADER_AND_ISR, 0, 1, "c", body)[4:]).body)
    )
    await disk.somebody_waits()
    asked.cancel()
    await asyncio.wait([asked])
    disk.open()
    await cluster.until(lambda: leads(cluster, SLOW))


async def test_a_follower_that_cut_appends_only_when_the_lower_recovery_point_is_on_disk(
    slow: Gated, tmp_path: Path
) -> None:
    cluster, disk = slow
    checkpoint = tmp_path / str(SLOW) / "data" / "recovery-point-offset-checkpoint"
    await create(cluster, "orders", [SLOW, OTHER], **{"unclean.leader.election.enable": "true"})
    await cluster.until(lambda: leads(cluster, SLOW))
    await send(cluster, "orders")
    await cluster.kill(OTHER)
    for _ in range(2):
        await send(cluster, "orders", acks=1)
    log = cluster.brokers[SLOW].replicas._log_directory.logs[ORDERS]
    log.flush()
    await cluster.brokers[SLOW]._disk.checkpoint_recovery_points()
    assert read_offsets(checkpoint)[ORDERS] == 3
    await cluster.kill(SLOW)
    await cluster.start_broker(OTHER)
    await cluster.until(lambda: leads(cluster, OTHER))
    await send(cluster, "orders", acks=1)
    disk.shut()
    returned = (await cluster.start_broker(SLOW)).replicas.partitions[ORDERS]
    async with asyncio.timeout(PATIENCE_S):
        while returned.log.leader_epochs.latest_epoch < 1:
            assert returned.log.log_end_offset in (3, 1)
            if disk.waiting:
                disk.let_one_pass()
            await asyncio.sleep(0)
    assert returned.log.log_end_offset == 2
    assert read_offsets(checkpoint)[ORDERS] == 1
    disk.open()


async def test_what_is_appended_behind_a_cut_counts_as_cleaned_no_more_than_as_flushed(
    tmp_path: Path,
) -> None:
    def append(*offsets: int) -> None:
        for offset in offsets:
            batch = key_value_batch([KeyValue(b"k", b"value")], 0)
            stamp(batch, 0, offset, 0)
            log.append(batch, offset + 1)

    directory = LogDirectory(tmp_path, broker_id=1, segment_bytes=1000)
    effects = DiskEffects(directory, GatedDisk())
    log = directory.create(ORDERS, None)
    await effects.mark_as_compacted([ORDERS])
    append(*range(5))
    log.cleaned_to = 4
    directory.checkpoint_cleaned(directory.cleaned())
    log.truncate_to(2)  # the recovery point is still 0
    await effects.settle_recovery_points()
    append(*range(2, 5))
    directory.abandon()
    again = LogDirectory(tmp_path, broker_id=1, segment_bytes=1000)
    assert again.logs[ORDERS].cleaned_to == 2
    path = tmp_path / str(ORDERS) / f"{0:020d}.log"
    again.abandon()
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 5])
    LogDirectory(tmp_path, broker_id=1, segment_bytes=1000).abandon()
    third = LogDirectory(tmp_path, broker_id=1, segment_bytes=1000)
    assert third.logs[ORDERS].cleaned_to == 1
    third.abandon()


async def test_a_cut_log_waits_for_one_file_and_not_for_those_of_all_logs_of_a_topic_that_compacts_now(
    tmp_path: Path,
) -> None:
    disk = GatedDisk()
    directory = LogDirectory(tmp_path, broker_id=1, segment_bytes=1000)
    effects = DiskEffects(directory, disk)
    keys = [TopicPartition("many", number) for number in range(5)]
    await effects.create([(key, None) for key in (ORDERS, *keys)])
    log = directory.logs[ORDERS]
    batch = key_value_batch([KeyValue(b"k", b"value")], 0)
    log.append(batch, 1)
    log.flush()
    disk.shut()
    marking = asyncio.ensure_future(effects.mark_as_compacted(keys))
    await disk.somebody_waits()
    log.truncate_to(0)
    settling = asyncio.ensure_future(effects.settle_recovery_points())
    for _ in range(2):  # the file that is being written, then the checkpoint
        await disk.somebody_waits()
        await asyncio.sleep(0)
        disk.let_one_pass()
    async with asyncio.timeout(PATIENCE_S):
        await settling
    assert [directory.logs[key].cleaned_to for key in keys] == [0, None, None, None, None]
    disk.open()
    await marking
    assert [directory.logs[key].cleaned_to for key in keys] == [0] * 5
    directory.abandon()


async def test_a_namesake_inherits_no_high_watermark_from_a_checkpoint_that_was_slow(tmp_path: Path) -> None:
    disk = GatedDisk()
    directory = LogDirectory(tmp_path, broker_id=1, segment_bytes=1000)
    effects = DiskEffects(directory, disk)
    await effects.create([(ORDERS, uuid.UUID(int=1)), (PAYMENTS, uuid.UUID(int=2))])
    known: list[TopicPartition] = []
    disk.shut()
    checkpointing = asyncio.ensure_future(
        effects.checkpoint_high_watermarks(lambda: {ORDERS: 7, PAYMENTS: 8}, known.extend)
    )
    await disk.somebody_waits()
    deleting = asyncio.ensure_future(effects.delete([ORDERS], lambda: known.remove(ORDERS)))
    disk.open()
    await asyncio.gather(checkpointing, deleting)
    assert known == [PAYMENTS]
    assert directory.read_high_watermarks() == {PAYMENTS: 8}
    directory.abandon()


async def test_a_replica_whose_folder_does_not_say_whose_it_is_learns_it(cluster: InProcessCluster) -> None:
    await create(cluster, "orders", [1, 2])
    await cluster.until(lambda: leads(cluster, 1))
    topic_id = cluster.brokers[1].replicas.topic_id(ORDERS)
    await cluster.kill(2)
    folder = cluster.config(2).log_directory / "orders-0"
    (folder / "partition.metadata").unlink()  # killed when it had just made it
    again = await cluster.start_broker(2)
    await cluster.until(lambda: again.replicas.topic_id(ORDERS) == topic_id)
    assert (folder / "partition.metadata").exists()
