"""One connection of the client: the connect exchange, then answers in request order with notifications in between."""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from reference_impl.coordination.errors import ConnectionLost, error_for
from reference_impl.coordination.framing import FrameBuffer, frame
from reference_impl.coordination.jute import JuteReader, JuteWriter, MalformedRecord
from reference_impl.coordination.records import (
    NOTIFICATION_XID,
    PING_XID,
    SET_WATCHES_XID,
    Code,
    ConnectRequest,
    ConnectResponse,
    Notification,
    OpCode,
    ReplyHeader,
    SetWatchesRequest,
)


@dataclass(frozen=True, kw_only=True)
class _Pending:
    xid: int
    subject: str
    answer: asyncio.Future[JuteReader]
    on_answer: Callable[[Code | int], None] | None


class ClientConnection(asyncio.Protocol):
    """`lost` completes when the connection is gone; pending requests then fail with ConnectionLost."""

    def __init__(self, *, on_notification: Callable[[Notification], None], on_zxid: Callable[[int], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._on_notification = on_notification
        self._on_zxid = on_zxid
        self._frames = FrameBuffer()
        self._transport: asyncio.Transport | None = None
        self._pending: deque[_Pending] = deque()
        self._next_xid = 1
        self._connected: asyncio.Future[ConnectResponse] = self._loop.create_future()
        self.lost: asyncio.Future[None] = self._loop.create_future()
        self.heard_at = self._loop.time()

    # Sending.

    async def connect(self, request: ConnectRequest) -> ConnectResponse:
        writer = JuteWriter()
        request.write(writer)
        self._send(writer.data)
        return await self._connected

    def ping(self) -> None:
        self._send_header(PING_XID, OpCode.PING)

    def set_watches(self, request: SetWatchesRequest) -> None:
        writer = JuteWriter()
        writer.integer(SET_WATCHES_XID)
        writer.integer(OpCode.SET_WATCHES)
        request.write(writer)
        self._send(writer.data)

    def request(
        self, op_code: OpCode, payload: bytes, *, subject: str, on_answer: Callable[[int], None] | None = None
    ) -> asyncio.Future[JuteReader]:
        """Sends a request. `on_answer` gets the error code before later frames of the connection are processed."""
        answer: asyncio.Future[JuteReader] = self._loop.create_future()
        if self.lost.done() or self._transport is None or self._transport.is_closing():
            answer.set_exception(ConnectionLost(subject))
            return answer
        self._pending.append(_Pending(xid=self._next_xid, subject=subject, answer=answer, on_answer=on_answer))
        self._send_header(self._next_xid, op_code, payload)
        self._next_xid += 1
        return answer

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()
        self._lose()

    def _send_header(self, xid: int, op_code: OpCode, payload: bytes = b"") -> None:
        writer = JuteWriter()
        writer.integer(xid)
        writer.integer(op_code)
        writer.raw(payload)
        self._send(writer.data)

    def _send(self, payload: bytes) -> None:
        if self._transport is not None:
            self._transport.write(frame(payload))

    # Receiving.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self._lose()

    def data_received(self, data: bytes) -> None:
        self.heard_at = self._loop.time()
        self._frames.feed(data)
        try:
            for payload in self._frames.frames():
                self._receive(JuteReader(payload))
                if self.lost.done():
                    return
        except (MalformedRecord, ValueError):
            # Not a coordination service, or bytes were corrupted on the way: only a new connection helps.
            self.abort()

    def _receive(self, reader: JuteReader) -> None:
        if not self._connected.done():
            self._connected.set_result(ConnectResponse.read(reader))
            return
        header = ReplyHeader.read(reader)
        if header.xid == NOTIFICATION_XID:
            self._on_notification(Notification.read(reader))
            return
        if header.zxid > 0:
            self._on_zxid(header.zxid)
        if header.xid in (PING_XID, SET_WATCHES_XID):
            return
        if not self._pending or self._pending[0].xid != header.xid:
            raise MalformedRecord(f"an answer to {header.xid}, which is not the next one")
        pending = self._pending.popleft()
        if pending.on_answer is not None:
            pending.on_answer(header.code)
        if pending.answer.done():
            return  # the caller was cancelled
        if header.code == Code.OK:
            pending.answer.set_result(reader)
        else:
            pending.answer.set_exception(error_for(header.code, pending.subject))

    def _lose(self) -> None:
        if self.lost.done():
            return
        self.lost.set_result(None)
        if not self._connected.done():
            self._connected.set_exception(ConnectionLost("closed by the service"))
            # Perhaps nobody awaits the future any more: mark its exception as retrieved.
            self._connected.exception()
        while self._pending:
            pending = self._pending.popleft()
            if not pending.answer.done():
                pending.answer.set_exception(ConnectionLost(pending.subject))
                pending.answer.exception()
