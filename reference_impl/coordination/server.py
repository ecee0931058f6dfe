"""The server around the database: connections, session expiry, delivery of watches. Runs on any asyncio loop.

The work between two awaits is atomic: a request is decided, logged, applied and answered inside data_received. So all
requests have one order, and on each connection a watch notification precedes any later answer.
"""

import asyncio
import logging
import platform
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from reference_impl.coordination.answers import Answers, Request
from reference_impl.coordination.connection import Connection
from reference_impl.coordination.database import Database, Requester
from reference_impl.coordination.jute import JuteReader, JuteWriter
from reference_impl.coordination.records import (
    NOTIFICATION_XID,
    PASSWORD_LENGTH,
    Code,
    ConnectRequest,
    ConnectResponse,
    Notification,
    OpCode,
    ReplyHeader,
)
from reference_impl.coordination.sessions import password_of
from reference_impl.coordination.tree import Change
from reference_impl.coordination.watches import Watches

logger = logging.getLogger(__name__)

# Clients choose the requests they send by this version. This service implements a subset of that ZooKeeper, the one of
# Kafka 3.9.
VERSION = "3.8.4-kafka-chaos, built on 2024-02-12 22:16 UTC"
EXPIRY_CHECK_MIN_S = 0.01


@dataclass(frozen=True, kw_only=True)
class SessionLimits:
    """The bounds into which a requested session timeout is clamped."""

    timeout_min_ms: int
    timeout_max_ms: int

    def negotiate(self, wish_ms: int) -> int:
        return max(self.timeout_min_ms, min(self.timeout_max_ms, wish_ms))


