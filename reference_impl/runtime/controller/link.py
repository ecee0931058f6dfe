"""Connections between brokers and the active controller, through INTERNAL listeners.

A broker sends to the controller that its metadata names; the controller sends to each registered broker. A broker's
requests to itself bypass the network.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from reference_impl.core.state import LiveBroker
from reference_impl.runtime.connections import PeerConnection, PeerUnreachable
from reference_impl.runtime.handlers.metadata import MetadataCache

AskSelf = Callable[[int, int, Any], Awaitable[Any]]


class ControllerLink:
    """`connect` opens a connection to a broker; `ask_self` dispatches a request of this broker to itself."""

    def __init__(
        self,
        *,
        broker_id: int,
        metadata: MetadataCache,
        connect: Callable[[int], PeerConnection],
        ask_self: AskSelf,
        timeout_ms: int,
    ) -> None:
        self._broker_id = broker_id
        self._metadata = metadata
        self._connect = connect
        self._ask_self = ask_self
        self._timeout_ms = timeout_ms
        self._connection: tuple[int, PeerConnection] | None = None

    async def ask(self, api_key: int, api_version: int, body: Any) -> Any:
        controller_id = self._metadata.controller_id
        if controller_id < 0:
            raise PeerUnreachable("no controller is known so far")
        if controller_id == self._broker_id:
            try:
                async with asyncio.timeout(self._timeout_ms / 1000):
                    return await self._ask_self(api_key, api_version, body)
            except TimeoutError:
                raise PeerUnreachable("this broker's own controller did not answer in time") from None
        if self._connection is None or self._connection[0] != controller_id:
            self.close()
            self._connection = (controller_id, self._connect(controller_id))
        return await self._connection[1].ask(api_key, api_version, body, timeout_ms=self._timeout_ms)

    def close(self) -> None:
        if self._connection is not None:
            self._connection[1].close()
            self._connection = None


class BrokersLink:
    """The controller's sender: one connection per incarnation, to the address in its registration."""

    def __init__(
        self, *, broker_id: int, connect: Callable[[LiveBroker], PeerConnection], ask_self: AskSelf, timeout_ms: int
    ) -> None:
        self._broker_id = broker_id
        self._connect = connect
        self._ask_self = ask_self
        self._timeout_ms = timeout_ms
        self._connections: dict[int, tuple[int, PeerConnection]] = {}

    async def send(self, broker: LiveBroker, api_key: int, version: int, body: Any) -> Any:
        if broker.broker_id == self._broker_id:
            return await self._ask_self(api_key, version, body)
        known = self._connections.get(broker.broker_id)
        if known is None or known[0] != broker.broker_epoch:
            if known is not None:
                known[1].close()
            known = self._connections[broker.broker_id] = (broker.broker_epoch, self._connect(broker))
        return await known[1].ask(api_key, version, body, timeout_ms=self._timeout_ms)

    def close(self) -> None:
        for _, connection in self._connections.values():
            connection.close()
        self._connections.clear()
