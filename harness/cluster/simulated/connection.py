"""The two ends of a connection in memory: bytes arrive in order, late, and once.

An end is an asyncio transport. What it writes are frames, which its link carries or holds; the end of the stream is one
too, so it never overtakes bytes. They arrive in pieces. Whoever writes to a peer that is gone is reset, as by TCP.
"""

import asyncio
import contextvars
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, cast

from harness.cluster.simulated.frames import Frame, Frames
from harness.cluster.simulated.machines import machine_of
from harness.cluster.simulated.struck_frames import Striking, Waiting

_HIGH_BYTES, _LOW_BYTES = 1 << 20, 1 << 18  # of what is under way: then the writer has to wait
_PIECE_BYTES = 1 << 16
_END = b""
_APART_S = 1e-9  # a loop gives timers of one moment no order
Mode = Literal["hang", "reset"]


@dataclass(kw_only=True, eq=False)
class LinkState:
    """A link, or a way that is none: the harness's own. cut: None while bytes pass."""

    name: str
    is_kafka: bool = False  # whether its bytes are Kafka's frames
    cut: Mode | None = None
    delay_s: float = 0.0
    connections: dict["End", None] = field(default_factory=dict)  # by the end that opened it
    striking: list[Striking] = field(default_factory=list)  # the faults on single frames in force here
    tell: Callable[[int], None] = lambda api_key: None  # of each request that leaves its sender
    passing: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.passing.set()

    def reset(self) -> None:
        for end in list(self.connections):
            end.reset()

    @property
    def held_frames(self) -> int:
        return sum(end.held_frames + end.peer.held_frames for end in self.connections)

    def release(self) -> None:
        """What nothing holds any more goes on."""
        for end in list(self.connections):
            end.release()
            end.peer.release()


class End(asyncio.Transport):
    """One end. Its protocol runs in `context`, which says on which machine."""

    def __init__(
        self,
        *,
        link: LinkState,
        context: contextvars.Context,
        latency_s: Callable[[], float],
        here: tuple[str, int],
        there: tuple[str, int],
    ) -> None:
        super().__init__({"sockname": here, "peername": there, "socket": None})
        self.peer: End = self  # until it is joined to the other one
        self._loop = asyncio.get_running_loop()
        self._link = link
        self._context = context
        self._latency_s = latency_s
        self._protocol = asyncio.Protocol()
        self._closed = self._peer_is_gone = False
        self._last_s = 0.0  # when the last piece arrives
        self._held: deque[Waiting] = deque()
        self._frames = Frames(are_answers=False)
        self._inbox: deque[bytes] = deque()
        self._reads = True
        self._under_way_bytes = 0
        self._waits = False

    def begin(self, protocol: asyncio.BaseProtocol) -> None:
        self.set_protocol(protocol)
        protocol.connection_made(self)

    # -- writing ------------------------------------------------------------------------------------------------------

    def write(self, data: Any) -> None:
        written = bytes(data)
        if self._closed or not written or _is_struck():
            return
        if self._peer_is_gone:
            self._loop.call_at(self._loop.time() + self._latency_s(), self._lose, _broken(), context=self._context)
            return
        self._under_way_bytes += len(written)
        if self._under_way_bytes > _HIGH_BYTES and not self._waits:
            self._waits = True
            self._protocol.pause_writing()
        frames = self._frames.feed(written) if self._link.is_kafka else (Frame(data=written, api_key=None),)
        for frame in frames:
            if frame.api_key is not None and not self._frames.are_answers:
                self._link.tell(frame.api_key)
            self._carry(frame)

    def _carry(self, frame: Frame) -> None:
        """In order: what comes behind a held frame waits with it."""
        waiting = Waiting(frame=frame)
        if self._held or not self._goes_on(waiting):
            self._held.append(waiting)

    def _goes_on(self, waiting: Waiting) -> bool:
        """Whether it is on its way now, or lost."""
        if self._link.cut is not None:
            return False
        by = waiting.is_struck(self._link.striking, is_answer=self._frames.are_answers)
        if not by:
            self._send(waiting.frame)
        elif any(each.requests.lost for each in by):
            self._break_off()
        return not by or any(each.requests.lost for each in by)

    def _break_off(self) -> None:
        """What went before arrives; then the connection is reset, at both ends."""
        at_s = max(self._loop.time() + self._latency_s() + self._link.delay_s, self._last_s + _APART_S)
        self._last_s = at_s
        self._loop.call_at(at_s, self.reset)

    def _send(self, frame: Frame) -> None:
        for begin in range(0, max(len(frame.data), 1), _PIECE_BYTES):
            self._send_piece(frame.data[begin : begin + _PIECE_BYTES])

    def _send_piece(self, piece: bytes) -> None:
        at_s = max(self._loop.time() + self._latency_s() + self._link.delay_s, self._last_s + _APART_S)
        self._last_s = at_s
        self._loop.call_at(at_s, self.peer._arrives, piece, context=self.peer._context)

    def release(self) -> None:
        while self._held and self._goes_on(self._held[0]):
            self._held.popleft()

    @property
    def held_frames(self) -> int:
        return len(self._held)

    def join(self, accepting: "End") -> None:
        """This one has opened the connection: what it writes are requests."""
        self.peer, accepting.peer = accepting, self
        accepting._frames = Frames(are_answers=True, asked=self._frames.asked)

    def _has_passed(self, count: int) -> None:
        self._under_way_bytes -= count
        if self._waits and self._under_way_bytes < _LOW_BYTES:
            self._waits = False
            self._loop.call_soon(self._protocol.resume_writing, context=self._context)

    # -- reading ------------------------------------------------------------------------------------------------------

    def _arrives(self, piece: bytes) -> None:
        self._inbox.append(piece)
        self._read()

    def _read(self) -> None:
        while self._inbox and self._reads and not self._closed:
            piece = self._inbox.popleft()
            if piece == _END:
                self._peer_is_gone = True
                if not self._protocol.eof_received():
                    self.close()
            else:
                self.peer._has_passed(len(piece))
                self._protocol.data_received(piece)

    def pause_reading(self) -> None:
        self._reads = False

    def resume_reading(self) -> None:
        self._reads = True
        self._loop.call_soon(self._read, context=self._context)

    def is_reading(self) -> bool:
        return self._reads

    # -- ending -------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        if not self._closed:
            for frame in (*self._frames.rest(), Frame(data=_END, api_key=None)):
                self._carry(frame)
            self._lose(None)

    def abort(self) -> None:
        self.close()

    def reset(self) -> None:
        """Both ends are told, and what was under way is lost."""
        for end in (self, self.peer):
            end._held.clear()
            end._lose(_broken())

    def _lose(self, error: Exception | None) -> None:
        if not self._closed:
            self._closed = True
            self._inbox.clear()
            self._loop.call_soon(self._protocol.connection_lost, error, context=self._context)
            if self.peer._closed:
                self._link.connections.pop(self, None)
                self._link.connections.pop(self.peer, None)

    def is_closing(self) -> bool:
        return self._closed

    # -- the rest of a transport --------------------------------------------------------------------------------------

    def get_write_buffer_size(self) -> int:
        return self._under_way_bytes

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """The limits are the network's."""

    def can_write_eof(self) -> bool:
        return False

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._protocol

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = cast(asyncio.Protocol, protocol)


def _is_struck() -> bool:
    """Whether a machine writes that was killed at a write: the rest of its turn of the loop nobody hears of."""
    machine = machine_of()
    return machine is not None and machine.disk is not None and machine.disk.at_crash is not None


def _broken() -> ConnectionResetError:
    return ConnectionResetError("the connection was reset")
