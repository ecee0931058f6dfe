"""What an existing cluster reports of itself, and the errors for incomplete information."""

from types import SimpleNamespace
from typing import Any

import pytest

from harness.cluster.attached import administration
from harness.errors import HarnessError


def answering(monkeypatch: pytest.MonkeyPatch, brokers_by_port: dict[int, list[int]]) -> None:
    class Connection:
        def __init__(self, host: str, port: int) -> None:
            self._port = port

        async def ask(self, request: Any, version: int, *, timeout_s: float) -> Any:
            known = brokers_by_port[self._port]
            return SimpleNamespace(brokers=[SimpleNamespace(node_id=each, host="b", port=each) for each in known])

        def close(self) -> None:
            return

    monkeypatch.setattr(administration, "BrokerConnection", Connection)


async def test_a_broker_that_has_just_started_and_knows_of_none_is_not_taken_at_its_word(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answering(monkeypatch, {1: [], 2: [1, 2]})
    assert await administration.brokers_by([("h", 1), ("h", 2)]) == {1: ("b", 1), 2: ("b", 2)}


async def test_a_cluster_without_a_registered_broker_is_reported_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch, {1: []})
    with pytest.raises(HarnessError, match=r"no broker answers .*h:1 knows of no broker yet"):
        await administration.brokers_by([("h", 1)])
