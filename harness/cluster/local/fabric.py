"""The link fabric: TCP forwarders, one per directed link, that can hang, reset and delay connections.

A link consists of the connections that its source opens to its target, in both directions. A cut with mode "hang" acts
like DROP on existing connections: bytes wait in both directions and continue after healing, and new connections get no
answer. Mode "reset" acts like REJECT. In contrast to packet loss, the kernel still accepts bytes and connections, so a
connect never times out here.
"""

import asyncio
import contextlib
import socket
import struct
from dataclasses import dataclass, field

_PIECE_BYTES = 1 << 16
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


@dataclass(frozen=True, kw_only=True)
class Route:
    """Where a link listens, and its target."""

    link: str
    listen: tuple[str, int]
    target: tuple[str, int]


@dataclass(eq=False, kw_only=True)
class _Connection:
    near: asyncio.StreamWriter
    far: asyncio.StreamWriter | None = None
    tasks: list[asyncio.Task[None]] = field(default_factory=list)

    def reset(self) -> None:
        for writer in (self.near, self.far):
            if writer is not None:
                _reset(writer)
        current = asyncio.current_task()
        for task in self.tasks:
            if task is not current:  # a handler that is ending is not cancelled: asyncio would log that as an error
                task.cancel()


class LinkForwarder:
    """One link. `passing` is cleared while it hangs; `refusing` is set while it resets."""

    def __init__(self, route: Route) -> None:
        self.route = route
        self.delay_s = 0.0
        self.bytes_forwarded = 0
        self._passing = asyncio.Event()
        self._passing.set()
        self._refusing = False
        self._connections: set[_Connection] = set()
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        host, port = self.route.listen
        self._server = await asyncio.start_server(self._accept, host, port, limit=_PIECE_BYTES, backlog=128)

    def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        self._reset_all()

    def cut(self, mode: str) -> None:
        self._refusing = mode == "reset"
        if self._refusing:
            self._reset_all()
        else:
            self._passing.clear()

    def heal(self, mode: str) -> None:
        self._refusing = False
        if mode == "reset":
            self._reset_all()
        self._passing.set()

    @property
    def connections(self) -> int:
        return len(self._connections)

    @property
    def cut_now(self) -> bool:
        return self._refusing or not self._passing.is_set()

    def _reset_all(self) -> None:
        for connection in list(self._connections):
            connection.reset()
        self._connections.clear()  # at once, because the caller counts connections before their handlers have ended

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._refusing:
            _reset(writer)
            return
        connection = _Connection(near=writer)
        self._connections.add(connection)
        current = asyncio.current_task()
        assert current is not None, "a server's handler is a task"
        connection.tasks.append(current)
        try:
            await self._passing.wait()
            far_reader, connection.far = await asyncio.open_connection(*self.route.target, limit=_PIECE_BYTES)
            _without_delay(writer)
            _without_delay(connection.far)
            back = asyncio.create_task(self._pump(far_reader, writer))
            connection.tasks.append(back)
            await self._pump(reader, connection.far)
            await back
            # Bytes still in buffers are sent: a reset here would discard them.
            for end in (writer, connection.far):
                end.close()
            for end in (writer, connection.far):
                await end.wait_closed()
        except OSError:
            _reset(writer)  # nobody listens there: the source sees what it would see without the forwarder
        except asyncio.CancelledError:
            return  # reset, or the fabric ends; nobody awaits a handler
        finally:
            self._connections.discard(connection)
            connection.reset()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Forwards one direction. The end of the stream or a reset is forwarded after all bytes, and not through a link
        that hangs."""
        pending: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(maxsize=64)
        sender = asyncio.create_task(self._send(pending, writer))
        try:
            while True:
                await self._passing.wait()
                piece = await reader.read(_PIECE_BYTES)
                due = asyncio.get_running_loop().time() + self.delay_s
                await pending.put((due, piece))
                if not piece:
                    break
            await sender
        except ConnectionError:
            await self._passing.wait()
            _reset(writer)
        finally:
            sender.cancel()

    async def _send(self, pending: "asyncio.Queue[tuple[float, bytes]]", writer: asyncio.StreamWriter) -> None:
        loop = asyncio.get_running_loop()
        while True:
            due, piece = await pending.get()
            if due > loop.time():
                await asyncio.sleep(due - loop.time())
            await self._passing.wait()
            with contextlib.suppress(ConnectionError, RuntimeError):  # the other side is closed: its pump will notice
                if not piece:
                    if writer.can_write_eof():
                        writer.write_eof()
                    return
                writer.write(piece)
                self.bytes_forwarded += len(piece)
                await writer.drain()


def _reset(writer: asyncio.StreamWriter) -> None:
    raw = writer.get_extra_info("socket")
    if raw is not None and raw.fileno() >= 0:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
    writer.transport.abort()


def _without_delay(writer: asyncio.StreamWriter) -> None:
    raw = writer.get_extra_info("socket")
    if raw is not None:
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
