"""Each row holds for the reference; those about versions, topics, records and producers for no answer that is false."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from harness.cluster.broker_requests import BrokerConnection
from harness.conform.asking import READING_ROWS, ROWS, delete_all
from harness.conform.probe import Probe
from harness.conform.row import State
from harness.host.clock import SystemClock
from harness.ports.cluster import NodeId
from tests.harness.conform.falsifying import Lie
from tests.harness.conform.lies import OF_GROUPS_AND_TRANSACTIONS, OF_THE_LOG
from tests.harness.conform.rows_asked import Addresses, asked, cluster, falls_for_no

pytestmark = pytest.mark.cluster
LIES = [
    pytest.param(name, lie, id=f"{name}: {lie.breaks} ({number})")
    for name, lies in OF_THE_LOG.items()
    for number, lie in enumerate(lies)
]


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Addresses]:
    with cluster(tmp_path_factory.mktemp("conform"), "--set", "group.initial.rebalance.delay.ms=0") as addresses:
        yield addresses


def test_every_row_is_shown_to_fail() -> None:
    lies_of_rows = {**OF_THE_LOG, **OF_GROUPS_AND_TRANSACTIONS}
    assert [row.name for row in ROWS] == list(lies_of_rows)
    assert not [name for name, lies in lies_of_rows.items() if not lies]


@pytest.mark.parametrize("name", [*OF_THE_LOG, *OF_GROUPS_AND_TRANSACTIONS])
def test_the_reference_keeps_the_row(reference: Addresses, name: str) -> None:
    result, _ = asked(reference, name)
    assert result.state is State.CONFORMS, result.seen


@pytest.mark.parametrize(("name", "lie"), LIES)
def test_a_false_answer_breaks_the_row(reference: Addresses, name: str, lie: Lie) -> None:
    falls_for_no(reference, name, lie)


def test_a_new_topic_is_asked_about_once_every_broker_knows_it(reference: Addresses) -> None:
    known: dict[NodeId, int] = dict.fromkeys(reference, 0)

    class Lagging(Probe):
        async def metadata_of(self, name: str, *, node: NodeId | None = None) -> Any:
            topic = await super().metadata_of(name, node=node)
            asked_node = self.first if node is None else node
            known[asked_node] += bool(topic.partitions)
            if known[asked_node] < 3:  # this broker does not know it yet
                topic.partitions = []
            return topic

    async def ask() -> None:
        probe = Lagging(reference, connect=BrokerConnection, clock=SystemClock())
        try:
            await probe.learn()
            await probe.topic()
        finally:
            await delete_all({"there": probe})
            probe.close()

    asyncio.run(ask())
    assert min(known.values()) >= 3


def test_rows_that_merely_read_are_those_about_versions_and_brokers() -> None:
    assert {row.name for row in READING_ROWS} == {row.name for row in ROWS[: len(READING_ROWS)]}
    assert "metadata-unknown-topic" not in {row.name for row in READING_ROWS}, "it may make it"


def test_a_planted_flaw_of_the_reference_breaks_the_row_about_the_end_of_a_log(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    flaw = ("--brokers", "1", "--set", "chaos.flaws=answer-end-as-of-election")
    with cluster(tmp_path_factory.mktemp("flaw"), *flaw) as one:
        result, _ = asked(one, "list-offsets")
        sound, _ = asked(one, "fetch")
    assert (result.state, sound.state) == (State.VIOLATES, State.CONFORMS), (result.seen, sound.seen)
    assert {fact.what for fact in result.facts if not fact.holds} == {f"version {each}, latest" for each in range(1, 9)}
