"""The brokers' asyncio client of the coordination service (this one or a real ZooKeeper).

It keeps one session over many connections. When a connection is lost, the calls under way raise ConnectionLost, and the
client reconnects and sets its watches again. As in ZooKeeper, a client that was disconnected for longer than its
session timeout learns of the expiry only when it reaches the service again. Callbacks run on the event loop, in the
order in which the service sent the notifications.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from reference_impl.coordination.client_connection import ClientConnection
from reference_impl.coordination.client_watches import ClientWatches
from reference_impl.coordination.errors import (
    BadVersion,
    ConnectionLost,
    CoordinationError,
    NoChildrenForEphemerals,
    NodeExists,
    NoNode,
    NotEmpty,
    SessionExpired,
    error_for,
)
from reference_impl.coordination.jute import JuteReader, JuteWriter
from reference_impl.coordination.records import (
    ANY_VERSION,
    PASSWORD_LENGTH,
    CheckRequest,
    Code,
    ConnectRequest,
    Create2Request,
    CreateFlag,
    DeleteRequest,
    EventType,
    MultiHeader,
    Notification,
    OpCode,
    Operation,
    SetDataRequest,
    Stat,
    write_multi,
)

__all__ = [
    "BadVersion",
    "Check",
    "ConnectionLost",
    "CoordinationClient",
    "CoordinationError",
    "Create",
    "Delete",
    "NoChildrenForEphemerals",
    "NoNode",
    "NodeExists",
    "NotEmpty",
    "SessionExpired",
    "Set",
    "Stat",
    "WatchEvent",
]

logger = logging.getLogger(__name__)

BACKOFF_MIN_S = 0.05
BACKOFF_MAX_S = 0.2
EVENT_NAMES: dict[EventType, Literal["created", "deleted", "changed", "children"]] = {
    EventType.CREATED: "created",
    EventType.DELETED: "deleted",
    EventType.CHANGED: "changed",
    EventType.CHILDREN: "children",
}
SessionState = Literal["connected", "disconnected", "expired"]


@dataclass(frozen=True, kw_only=True)
class WatchEvent:
    kind: Literal["created", "deleted", "changed", "children"]
    path: str


@dataclass(frozen=True, kw_only=True)
class Create:
    path: str
    data: bytes
    ephemeral: bool = False

    def request(self) -> Operation:
        flags = CreateFlag.EPHEMERAL if self.ephemeral else CreateFlag.PERSISTENT
        return Create2Request(path=self.path, data=self.data, flags=flags)


@dataclass(frozen=True, kw_only=True)
class Set:
    path: str
    data: bytes
    version: int

    def request(self) -> Operation:
        return SetDataRequest(path=self.path, data=self.data, version=self.version)


@dataclass(frozen=True, kw_only=True)
class Delete:
    path: str
    version: int = ANY_VERSION

    def request(self) -> Operation:
        return DeleteRequest(path=self.path, version=self.version)


@dataclass(frozen=True, kw_only=True)
class Check:
    path: str
    version: int

    def request(self) -> Operation:
        return CheckRequest(path=self.path, version=self.version)


class _Refused(Exception):
    """The service rejected the connect request because the session has ended."""


class CoordinationClient:
    def __init__(
        self,
        connect: str,
        *,
        session_timeout_ms: int,
        resolve: Callable[[str], str] = lambda name: name,
        on_watch: Callable[[WatchEvent], None],
        on_session: Callable[[SessionState], None],
    ) -> None:
        self._servers = _parse_servers(connect)
        self._resolve = resolve
        self._on_watch = on_watch
        self._on_session = on_session
        self._timeout_ms = session_timeout_ms
        self._password = bytes(PASSWORD_LENGTH)
        self._last_zxid = 0
        self._attempts = 0
        self._watches = ClientWatches()
        self._connection: ClientConnection | None = None
        self._task: asyncio.Task[None] | None = None
        self._over = False
        """Expired or closed: nothing will ever be answered again."""
        self.session_id = 0

    # The session.

    async def start(self) -> None:
        """Connects; returns once the session is established, however long that takes."""
        assert self._task is None, "a client is started once"
        first_connected: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._task = asyncio.ensure_future(self._keep_session(first_connected))
        # The task ends before the first connection only on an error that a retry cannot fix.
        await asyncio.wait([first_connected, self._task], return_when=asyncio.FIRST_COMPLETED)
        if self._task.cancelled():
            raise SessionExpired("closed before it was connected")
        if not first_connected.done():
            await self._task

    async def close(self) -> None:
        """Ends the session. If the service is reachable, its ephemeral znodes are deleted at once instead of after the
        timeout."""
        connection, was_over, self._over = self._connection, self._over, True
        if connection is not None and not was_over:
            try:
                async with asyncio.timeout(self._timeout_ms / 3000):
                    await connection.request(OpCode.CLOSE_SESSION, b"", subject="close")
            except (ConnectionLost, TimeoutError):
                logger.info("session 0x%x could not be closed; it will expire", self.session_id)
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        if connection is not None:
            connection.abort()

    def abandon(self) -> None:
        """Drops the connection without closing the session, as a killed process does; the session expires by its
        timeout."""
        self._over = True
        if self._task is not None:
            self._task.cancel()
        if self._connection is not None:
            self._connection.abort()

    async def _keep_session(self, first_connected: asyncio.Future[None]) -> None:
        backoff_s = BACKOFF_MIN_S
        while not self._over:
            try:
                connection = await self._connect()
            except (OSError, TimeoutError, ConnectionLost) as error:
                logger.debug("no connection: %s", error)
                await asyncio.sleep(backoff_s)
                backoff_s = min(backoff_s * 2, BACKOFF_MAX_S)
                continue
            except _Refused:
                logger.warning("session 0x%x expired", self.session_id)
                self._over = True
                self._tell("expired")
                return
            backoff_s = BACKOFF_MIN_S
            if not first_connected.done():
                first_connected.set_result(None)
            try:
                await self._heartbeat(connection)
            finally:
                self._connection = None
                connection.abort()
            if not self._over:
                self._tell("disconnected")
                await asyncio.sleep(backoff_s)

    async def _connect(self) -> ClientConnection:
        host, port = self._servers[self._attempts % len(self._servers)]
        self._attempts += 1
        loop = asyncio.get_running_loop()
        connection = ClientConnection(on_notification=self._notified, on_zxid=self._saw_zxid)
        request = ConnectRequest(
            last_zxid_seen=self._last_zxid,
            timeout_ms=self._timeout_ms,
            session_id=self.session_id,
            password=self._password,
        )
        try:
            async with asyncio.timeout(self._timeout_ms / 3000):
                await loop.create_connection(lambda: connection, self._resolve(host), port)
                response = await connection.connect(request)
        except BaseException:
            connection.abort()
            raise
        if response.timeout_ms <= 0:
            connection.abort()
            raise _Refused
        self.session_id = response.session_id
        self._password = response.password
        self._timeout_ms = response.timeout_ms
        for watches in self._watches.requests(self._last_zxid):
            connection.set_watches(watches)
        self._connection = connection
        self._tell("connected")
        return connection

    async def _heartbeat(self, connection: ClientConnection) -> None:
        """Sends a ping every third of the session timeout; no answer for two thirds counts as a lost connection."""
        loop = asyncio.get_running_loop()
        ping_at = loop.time() + self._timeout_ms / 3000
        while not connection.lost.done():
            silent_at = connection.heard_at + self._timeout_ms * 2 / 3000
            await asyncio.wait([connection.lost], timeout=max(0.0, min(ping_at, silent_at) - loop.time()))
            if loop.time() >= connection.heard_at + self._timeout_ms * 2 / 3000:
                logger.info("nothing heard from the coordination service for %d ms", self._timeout_ms * 2 // 3)
                return
            if loop.time() >= ping_at:
                connection.ping()
                ping_at = loop.time() + self._timeout_ms / 3000

    def _saw_zxid(self, zxid: int) -> None:
        self._last_zxid = max(self._last_zxid, zxid)

    def _notified(self, notification: Notification) -> None:
        self._watches.fired(notification)
        event = WatchEvent(kind=EVENT_NAMES[notification.event], path=notification.path)
        # Scheduled on the loop, so that calls answered earlier are resumed first.
        asyncio.get_running_loop().call_soon(self._on_watch, event)

    def _tell(self, state: SessionState) -> None:
        asyncio.get_running_loop().call_soon(self._on_session, state)

    # Calls.

    async def create(self, path: str, data: bytes, *, ephemeral: bool = False) -> Stat:
        reader = await self._operate(Create(path=path, data=data, ephemeral=ephemeral).request())
        reader.string()
        return Stat.read(reader)

    async def get(self, path: str, *, watch: bool = False) -> tuple[bytes, Stat]:
        def answered(code: int) -> None:
            if watch and code == Code.OK:
                self._watches.expect_data(path)

        reader = await self._ask(OpCode.GET_DATA, _query(path, watch), path, answered)
        return reader.buffer() or b"", Stat.read(reader)

    async def exists(self, path: str, *, watch: bool = False) -> Stat | None:
        def answered(code: int) -> None:
            if watch and code == Code.OK:
                self._watches.expect_data(path)
            elif watch and code == Code.NO_NODE:
                self._watches.expect_creation(path)

        try:
            return Stat.read(await self._ask(OpCode.EXISTS, _query(path, watch), path, answered))
        except NoNode:
            return None

    async def set(self, path: str, data: bytes, *, version: int) -> Stat:
        """Writes conditionally. Raises BadVersion if `version` is not the current version (-1 matches any)."""
        return Stat.read(await self._operate(Set(path=path, data=data, version=version).request()))

    async def delete(self, path: str, *, version: int = ANY_VERSION) -> None:
        await self._operate(Delete(path=path, version=version).request())

    async def children(self, path: str, *, watch: bool = False) -> list[str]:
        def answered(code: int) -> None:
            if watch and code == Code.OK:
                self._watches.expect_children(path)

        reader = await self._ask(OpCode.GET_CHILDREN2, _query(path, watch), path, answered)
        return reader.vector(reader.string)

    async def multi(self, operations: Sequence[Create | Set | Delete | Check]) -> list[Stat | None]:
        """Executes all operations or none. Raises the error of the operation that failed."""
        writer = JuteWriter()
        write_multi(writer, [operation.request() for operation in operations])
        reader = await self._ask(OpCode.MULTI, writer.data, "multi", None)
        return _read_multi_results(reader, operations)

    async def _operate(self, operation: Operation) -> JuteReader:
        writer = JuteWriter()
        operation.write(writer)
        return await self._ask(operation.op_code, writer.data, operation.path, None)

    async def _ask(
        self, op_code: OpCode, payload: bytes, subject: str, on_answer: Callable[[int], None] | None
    ) -> JuteReader:
        if self._over:
            raise SessionExpired(subject)
        if self._connection is None:
            raise ConnectionLost(subject)
        return await self._connection.request(op_code, payload, subject=subject, on_answer=on_answer)


def _query(path: str, watch: bool) -> bytes:
    writer = JuteWriter()
    writer.string(path)
    writer.boolean(watch)
    return writer.data


def _read_multi_results(reader: JuteReader, operations: Sequence[Create | Set | Delete | Check]) -> list[Stat | None]:
    stats: list[Stat | None] = []
    codes: list[int] = []
    while not (header := MultiHeader.read(reader)).done:
        if header.op_code == OpCode.ERROR:
            codes.append(reader.integer())
            continue
        if header.op_code in (OpCode.CREATE, OpCode.CREATE2):
            reader.string()
        with_stat = header.op_code in (OpCode.CREATE2, OpCode.SET_DATA)
        stats.append(Stat.read(reader) if with_stat else None)
    for operation, code in zip(operations, codes, strict=False):
        # Operations before the failed one carry OK (rolled back), those after it RUNTIME_INCONSISTENCY (not tried).
        if code not in (Code.OK, Code.RUNTIME_INCONSISTENCY):
            raise error_for(code, operation.path)
    return stats


def _parse_servers(connect: str) -> list[tuple[str, int]]:
    servers: list[tuple[str, int]] = []
    for part in connect.split(","):
        host, separator, port = part.strip().rpartition(":")
        if not separator or not port.isdigit():
            raise ValueError(f"zookeeper.connect={connect}: write host:port[,host:port...], without a path")
        servers.append((host, int(port)))
    return servers
