"""Another user of the machine can be a client like any other, but cannot act as a broker."""

import asyncio
import stat
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from reference_impl.core.identifiers import TopicPartition
from reference_impl.runtime.config import ConfigurationError
from reference_impl.runtime.connections import PeerConnection, PeerUnreachable
from reference_impl.runtime.handlers.broker_authentication import (
    AuthenticationFailed,
    BrokerAuthentication,
    read_secret,
    write_secret,
)
from reference_impl.runtime.in_process import InProcessCluster
from reference_impl.runtime.replication.replica_identity import client_id_of
from reference_impl.wire.api_keys import ApiKey
from reference_impl.wire.messages import decode_response, encode_request, request_class, response_class
from tests.reference_impl.runtime.conftest import running_cluster
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.cluster

FetchRequest, ListOffsetsRequest, OffsetForLeaderEpochRequest = map(request_class, (1, 2, 23))
ORDERS = TopicPartition("orders", 0)
LEADER, FOLLOWER = 1, 2


@pytest.fixture
async def waiting_for_its_follower(tmp_path: Path) -> AsyncIterator[InProcessCluster]:
    """One record is written that only the leader has; the other in-sync replica is down and still in the ISR."""
    settings = {"replica.lag.time.max.ms": "60000", "zookeeper.session.timeout.ms": "30000"}
    async with running_cluster(tmp_path, settings=settings) as cluster:
        admin = AIOKafkaAdminClient(bootstrap_servers=cluster.bootstrap)
        await admin.start()
        await admin.create_topics([NewTopic("orders", -1, -1, replica_assignments={0: [LEADER, FOLLOWER]})])
        await admin.close()
        await cluster.until(lambda: ORDERS in cluster.brokers[LEADER].replicas.partitions)
        await cluster.kill(FOLLOWER)
        producer = AIOKafkaProducer(bootstrap_servers=cluster.bootstrap, acks=1)
        await producer.start()
        await producer.send_and_wait("orders", b"uncommitted", partition=0)
        await producer.stop()
        partition = cluster.brokers[LEADER].replicas.partitions[ORDERS]
        assert (partition.high_watermark, partition.log.log_end_offset) == (0, 1)
        yield cluster


def address_of(cluster: InProcessCluster, listener: str) -> tuple[str, int]:
    found = next(each for each in cluster.config(LEADER).listeners if each.listener == listener)
    return found.host, found.port


async def asked_by_a_stranger(
    cluster: InProcessCluster, listener: str, api_key: int, version: int, body: Any, *, client_id: str = "stranger"
) -> Any | None:
    """The answer's body; None when the broker closed the connection instead."""
    async with asyncio.timeout(PATIENCE_S):
        reader, writer = await asyncio.open_connection(*address_of(cluster, listener))
        try:
            writer.write(encode_request(api_key, version, 1, client_id, body))
            frame = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
            return decode_response(api_key, version, frame)[1]
        except (asyncio.IncompleteReadError, ConnectionError):
            return None
        finally:
            writer.close()


def replica_fetch(replica_id: int, *, offset: int) -> Any:
    partition = FetchRequest.FetchTopic.FetchPartition(
        partition=0,
        current_leader_epoch=-1,
        fetch_offset=offset,
        last_fetched_epoch=-1,
        log_start_offset=0,
        partition_max_bytes=1000,
    )
    return FetchRequest(
        replica_id=replica_id,
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1000,
        isolation_level=0,
        session_id=0,
        session_epoch=-1,
        topics=[FetchRequest.FetchTopic(topic="orders", partitions=[partition])],
        forgotten_topics_data=[],
        rack_id="",
    )


def a_connection(
    cluster: InProcessCluster, authentication: BrokerAuthentication, client_id: str, to: int
) -> PeerConnection:
    return PeerConnection(
        client_id=client_id,
        address=lambda: address_of(cluster, "INTERNAL"),
        opened=lambda exchange: authentication.authenticate(exchange, to),
    )


def followers_client_id(cluster: InProcessCluster) -> str:
    """What the follower that is down last called itself: no secret, every znode tells it."""
    return client_id_of(FOLLOWER, cluster.brokers[LEADER].metadata.brokers[FOLLOWER].broker_epoch)


