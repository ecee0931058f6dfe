"""A connection from one broker to another through the INTERNAL listener, with one request in flight at a time.

The first requests authenticate the brokers to each other (broker_authentication.py). Any failure (refused, reset,
timeout, invalid bytes) raises PeerUnreachable; the next request opens a new connection. Callers decide when to retry.
"""

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable
from typing import Any

from reference_impl.wire.messages import decode_response, encode_request

logger = logging.getLogger(__name__)


class PeerUnreachable(OSError):
    """The peer did not answer; it is unknown whether it executed the request."""


Exchange = Callable[[int, int, Any], Awaitable[Any]]
"""API key, version and body of a request; the body of its answer."""


class PeerConnection:
    """Calls `address` at each (re)connect, so that it finds a peer that moved; None means not known yet. `opened` runs
    the authentication on every new connection."""

    def __init__(
        self,
        *,
        client_id: str,
        address: Callable[[], tuple[str, int] | None],
        opened: Callable[[Exchange], Awaitable[None]],
    ) -> None:
        self.client_id = client_id
        self._address = address
        self._opened = opened
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._connected_to: tuple[str, int] | None = None
        self._correlation_id = 0
        self._turn = asyncio.Lock()

    async def ask(self, api_key: int, api_version: int, body: Any, *, timeout_ms: float) -> Any:
        """Sends a request and returns the answer. Raises PeerUnreachable. The time counts from the call on, whoever has
        the turn before."""
        try:
            async with asyncio.timeout(timeout_ms / 1000), self._turn:
                return await self._ask_in_turn(api_key, api_version, body)
        except TimeoutError as error:
            raise PeerUnreachable(f"no answer from {self._connected_to} within {timeout_ms:.0f} ms") from error
        except (OSError, asyncio.IncompleteReadError, ValueError) as error:
            raise PeerUnreachable(f"{self._connected_to}: {error or type(error).__name__}") from error

    async def _ask_in_turn(self, api_key: int, api_version: int, body: Any) -> Any:
        """A request that fails, or is cancelled, closes the connection, so that its answer cannot be taken for the next
        one's."""
        try:
            await self._connect()
            return await self._exchange(api_key, api_version, body)
        except BaseException:
            self.close()
            raise

    async def _connect(self) -> None:
        address = self._address()
        if address is None:
            raise PeerUnreachable("address unknown so far")
        if self._writer is not None and address == self._connected_to:
            return
        self.close()
        self._connected_to = address
        self._reader, self._writer = await asyncio.open_connection(*address, limit=1 << 20)
        connected_socket = self._writer.get_extra_info("socket")
        if connected_socket is not None and connected_socket.family in (socket.AF_INET, socket.AF_INET6):
            connected_socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await self._opened(self._exchange)

    async def _exchange(self, api_key: int, api_version: int, body: Any) -> Any:
        assert self._reader is not None
        assert self._writer is not None
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        self._writer.write(encode_request(api_key, api_version, self._correlation_id, self.client_id, body))
        size = int.from_bytes(await self._reader.readexactly(4), "big")
        correlation_id, answer = decode_response(api_key, api_version, await self._reader.readexactly(size))
        if correlation_id != self._correlation_id:
            raise ValueError(f"answer {correlation_id} to request {self._correlation_id}")
        return answer

    def close(self) -> None:
        if self._writer is not None:
            self._writer.transport.abort()
        self._reader = self._writer = None


class Peers:
    """Connections to other brokers, for one kind of question; the broker itself is asked without one."""

    def __init__(
        self,
        *,
        own_id: int,
        ask_self: Callable[[int, int, Any], Awaitable[Any]],
        connect: Callable[[int], PeerConnection],
        timeout_ms: float,
    ) -> None:
        self._own_id = own_id
        self._ask_self = ask_self
        self._connect = connect
        self._timeout_ms = timeout_ms
        self._connections: dict[int, PeerConnection] = {}

    async def ask(self, broker_id: int, api_key: int, api_version: int, body: Any) -> Any:
        """Raises PeerUnreachable."""
        if broker_id == self._own_id:
            return await self._ask_self(api_key, api_version, body)
        if broker_id not in self._connections:
            self._connections[broker_id] = self._connect(broker_id)
        return await self._connections[broker_id].ask(api_key, api_version, body, timeout_ms=self._timeout_ms)

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
