"""One listener: reads frames, dispatches requests in order of arrival, sends answers in the same order.

A request starts as soon as it is read, even if an earlier one of its connection still waits (for replication, for
example); only its answer waits. An invalid request closes its connection with a log line; the broker continues.
"""

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final

from reference_impl.storage.descriptors import NO_LIMIT
from reference_impl.wire.messages import MalformedRequest, Request, decode_request, encode_response

logger = logging.getLogger(__name__)

REFUSED_PER_LINE = 1000  # connections; the log file may be on the same disk as the data
MAX_REQUESTS_IN_FLIGHT = 64  # requests per connection; beyond that the broker stops reading, and TCP pushes back


@dataclass(kw_only=True, slots=True)
class Standing:
    """The identity that a connection has proved; none at first (broker_authentication.py)."""

    broker_id: int | None = None
    challenged: tuple[bytes, bytes] | None = None  # the claimed names and both challenges


@dataclass(frozen=True, kw_only=True)
class Caller:
    """The sender of a request, and the listener it used."""

    listener: str
    client_id: str | None
    peer: str
    standing: Standing = field(default_factory=Standing)  # of its connection, shared by all of its requests


class NoAnswer:
    """acks=0: the request is done and nothing is sent."""


NO_ANSWER: Final = NoAnswer()


class CloseConnection(Exception):
    """Closes the connection: the only way to report an error to a client without answers (acks=0) or without
    permission."""


Answer = Any  # a response container, or NO_ANSWER
Dispatch = Callable[[Request, Caller], Answer | Awaitable[Answer]]


class Listener:
    """Refuses a connection whose file descriptor is not below `descriptors_below`: the rest is reserved."""

    def __init__(
        self,
        *,
        name: str,
        host: str,
        port: int,
        dispatch: Dispatch,
        max_request_bytes: int,
        descriptors_below: int = NO_LIMIT,
    ) -> None:
        self.name = name
        self.port = port
        self._host = host
        self._dispatch = dispatch
        self._max_request_bytes = max_request_bytes
        self._descriptors_below = descriptors_below
        self._refused = 0
        self._server: asyncio.Server | None = None
        self._connections: dict[_Connection, None] = {}  # in order of arrival
        self._is_closed = False

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, self._host, self.port, limit=1 << 20, backlog=128)
        if self.port == 0:
            self.port = self._server.sockets[0].getsockname()[1]

    def close(self) -> None:
        self._is_closed = True
        if self._server is not None:
            self._server.close()
        for connection in list(self._connections):
            connection.close()

    async def wait_closed(self) -> None:
        await asyncio.gather(*(connection.finished() for connection in list(self._connections)))

    def _has_room_for(self, writer: asyncio.StreamWriter) -> bool:
        connected_socket = writer.get_extra_info("socket")
        if connected_socket is None or connected_socket.fileno() < self._descriptors_below:
            self._refused = 0
            return True
        self._refused += 1
        if self._refused % REFUSED_PER_LINE == 1:
            logger.warning(
                "listener %s: %d connections refused in a row: only the descriptors from %d on are free, and they are"
                " not for connections; raise ulimit -n",
                self.name,
                self._refused,
                self._descriptors_below,
            )
        return False

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # The server may still hand over connections that it accepted just before it was closed.
        if self._is_closed or not self._has_room_for(writer):
            writer.transport.abort()
            return
        connection = _Connection(self.name, reader, writer, self._dispatch, self._max_request_bytes)
        self._connections[connection] = None
        try:
            await connection.run()
        finally:
            self._connections.pop(connection, None)


class _Connection:
    def __init__(
        self,
        listener: str,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        dispatch: Dispatch,
        max_request_bytes: int,
    ) -> None:
        self._listener = listener
        self._reader = reader
        self._writer = writer
        self._dispatch = dispatch
        self._max_request_bytes = max_request_bytes
        self._answers: asyncio.Queue[tuple[Request, Answer] | None] = asyncio.Queue(MAX_REQUESTS_IN_FLIGHT)
        self._task: asyncio.Task[None] | None = None
        self._parts: tuple[asyncio.Task[None], ...] = ()
        self._standing = Standing()
        peer = writer.get_extra_info("peername")
        self._peer = f"{peer[0]}:{peer[1]}" if isinstance(peer, tuple) else str(peer)
        connected_socket = writer.get_extra_info("socket")
        if connected_socket is not None and connected_socket.family in (socket.AF_INET, socket.AF_INET6):
            connected_socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def close(self) -> None:
        for part in self._parts:
            part.cancel()
        self._writer.transport.abort()

    async def finished(self) -> None:
        if self._task is not None:
            await asyncio.wait([self._task])

    async def run(self) -> None:
        self._task = asyncio.current_task()
        self._parts = (
            asyncio.ensure_future(self._answer_in_order()),
            asyncio.ensure_future(self._read_requests()),
        )
        try:
            await asyncio.wait(self._parts, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for part in self._parts:
                part.cancel()
            await asyncio.gather(*self._parts, return_exceptions=True)
            self._abandon_answers()
            self._writer.close()

    def _abandon_answers(self) -> None:
        while not self._answers.empty():
            entry = self._answers.get_nowait()
            if entry is not None and isinstance(entry[1], asyncio.Future):
                entry[1].cancel()

    async def _read_requests(self) -> None:
        try:
            while True:
                size = int.from_bytes(await self._reader.readexactly(4), "big", signed=True)
                if not 0 < size <= self._max_request_bytes:
                    self._log_closing(f"request of {size} bytes is not within 1..{self._max_request_bytes}")
                    return
                await self._begin(await self._reader.readexactly(size))
        except (asyncio.IncompleteReadError, ConnectionError, OSError):
            return  # the client disconnected: there is nobody to answer
        except MalformedRequest as error:
            self._log_closing(str(error))
        except CloseConnection as error:
            self._log_closing(str(error))
        except Exception:
            logger.exception("connection %s of %s: closed, the handler failed", self._peer, self._listener)

    async def _begin(self, frame: bytes) -> None:
        request = decode_request(frame)
        caller = Caller(listener=self._listener, client_id=request.client_id, peer=self._peer, standing=self._standing)
        answer = self._dispatch(request, caller)
        if asyncio.iscoroutine(answer):
            answer = asyncio.ensure_future(answer)
        if answer is not NO_ANSWER:
            await self._answers.put((request, answer))

    async def _answer_in_order(self) -> None:
        try:
            while True:
                entry = await self._answers.get()
                if entry is None:
                    return
                request, answer = entry
                if isinstance(answer, asyncio.Future):
                    answer = await answer
                if answer is NO_ANSWER:
                    continue
                version = request.api_version if request.body is not None else 0  # KIP-511
                self._writer.write(encode_response(request.api_key, version, request.correlation_id, answer))
                if self._writer.transport.get_write_buffer_size() > 1 << 16:
                    await self._writer.drain()
        except (ConnectionError, OSError):
            return
        except CloseConnection as error:
            self._log_closing(str(error))
        except Exception:
            logger.exception("connection %s of %s: closed, the handler failed", self._peer, self._listener)

    def _log_closing(self, reason: str) -> None:
        logger.warning("connection %s of %s closed: %s", self._peer, self._listener, reason)