@pytest.mark.parametrize("listener", ["INTERNAL", "CLIENT"])
async def test_a_fetch_in_a_replicas_name_moves_no_high_watermark(
    waiting_for_its_follower: InProcessCluster, listener: str
) -> None:
    cluster = waiting_for_its_follower
    for offset in (0, 1):
        answer = await asked_by_a_stranger(
            cluster,
            listener,
            ApiKey.FETCH,
            12,
            replica_fetch(FOLLOWER, offset=offset),
            client_id=followers_client_id(cluster),
        )
        assert answer is None
    assert cluster.brokers[LEADER].replicas.partitions[ORDERS].high_watermark == 0


async def test_the_same_fetch_counts_when_the_secret_is_known_and_in_no_other_replicas_name(
    waiting_for_its_follower: InProcessCluster, tmp_path: Path
) -> None:
    """So that the test above refuses the stranger and not the request."""
    cluster = waiting_for_its_follower
    secret = read_secret(cluster.config(LEADER).chaos_cluster_secret_file)
    for broker_id, high_watermark in ((3, 0), (FOLLOWER, 1)):
        known = BrokerAuthentication(secret, broker_id=broker_id, randomness=Random(1))
        connection = a_connection(cluster, known, followers_client_id(cluster), LEADER)
        try:
            await connection.ask(ApiKey.FETCH, 12, replica_fetch(FOLLOWER, offset=1), timeout_ms=PATIENCE_S * 1000)
        except PeerUnreachable:
            assert broker_id != FOLLOWER
        connection.close()
        assert cluster.brokers[LEADER].replicas.partitions[ORDERS].high_watermark == high_watermark


@pytest.mark.parametrize("listener", ["INTERNAL", "CLIENT"])
async def test_what_is_not_committed_is_sent_to_no_stranger(
    waiting_for_its_follower: InProcessCluster, listener: str
) -> None:
    cluster = waiting_for_its_follower
    wanted = ListOffsetsRequest.ListOffsetsTopic.ListOffsetsPartition(
        partition_index=0, current_leader_epoch=-1, timestamp=-1
    )
    topics = [ListOffsetsRequest.ListOffsetsTopic(name="orders", partitions=[wanted])]
    for replica_id in (FOLLOWER, -1, -2):
        body = ListOffsetsRequest(replica_id=replica_id, isolation_level=0, topics=topics)
        answer = await asked_by_a_stranger(cluster, listener, ApiKey.LIST_OFFSETS, 6, body)
        assert (None if answer is None else answer.topics[0].partitions[0].offset) == (None if replica_id > 0 else 0)
    body = OffsetForLeaderEpochRequest(replica_id=FOLLOWER, topics=[])
    assert await asked_by_a_stranger(cluster, listener, ApiKey.OFFSET_FOR_LEADER_EPOCH, 4, body) is None


@pytest.mark.parametrize("listener", ["INTERNAL", "CLIENT"])
async def test_nobody_is_controller_or_leader_by_saying_so(
    cluster: InProcessCluster, tmp_path: Path, listener: str
) -> None:
    broker = cluster.brokers[LEADER]
    epoch, controller = broker.replicas.controller_epoch, broker.metadata.controller_id
    word = {"controller_id": controller, "controller_epoch": epoch + 1, "broker_epoch": broker.replicas.broker_epoch}
    state = (
        request_class(ApiKey.LEADER_AND_ISR)
        .fields["partition_states"]
        .data_class(
            topic="planted",
            topic_id=uuid.UUID(int=5),
            partition=0,
            leader=LEADER,
            leader_epoch=0,
            isr=[LEADER],
            partition_epoch=0,
            replicas=[LEADER],
            controller_epoch=epoch + 1,
            is_new=True,
        )
    )
    own = {"broker_id": LEADER, "broker_epoch": broker.replicas.broker_epoch}
    requests: list[tuple[int, int, dict[str, Any]]] = [
        (ApiKey.LEADER_AND_ISR, 0, {**word, "is_full": False, "partition_states": [state], "live_brokers": []}),
        (ApiKey.STOP_REPLICA, 0, {**word, "partitions": []}),
        (
            ApiKey.UPDATE_METADATA,
            0,
            {**word, "is_full": True, "live_brokers": [], "partition_states": [], "topics": [], "deleted_topics": []},
        ),
        (ApiKey.CONTROLLED_SHUTDOWN, 0, own),
        (ApiKey.ALTER_PARTITION, 3, {**own, "topics": []}),
    ]
    for api_key, version, fields in requests:
        for name in ("controller_id", "broker_id"):
            for said in (fields.get(name), -1):
                body = request_class(api_key)(**(fields | ({name: said} if name in fields else {})))
                assert await asked_by_a_stranger(cluster, listener, api_key, version, body) is None
    assert broker.replicas.controller_epoch == epoch
    assert set(broker.metadata.brokers) == set(cluster.brokers)
    assert not any(known.shutting_down for each in cluster.brokers.values() for known in each.metadata.brokers.values())
    assert not list(tmp_path.rglob("planted*"))


