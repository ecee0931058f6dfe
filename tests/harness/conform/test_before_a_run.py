"""Before a run on somebody else's cluster: what merely reading shows is said, and prevents nothing."""

import asyncio
from collections.abc import Iterator

import pytest

from harness.conform.asking import READING_ROWS
from harness.preflight.target import notes
from harness.scenario.model import ClusterSpec
from tests.harness.conform.falsifying import Exchange, Lie, lying
from tests.harness.conform.rows_asked import Addresses, cluster

pytestmark = pytest.mark.cluster
PRODUCE, NOWHERE = 0, "127.0.0.1:1"


@pytest.fixture(scope="module")
def one_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Addresses]:
    with cluster(tmp_path_factory.mktemp("conform"), "--brokers", "1") as addresses:
        yield addresses


def said(bootstrap: str) -> list[str]:
    return list(notes(ClusterSpec(system="attached", bootstrap=bootstrap)))


def test_of_a_cluster_that_answers_as_kafka_does_nothing_is_said(one_broker: Addresses) -> None:
    ((host, port),) = one_broker.values()
    assert said(f"{host}:{port}") == []


def test_a_cluster_of_our_own_is_not_asked() -> None:
    assert notes(ClusterSpec(system="reference", bootstrap=NOWHERE)) == ()


def test_a_cluster_that_cannot_be_reached_is_a_line() -> None:
    (line,) = said(NOWHERE)
    assert line.startswith("conform: not asked: no broker answers")


def test_each_row_that_is_broken_is_a_line(one_broker: Addresses) -> None:
    async def ask() -> list[str]:
        async with lying(one_broker, None) as (liars, liar):
            ((host, port),) = liars.values()

            def alter(exchange: Exchange) -> None:
                for broker in getattr(exchange.answer, "brokers", ()):  # who asks for brokers stays with the liar
                    broker.host, broker.port = host, port
                kept = [each for each in getattr(exchange.answer, "api_keys", ()) if each.api_key != PRODUCE]
                if kept:
                    exchange.answer.api_keys = kept

            liar.lie = Lie(alter=alter)
            return await asyncio.to_thread(said, f"{host}:{port}")

    broken = [line.split()[1] for line in asyncio.run(ask())]
    assert set(broken) >= {"versions-for-kafka-python", "versions-for-kafka-chaos", "brokers-answer"}
    assert set(broken) <= {row.name for row in READING_ROWS}
