"""What an existing cluster reports of itself, and the errors for incomplete information."""

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from harness.cluster.attached import administration
from harness.errors import HarnessError
from harness.ports.cluster import NodeId


def answering(brokers_by_port: dict[int, list[int]]) -> Any:
    class Connection:
        def __init__(self, host: str, port: int) -> None:
            self._port = port

        async def ask(self, request: Any, version: int, *, timeout_s: float) -> Any:
            known = brokers_by_port[self._port]
            return SimpleNamespace(brokers=[SimpleNamespace(node_id=each, host="b", port=each) for each in known])

        def close(self) -> None:
            return

    return Connection


async def brokers_by(bootstrap: Sequence[tuple[str, int]], connect: Any) -> Mapping[NodeId, tuple[str, int]]:
    return administration.brokers_in(await administration.answers_of(bootstrap, connect=connect))


async def test_a_broker_that_has_just_started_and_knows_of_none_is_not_taken_at_its_word() -> None:
    connect = answering({1: [], 2: [1, 2]})
    assert await brokers_by([("h", 1), ("h", 2)], connect) == {1: ("b", 1), 2: ("b", 2)}


async def test_a_cluster_without_a_registered_broker_is_reported_in_one_line() -> None:
    with pytest.raises(HarnessError, match=r"no broker answers .*h:1 knows of no broker yet"):
        await brokers_by([("h", 1)], answering({1: []}))


@pytest.mark.parametrize("host", ["x" * 5000, "a" * 64, "a..b", "", "a\0b", "\udcff"])
def test_a_host_that_no_resolver_takes_is_no_address(host: str) -> None:
    with pytest.raises(HarnessError, match=r"bootstrap: .* is no address") as refused:
        administration.address_of(f"{host}:9092", "bootstrap")
    assert len(str(refused.value)) < 250


@pytest.mark.parametrize("port", ["0", "65536", "99999"])
def test_a_port_that_no_machine_has_is_no_address(port: str) -> None:
    with pytest.raises(HarnessError, match="is no address"):
        administration.address_of(f"host:{port}", "bootstrap")


async def test_a_broker_that_registered_under_no_address_is_told_in_one_line() -> None:
    with pytest.raises(HarnessError, match="broker 99999 is registered under b:99999, which is no address"):
        await brokers_by([("h", 1)], answering({1: [1, 99999]}))