async def test_brokers_authenticate_at_their_own_listener_only(cluster: InProcessCluster) -> None:
    body = request_class(ApiKey.SASL_AUTHENTICATE)(auth_bytes=bytes(40))
    assert await asked_by_a_stranger(cluster, "CLIENT", ApiKey.SASL_AUTHENTICATE, 2, body) is None


async def test_who_does_not_know_the_secret_or_meets_another_broker_is_not_introduced(
    cluster: InProcessCluster,
) -> None:
    secret = read_secret(cluster.config(LEADER).chaos_cluster_secret_file)
    for known, to, why in (
        (b"another secret altogether", LEADER, "does not know this cluster's secret"),
        (secret, FOLLOWER, f"this is broker {LEADER}"),
    ):
        authentication = BrokerAuthentication(known, broker_id=3, randomness=Random(1))
        connection = a_connection(cluster, authentication, "broker-3", to)
        with pytest.raises(PeerUnreachable, match=why):
            await connection.ask(ApiKey.STOP_REPLICA, 0, None, timeout_ms=PATIENCE_S * 1000)


async def test_what_was_said_in_one_introduction_opens_no_other(cluster: InProcessCluster) -> None:
    secret = read_secret(cluster.config(LEADER).chaos_cluster_secret_file)
    overheard: list[Any] = []
    errors: list[int] = []

    async def listening(exchange: Any) -> None:
        async def noted(api_key: int, version: int, body: Any) -> Any:
            overheard.append(body)
            return await exchange(api_key, version, body)

        await BrokerAuthentication(secret, broker_id=3, randomness=Random(1)).authenticate(noted, LEADER)

    async def repeating(exchange: Any) -> None:
        for body in overheard:
            errors.append((await exchange(ApiKey.SASL_AUTHENTICATE, 2, body)).error_code)

    body = request_class(ApiKey.CONTROLLED_SHUTDOWN)(broker_id=3, broker_epoch=0)
    for opened, is_served in ((listening, True), (repeating, False)):
        connection = PeerConnection(
            client_id="broker-3", address=lambda: address_of(cluster, "INTERNAL"), opened=opened
        )
        try:
            await connection.ask(ApiKey.CONTROLLED_SHUTDOWN, 0, body, timeout_ms=PATIENCE_S * 1000)
            assert is_served
        except PeerUnreachable:
            assert not is_served
        connection.close()
    assert errors == [0, 58]


async def test_a_proof_is_asked_of_the_other_side_before_one_is_given() -> None:
    said: list[bytes] = []

    async def impostor(api_key: int, version: int, body: Any) -> Any:
        said.append(body.auth_bytes)
        return response_class(ApiKey.SASL_AUTHENTICATE)(error_code=0, error_message=None, auth_bytes=bytes(64))

    authentication = BrokerAuthentication(b"the cluster's own secret", broker_id=3, randomness=Random(1))
    with pytest.raises(AuthenticationFailed, match="does not know this cluster's secret"):
        await authentication.authenticate(impostor, LEADER)
    assert len(said) == 1


def test_a_secret_that_is_none_is_refused_in_one_line_with_the_remedy(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    with pytest.raises(ConfigurationError, match=r"secret: No such file.*; name a file"):
        read_secret(path)
    write_secret(path, "too short")
    with pytest.raises(ConfigurationError, match="holds 9 bytes; a secret has at least 16"):
        read_secret(path)
    write_secret(path, "long enough to be one")
    assert read_secret(path) == b"long enough to be one"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o640)
    with pytest.raises(ConfigurationError, match=r"others than its owner have access to it; chmod 600"):
        read_secret(path)
