"""Each row about groups and transactions holds for Apache Kafka, and for no answer that is false."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator

import pytest
from kafka.protocol.admin import ListGroupsRequest
from kafka.protocol.metadata import MetadataRequest

from harness.cluster.broker_requests import BrokerConnection
from harness.cluster.brokers.kafka_jars import installed
from harness.cluster.brokers.kafka_versions import resolve_version
from harness.conform.asking import delete_all, results
from harness.conform.probe import Probe, probing
from harness.conform.row import State
from harness.host.clock import SystemClock
from tests.harness.conform.falsifying import Lie
from tests.harness.conform.lies import OF_GROUPS_AND_TRANSACTIONS, OF_THE_LOG
from tests.harness.conform.rows_asked import NAMED, Addresses, asked, cluster, falls_for_no

VERSION = "4.3.1"
# Otherwise the first member of each group waits three seconds for others.
SETTINGS = ("--set", "group.initial.rebalance.delay.ms=0")
LIES = [
    pytest.param(name, lie, id=f"{name}: {lie.breaks} ({number})")
    for name, lies in OF_GROUPS_AND_TRANSACTIONS.items()
    for number, lie in enumerate(lies)
]

pytestmark = [pytest.mark.cluster, pytest.mark.jvm]


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Addresses]:
    if installed(resolve_version(VERSION)) is None:
        pytest.skip(f"Kafka {VERSION} is not on this machine: kafka-chaos fetch-kafka {VERSION}")
    folder = tmp_path_factory.mktemp("conform")
    with cluster(folder, "--brokers", "2", "--system", f"kafka:{VERSION}", *SETTINGS) as addresses:
        yield addresses


@pytest.mark.parametrize("name", [*OF_GROUPS_AND_TRANSACTIONS, *OF_THE_LOG])
def test_kafka_keeps_the_row(kafka: Addresses, name: str) -> None:
    result, _ = asked(kafka, name)
    assert result.state is State.CONFORMS, result.seen


def test_groups_and_topics_of_a_row_are_gone_afterwards(kafka: Addresses) -> None:
    async def ask() -> tuple[list[str], set[str]]:
        async with probing(kafka, connect=BrokerConnection, clock=SystemClock()) as probe:
            rows = [NAMED["group-deleted"], NAMED["group-offsets"], NAMED["group-rebalance"]]
            assert [each.state async for each in results({"there": probe}, rows)] == [State.CONFORMS] * len(rows)
            listed = [await probe.ask(ListGroupsRequest(), node=node) for node in kafka]
            assert any(group.group_id.startswith(probe.mark) for answer in listed for group in answer.groups)
            left = await delete_all({"there": probe})
            listed = [await probe.ask(ListGroupsRequest(), node=node) for node in kafka]
            groups = {group.group_id for answer in listed for group in answer.groups}
            known = await probe.becomes(topics_of(probe), lambda names: not of_this_run(probe, names))
            return left, of_this_run(probe, groups | known)

    def topics_of(probe: Probe) -> Callable[[], Awaitable[set[str]]]:
        """As one broker knows them, which hears of a deletion after the controller has made it."""

        async def ask_topics() -> set[str]:
            return {topic.name for topic in (await probe.ask(MetadataRequest(topics=None), node=probe.first)).topics}

        return ask_topics

    def of_this_run(probe: Probe, names: set[str]) -> set[str]:
        return {name for name in names if name.startswith(probe.mark)}

    assert asyncio.run(ask()) == ([], set())


@pytest.mark.parametrize(("name", "lie"), LIES)
def test_a_false_answer_breaks_the_row(kafka: Addresses, name: str, lie: Lie) -> None:
    falls_for_no(kafka, name, lie)
