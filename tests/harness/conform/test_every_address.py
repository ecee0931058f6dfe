"""Every address that was given is asked, and a row tells which of them answered otherwise."""

from collections.abc import Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.protocol.producer import ProduceRequest

from harness.cluster.broker_requests import BrokerConnection
from harness.conform.asking import results
from harness.conform.probe import View, probing_each, views
from harness.conform.row import Fact, Result, State, together
from harness.errors import HarnessError
from harness.host.clock import SystemClock
from harness.ports.cluster import NodeId
from tests.harness.conform.falsifying import Exchange, Lie, lying
from tests.harness.conform.rows_asked import NAMED, Addresses, cluster

ROW = NAMED["produce"]
GOOD = Fact(what="error", seen=0, expected=0, holds=True)
BAD = Fact(what="offset", seen=3, expected=0, holds=False)


def result(state: State, seen: str, *facts: Fact) -> Result:
    return Result(row=ROW, state=state, seen=seen, facts=facts, duration_s=1.5)


def test_a_row_that_comes_to_the_same_everywhere_is_told_once() -> None:
    found = {at: result(State.CONFORMS, f"versions 3 to 13, offsets {at}", GOOD) for at in ("a:1", "b:1")}
    told = together(found)
    assert (told.state, told.seen, told.facts) == (State.CONFORMS, "versions 3 to 13, offsets a:1", (GOOD,))
    assert told.duration_s == 3.0


def test_a_row_is_what_the_worst_address_came_to_and_names_who_answered_otherwise() -> None:
    found = {
        "a:1": result(State.CONFORMS, "well", GOOD),
        "b:1": result(State.VIOLATES, "offset: 3, not 0", GOOD, BAD),
        "c:1": result(State.CONFORMS, "well", GOOD),
        "d:1": result(State.UNDECIDED, "no answer"),
    }
    told = together(found)
    assert told.state is State.VIOLATES
    assert told.seen == "b:1: violates (offset: 3, not 0); d:1: undecided (no answer); a:1, c:1: conforms"
    assert [fact.what for fact in told.facts if not fact.holds] == ["b:1: offset"]


def test_two_that_break_a_row_differently_are_told_apart() -> None:
    other = Fact(what="epoch", seen=1, expected=2, holds=False)
    told = together({"a:1": result(State.VIOLATES, "offset", BAD), "b:1": result(State.VIOLATES, "epoch", other)})
    assert told.seen == "a:1: violates (offset); b:1: violates (epoch)"


def connect_to(brokers: Mapping[int, Mapping[int, tuple[str, int]] | None]) -> Any:
    """By port: what is registered, as it is told there; None: nobody listens."""

    class Connection:
        opening_s = 0.0

        def __init__(self, host: str, port: int) -> None:
            self._told = brokers[port]

        async def ask(self, request: Any, version: int, *, timeout_s: float) -> Any:
            if self._told is None:
                raise ConnectionRefusedError("refused")
            named = [SimpleNamespace(node_id=node, host=at[0], port=at[1]) for node, at in self._told.items()]
            return SimpleNamespace(brokers=named)

        def close(self) -> None:
            return

    return Connection


async def seen(brokers: Mapping[int, Mapping[int, tuple[str, int]] | None]) -> tuple[Sequence[View], Sequence[str]]:
    return await views([("h", port) for port in brokers], connect=connect_to(brokers))


async def test_each_broker_of_a_cluster_is_the_first_of_a_view_of_its_own() -> None:
    known = {11: ("h", 1), 12: ("h", 2)}
    found, silent = await seen({1: known, 2: known, 3: None})
    assert [(each.at, each.first, each.brokers) for each in found] == [("h:1", 11, known), ("h:2", 12, known)]
    assert silent == ["h:3 ConnectionRefusedError refused"]


async def test_each_front_end_is_the_broker_of_its_own_view() -> None:
    found, _ = await seen({1: {111: ("x", 9)}, 2: {111: ("x", 9)}})
    assert [(each.at, each.first, each.brokers) for each in found] == [
        ("h:1", 111, {111: ("h", 1)}),
        ("h:2", 111, {111: ("h", 2)}),
    ]


async def test_addresses_that_nobody_is_registered_under_are_one_view() -> None:
    known = {11: ("x", 1), 12: ("x", 2)}
    found, _ = await seen({1: known, 2: known})
    assert [(each.first, each.brokers) for each in found] == [(None, known)]


async def test_nobody_at_any_address_is_said() -> None:
    with pytest.raises(HarnessError, match="no broker answers"):
        await seen({1: None})


@pytest.fixture(scope="module")
def one_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Addresses]:
    with cluster(tmp_path_factory.mktemp("conform"), "--brokers", "1") as addresses:
        yield addresses


@pytest.mark.cluster
async def test_a_front_end_that_lies_alone_is_named(one_broker: Addresses) -> None:
    def later(exchange: Exchange) -> None:
        exchange.answer.responses[0].partition_responses[0].base_offset += 3

    (node,) = one_broker
    async with (
        lying(one_broker, None) as (honest, _),
        lying(one_broker, Lie(api=ProduceRequest, alter=later)) as (liars, liar),
    ):
        ends = [View(at=at, brokers=addresses, first=NodeId(node)) for at, addresses in (("a", honest), ("b", liars))]
        async with probing_each(ends, connect=BrokerConnection, clock=SystemClock()) as probes:
            (told,) = [each async for each in results(probes, [ROW])]
    assert liar.altered
    assert told.state is State.VIOLATES
    assert told.seen.startswith("b: violates (")
    assert told.seen.endswith("; a: conforms")
