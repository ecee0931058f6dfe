"""What was on its way when its transaction ended begins no other one (KIP-890; docs/replication.md R86)."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from aiokafka import TopicPartition

from reference_impl.core.identifiers import ErrorCode
from reference_impl.core.identifiers import TopicPartition as Key
from reference_impl.core.transactions.transaction import TransactionState
from reference_impl.runtime.in_process import InProcessCluster
from reference_impl.wire.api_keys import ApiKey
from reference_impl.wire.key_values import KeyValue, Producer, key_value_batch
from reference_impl.wire.messages import request_class
from reference_impl.wire.record_batches import read_header
from reference_impl.wire.record_timestamps import stamp_max_timestamp
from tests.reference_impl.raw_client import ask, produce_request
from tests.reference_impl.runtime.conftest import running_cluster
from tests.reference_impl.runtime.test_disk_work import create
from tests.reference_impl.runtime.test_groups import create_topic
from tests.reference_impl.runtime.test_transactions import GROUP, ID, SETTINGS, leader_of, read, state, writer

pytestmark = pytest.mark.cluster

TxnOffsetCommitRequest = request_class(ApiKey.TXN_OFFSET_COMMIT)
Topic = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic


async def ended_transaction(cluster: InProcessCluster) -> Producer:
    """Of a record in partition 0 and an offset of the group, all of it over: until its coordinator has noted that every
    marker is written, what is late is answered "not now"."""
    async with writer(cluster) as client:
        async with client.transaction():
            await client.send_and_wait("orders", b"0", partition=0)
            await client.send_offsets_to_transaction({TopicPartition("orders", 0): 5}, GROUP)
        manager: Any = client._txn_manager
        await cluster.until(lambda: state(cluster) is TransactionState.COMPLETE_COMMIT)
        return Producer(manager.producer_id, manager.producer_epoch)


async def asked(cluster: InProcessCluster, leader: int | None, api_key: int, version: int, body: Any) -> Any:
    assert leader is not None
    return await asyncio.to_thread(ask, cluster.client_address(leader), api_key, version, body)


def batch_of(producer: Producer) -> bytes:
    """Its second one."""
    batch = key_value_batch([KeyValue(b"k", b"1")], 0, producer)
    batch[53:57] = (1).to_bytes(4, "big")  # the next sequence number
    stamp_max_timestamp(batch, read_header(batch, 0), 0)
    return bytes(batch)


async def late_record(cluster: InProcessCluster, producer: Producer) -> int:
    body = produce_request("orders", batch_of(producer))
    body.transactional_id = ID
    answer = await asked(cluster, leader_of(cluster, "orders", 0), ApiKey.PRODUCE, 9, body)
    code: int = answer.responses[0].partition_responses[0].error_code
    return code


async def late_offset(cluster: InProcessCluster, producer: Producer) -> int:
    number = next(iter(cluster.brokers.values())).coordinators.partition_of(GROUP)
    assert number is not None
    offset = Topic.TxnOffsetCommitRequestPartition(
        partition_index=0, committed_offset=9, committed_leader_epoch=-1, committed_metadata=""
    )
    body = TxnOffsetCommitRequest(
        transactional_id=ID,
        group_id=GROUP,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        generation_id=-1,
        member_id="",
        group_instance_id=None,
        topics=[Topic(name="orders", partitions=[offset])],
    )
    leader = leader_of(cluster, "__consumer_offsets", number)
    answer = await asked(cluster, leader, ApiKey.TXN_OFFSET_COMMIT, 3, body)
    code: int = answer.topics[0].partitions[0].error_code
    return code


def is_stable(cluster: InProcessCluster, key: Key) -> bool:
    leader = leader_of(cluster, *key)
    assert leader is not None
    partition = cluster.brokers[leader].replicas.partitions[key]
    return partition.readable_end(read_committed=True) == partition.high_watermark


@pytest.mark.parametrize("verifies", [True, False])
async def test_a_late_record_or_offset_is_refused_and_hangs_for_ever_where_nothing_is_verified(
    tmp_path: Path, verifies: bool
) -> None:
    settings = SETTINGS | {"transaction.partition.verification.enable": str(verifies).lower()}
    async with running_cluster(tmp_path, settings=settings) as cluster:
        await create_topic(cluster)
        producer = await ended_transaction(cluster)
        orders = Key("orders", 0)
        offsets = Key("__consumer_offsets", next(iter(cluster.brokers.values())).coordinators.partition_of(GROUP) or 0)
        await cluster.until(lambda: is_stable(cluster, orders) and is_stable(cluster, offsets))
        expected = ErrorCode.INVALID_TXN_STATE if verifies else ErrorCode.NONE
        assert await late_record(cluster, producer) == expected
        assert await late_offset(cluster, producer) == expected
        assert is_stable(cluster, orders) is verifies
        assert is_stable(cluster, offsets) is verifies
        assert await read(cluster) == [0]


@pytest.mark.parametrize("are_verified", [False, True], ids=["one of them", "both"])
async def test_a_request_of_two_producers_is_refused_as_a_whole_also_where_they_were_verified_before(
    tmp_path: Path, are_verified: bool
) -> None:
    async with running_cluster(tmp_path, settings=SETTINGS) as cluster:
        await create(cluster, "orders", [1, 2, 3], [1, 2, 3], [1, 2, 3])
        keys = [Key("orders", number) for number in range(3)]
        await cluster.until(lambda: all(leader_of(cluster, *key) == 1 for key in keys))
        async with writer(cluster) as client, client.transaction():
            for number in (0, 1) if are_verified else (0,):
                await client.send_and_wait("orders", b"0", partition=number)
            manager: Any = client._txn_manager
            own = Producer(manager.producer_id, manager.producer_epoch)
            newer = Producer(own.producer_id, own.producer_epoch + 1)
            ends = [cluster.brokers[1].replicas.partitions[key].log.log_end_offset for key in keys]
            plain = bytes(key_value_batch([KeyValue(b"k", b"1")], 0))
            body = produce_request("orders", batch_of(own), batch_of(newer), plain)
            body.transactional_id = ID
            answer = await asked(cluster, 1, ApiKey.PRODUCE, 9, body)
            codes = [part.error_code for part in answer.responses[0].partition_responses]
            assert codes == [ErrorCode.INVALID_PRODUCER_ID_MAPPING] * 3
            assert [cluster.brokers[1].replicas.partitions[key].log.log_end_offset for key in keys] == ends


async def test_a_request_that_names_a_partition_twice_leaves_no_guard_behind(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, settings=SETTINGS) as cluster:
        await create_topic(cluster)
        late = batch_of(await ended_transaction(cluster))
        body = produce_request("orders", late, late)
        body.transactional_id = ID
        body.topic_data[0].partition_data[1].index = 0
        orders = Key("orders", 0)
        await cluster.until(lambda: is_stable(cluster, orders))
        leader = leader_of(cluster, *orders)
        answer = await asked(cluster, leader, ApiKey.PRODUCE, 9, body)
        codes = [part.error_code for part in answer.responses[0].partition_responses]
        assert codes == [ErrorCode.INVALID_TXN_STATE] * 2
        assert leader is not None
        assert not cluster.brokers[leader].replicas.partitions[orders]._replica.producers._guards


async def test_a_client_does_not_ask_in_a_brokers_name(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, settings=SETTINGS) as cluster:
        kind = request_class(ApiKey.ADD_PARTITIONS_TO_TXN)
        with pytest.raises(ConnectionError):
            await asked(cluster, 1, ApiKey.ADD_PARTITIONS_TO_TXN, 4, kind(transactions=[]))
