"""Brokers with damaged or truncated disks: what they do, and that they report it."""

import json
import logging
from pathlib import Path

import pytest

from reference_impl.runtime.in_process import InProcessCluster
from reference_impl.storage.log import Log
from tests.reference_impl.runtime.conftest import running_cluster
from tests.reference_impl.runtime.test_cluster import ORDERS, create_topic, isr, read_all, send

pytestmark = pytest.mark.cluster


def flip(tmp_path: Path, broker: int, position: int) -> None:
    """The highest bit of a byte but one, in the first segment of the broker's replica."""
    path = tmp_path / str(broker) / "data" / "orders-0" / f"{0:020d}.log"
    data = bytearray(path.read_bytes())
    data[position] ^= 0x40
    path.write_bytes(data)


@pytest.mark.parametrize("damaged", [2, 3])
async def test_a_base_offset_that_jumps_is_cut_off_reported_and_copied_anew(
    cluster: InProcessCluster, tmp_path: Path, damaged: int
) -> None:
    await create_topic(cluster)
    for value in range(4):
        await send(cluster, [value])
    await cluster.until(lambda: cluster.brokers[3].replicas.partitions[ORDERS].log.log_end_offset == 4)
    whole = cluster.brokers[3].replicas.partitions[ORDERS].log.all_batches()
    await cluster.kill(3)
    flip(tmp_path, 3, len(whole) // 4 * damaged + 3)  # of one of four equal batches
    await cluster.start_broker(3)
    await cluster.until(lambda: cluster.brokers[3].replicas.partitions[ORDERS].log.log_end_offset == 4)
    assert cluster.brokers[3].replicas.partitions[ORDERS].log.all_batches() == whole
    journals = (tmp_path / "3").rglob("*.jsonl")
    stored = [json.loads(line) for journal in journals for line in journal.read_text().splitlines()]
    (cut,) = [event for event in stored if event["event"] == "truncation"]
    assert (cut["from_offset"], cut["to_offset"], cut["reason"]) == (4, damaged, "corrupt batch found in recovery")


async def test_a_follower_says_which_batch_of_its_leader_it_cannot_take(
    cluster: InProcessCluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await create_topic(cluster)
    await send(cluster, [0])
    await cluster.kill(3)
    await cluster.until(lambda: isr(cluster) == {1, 2})
    await send(cluster, [1])
    size = cluster.brokers[1].replicas.partitions[ORDERS].log.segments[0].size
    flip(tmp_path, 1, size // 2 + 12)  # the leader epoch of the second batch, under the running leader
    await cluster.start_broker(3)
    why = "orders-0: what leader 1 sends cannot be copied (the batch at offset 1 is of leader epoch 1073741824"
    await cluster.until(lambda: why in caplog.text)
    assert [record.levelno for record in caplog.records if why in record.getMessage()] == [logging.ERROR]


async def test_what_replaces_a_cut_tail_is_flushed_as_flush_messages_says(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, settings={"log.flush.interval.messages": "1"}) as cluster:
        await create_topic(cluster)
        await send(cluster, range(10))
        follower = cluster.brokers[3].replicas.partitions[ORDERS]
        await cluster.until(lambda: follower.log.log_end_offset == 10)
        follower.truncate_out_of_range(0, 4)
        await cluster.until(lambda: follower.log.log_end_offset == 10)
        assert isinstance(follower.log, Log)
        assert follower.log.recovery_point == 10
        assert await read_all(cluster) == [(value, value) for value in range(10)]
