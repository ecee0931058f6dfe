"""Kafka's frames in a stream of bytes: which request one is, and which request an answer belongs to.

A frame has its size in front of it. What does not look like one is passed on as it is: a network reads along, and never
keeps anything from anybody because it does not understand it. It knows nothing of loops and connections.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

_SIZE_BYTES = 4
_LEAST_BYTES, _MOST_BYTES = 4, 1 << 28


@dataclass(frozen=True, kw_only=True)
class Frame:
    """data: with its size. api_key: of the request, or of the one that it answers; None: unknown."""

    data: bytes
    api_key: int | None


@dataclass(kw_only=True)
class Frames:
    """One direction of a connection. `asked`: shared by both, the requests that have no answer yet."""

    are_answers: bool
    asked: dict[int, int] = field(default_factory=dict)  # correlation id -> API key
    _rest: bytes = b""
    _is_readable: bool = True

    def feed(self, data: bytes) -> Iterator[Frame]:
        """What is whole now."""
        data, self._rest = self._rest + data, b""
        while data and self._is_readable:
            size = int.from_bytes(data[:_SIZE_BYTES], "big")
            if len(data) < _SIZE_BYTES or (_LEAST_BYTES <= size <= _MOST_BYTES and len(data) < _SIZE_BYTES + size):
                self._rest = data
                return
            if not _LEAST_BYTES <= size <= _MOST_BYTES:
                self._is_readable = False
                break
            frame, data = data[: _SIZE_BYTES + size], data[_SIZE_BYTES + size :]
            yield Frame(data=frame, api_key=self._api_key(frame))
        if data:
            yield Frame(data=data, api_key=None)

    def rest(self) -> Iterator[Frame]:
        """What was begun and will not be completed, because the stream ends."""
        if self._rest:
            yield Frame(data=self._rest, api_key=None)
            self._rest = b""

    def _api_key(self, frame: bytes) -> int | None:
        if self.are_answers:
            return self.asked.pop(int.from_bytes(frame[4:8], "big"), None)
        if len(frame) < 12:
            return None
        api_key, correlation = int.from_bytes(frame[4:6], "big"), int.from_bytes(frame[8:12], "big")
        self.asked[correlation] = api_key
        return api_key