class CoordinationServer:
    """Create it on a running loop with a recovered database."""

    def __init__(self, database: Database, *, limits: SessionLimits, wall_clock_ms: Callable[[], int]) -> None:
        self._database = database
        self._limits = limits
        self._wall_clock_ms = wall_clock_ms
        self._watches: Watches[Connection] = Watches()
        self._answers = Answers(database, self._watches)
        self._connections: dict[Connection, None] = {}
        self._by_session: dict[int, Connection] = {}
        self._loop = asyncio.get_running_loop()
        self._expiry_timer: asyncio.TimerHandle | None = None
        self.failure: asyncio.Future[BaseException] = self._loop.create_future()
        """Set when the log can no longer be written: a service that cannot keep its promises ends."""
        self._schedule_expiry()

    def stop(self) -> None:
        """Closes all connections. Sessions stay in the log, and clients can resume them after a restart."""
        if self._expiry_timer is not None:
            self._expiry_timer.cancel()
        for connection in list(self._connections):
            connection.close()

    # Callbacks of a connection (connection.Owner).

    def opened(self, connection: Connection) -> None:
        self._connections[connection] = None

    def lost(self, connection: Connection) -> None:
        self._connections.pop(connection, None)
        self._watches.forget(connection)
        if self._by_session.get(connection.session_id) is connection:
            del self._by_session[connection.session_id]

    def failed(self, error: BaseException) -> None:
        logger.critical("the transaction log cannot be written: %s", error)
        if not self.failure.done():
            self.failure.set_result(error)

    def status(self, word: str) -> str:
        """Answers ZooKeeper's four-letter commands, for operators and start scripts."""
        if word == "ruok":
            return "imok"
        if word == "envi":
            return f"Environment:\nzookeeper.version={VERSION}\nhost.name={platform.node()}\n"
        return (
            f"Zookeeper version: {VERSION}\n"
            f"Connections: {len(self._connections)}\n"
            f"Sessions: {len(self._database.sessions)}\n"
            f"Zxid: 0x{self._database.zxid:x}\n"
            "Mode: standalone\n"
            f"Node count: {len(self._database.tree)}\n"
        )

    def connect(self, connection: Connection, payload: bytes) -> None:
        request = ConnectRequest.read(JuteReader(payload))
        if request.last_zxid_seen > self._database.zxid:
            # The client has seen a newer state than this log holds; serving it would move it back in time.
            logger.warning("refusing a client from the future: zxid 0x%x", request.last_zxid_seen)
            connection.close()
            return
        session_id = self._session_for(request)
        if session_id is None:
            connection.send(
                _encode_connect_response(request, timeout_ms=0, session_id=0, password=bytes(PASSWORD_LENGTH))
            )
            connection.close()
            return
        previous = self._by_session.get(session_id)
        if previous is not None:
            previous.close()
        self._by_session[session_id] = connection
        connection.session_id = session_id
        self._database.sessions.touch(session_id, now=self._loop.time())
        self._schedule_expiry()
        timeout_ms = self._database.sessions.timeout_ms(session_id)
        password = password_of(session_id)
        connection.send(
            _encode_connect_response(request, timeout_ms=timeout_ms, session_id=session_id, password=password)
        )

    def _session_for(self, request: ConnectRequest) -> int | None:
        """Returns a new session or the one that the client resumes; None if that has expired or the
        password is wrong."""
        if request.session_id == 0:
            return self._database.open_session(
                timeout_ms=self._limits.negotiate(request.timeout_ms),
                now=self._loop.time(),
                wall_clock_ms=self._wall_clock_ms(),
            )
        known = request.session_id in self._database.sessions
        return request.session_id if known and request.password == password_of(request.session_id) else None

    def request(self, connection: Connection, payload: bytes) -> None:
        self._database.sessions.touch(connection.session_id, now=self._loop.time())
        reader = JuteReader(payload)
        xid, op_code = reader.integer(), reader.integer()
        answer = self._answers.answer(
            Request(
                op_code=op_code,
                reader=reader,
                requester=Requester(session_id=connection.session_id, cxid=xid),
                watcher=connection,
                wall_clock_ms=self._wall_clock_ms(),
            )
        )
        self._fire(answer.changes)
        for notification in answer.missed:
            self._notify(connection, notification)
        connection.send(answer.encode(xid))
        if op_code == OpCode.CLOSE_SESSION:
            connection.close()

    def _fire(self, changes: Iterable[Change]) -> None:
        for change in changes:
            for connection, notification in self._watches.fire(change):
                self._notify(connection, notification)

    def _notify(self, connection: Connection, notification: Notification) -> None:
        writer = JuteWriter()
        ReplyHeader(xid=NOTIFICATION_XID, zxid=-1, code=Code.OK).write(writer)
        notification.write(writer)
        connection.send(writer.data)

    # Expiry: one timer at the nearest deadline. Pings only move deadlines; a timer that finds nothing expired is set
    # again.

    def _schedule_expiry(self) -> None:
        deadline = self._database.sessions.next_deadline()
        if self._expiry_timer is not None:
            self._expiry_timer.cancel()
            self._expiry_timer = None
        if deadline is not None:
            when = max(deadline, self._loop.time() + EXPIRY_CHECK_MIN_S)
            self._expiry_timer = self._loop.call_at(when, self._expire)

    def _expire(self) -> None:
        for session_id in self._database.sessions.expired(now=self._loop.time()):
            logger.info("session 0x%x expired", session_id)
            requester = Requester(session_id=session_id, cxid=0)
            try:
                done = self._database.close_session(requester, wall_clock_ms=self._wall_clock_ms())
            except OSError as error:
                self.failed(error)
                return
            self._fire(done.changes)
            connection = self._by_session.get(session_id)
            if connection is not None:
                connection.close()
        self._schedule_expiry()


def _encode_connect_response(request: ConnectRequest, *, timeout_ms: int, session_id: int, password: bytes) -> bytes:
    writer = JuteWriter()
    ConnectResponse(
        timeout_ms=timeout_ms,
        session_id=session_id,
        password=password,
        read_only=None if request.read_only is None else False,
    ).write(writer)
    return writer.data
