"""One client connection of the server: splits the byte stream into frames. A malformed frame closes this connection
only."""

import asyncio
import logging
from typing import Protocol

from reference_impl.coordination.framing import FrameBuffer, frame
from reference_impl.coordination.jute import MalformedRecord

logger = logging.getLogger(__name__)

NO_SESSION = 0
FOUR_LETTER_WORDS = frozenset({b"ruok", b"srvr", b"stat", b"envi"})


class Owner(Protocol):
    """What a connection needs from the server."""

    def opened(self, connection: "Connection") -> None: ...

    def lost(self, connection: "Connection") -> None: ...

    def connect(self, connection: "Connection", payload: bytes) -> None: ...

    def request(self, connection: "Connection", payload: bytes) -> None: ...

    def status(self, word: str) -> str: ...

    def failed(self, error: BaseException) -> None: ...


class Connection(asyncio.Protocol):
    def __init__(self, owner: Owner) -> None:
        self.session_id = NO_SESSION
        self._owner = owner
        self._frames = FrameBuffer()
        self._transport: asyncio.Transport | None = None
        self._paused = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._owner.opened(self)

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self._owner.lost(self)

    def data_received(self, data: bytes) -> None:
        self._frames.feed(data)
        self._process()

    def pause_writing(self) -> None:
        """Stops reading requests while the client does not read its answers."""
        self._paused = True
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        self._paused = False
        if self._transport is not None:
            self._transport.resume_reading()
            self._process()

    def send(self, payload: bytes) -> None:
        if self._transport is not None:
            self._transport.write(frame(payload))

    def close(self) -> None:
        """Flushes pending answers and reads nothing more."""
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.close()
            self._owner.lost(self)

    def _process(self) -> None:
        if self.session_id == NO_SESSION and (word := self._frames.starts_with()) in FOUR_LETTER_WORDS:
            if self._transport is not None:
                self._transport.write(self._owner.status(word.decode()).encode())
            self.close()
            return
        try:
            for payload in self._frames.frames():
                if self.session_id == NO_SESSION:
                    self._owner.connect(self, payload)
                else:
                    self._owner.request(self, payload)
                if self._transport is None or self._paused:
                    return
        except MalformedRecord as error:
            logger.warning("closing the connection of session 0x%x: malformed frame: %s", self.session_id, error)
            self.close()
        except OSError as error:
            # Only the log does system calls here. A write that the log did not take must not be answered.
            self._owner.failed(error)
            self.close()
