"""What Kafka 4.3.1 says of batches that no client makes: the table the reference is held to, measured anew."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from kafka.admin import KafkaAdminClient, NewTopic

from harness.cluster.catalogue import system_of
from harness.cluster.local.cluster import LocalCluster
from harness.host.clock import SystemClock
from harness.ports.cluster import ClientId
from harness.scenario.model import ClusterSpec
from reference_impl.core.identifiers import ErrorCode
from tests.interop.kafka_tools import kafka_home
from tests.reference_impl.odd_batches import CASES
from tests.reference_impl.raw_client import list_offset, produce
from tests.waiting import until

VERSION = "4.3.1"
kafka_home(VERSION)
LATEST = -1


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[tuple[str, int]]:
    (tmp_path / "run").mkdir()
    made = LocalCluster(
        run_path=tmp_path / "run",
        system=system_of(ClusterSpec(brokers=(1,), system=f"kafka:{VERSION}")),
        client_links=1,
        clock=SystemClock(),
    )
    try:
        await made.start()
        host, _, port = made.bootstrap(ClientId(1)).split(",")[0].rpartition(":")
        yield host, int(port)
    finally:
        await made.stop()


def answers_of(address: tuple[str, int]) -> dict[str, ErrorCode]:
    """Each batch goes to a topic of its own, so that none is judged by what came before it."""
    names = {case.what: f"odd-{number:03}" for number, case in enumerate(CASES)}
    admin = KafkaAdminClient(bootstrap_servers=f"{address[0]}:{address[1]}")
    try:
        admin.create_topics([NewTopic(name, 1, 1) for name in names.values()])
    finally:
        admin.close()
    until(
        lambda: all(list_offset(address, name, LATEST).error == 0 for name in names.values()), "leaders of all topics"
    )
    return {case.what: ErrorCode(produce(address, names[case.what], case.data)[0]) for case in CASES}


async def test_kafka_says_of_every_odd_batch_what_the_table_says(broker: tuple[str, int]) -> None:
    answers = await asyncio.to_thread(answers_of, broker)
    assert answers == {case.what: case.kafka for case in CASES}
