"""Asks one broker one thing on a socket of its own, with Kafka's codecs and no Kafka client.

A client library would pick a broker by itself and remember it; with a zombie in the cluster its answers flicker. Here
every answer is known to be that broker's own (real_kafka.md 5.3).
"""

import asyncio
import contextlib
from typing import Any

_CLIENT_ID = "kafka-chaos-observer"


class BrokerConnection:
    """One connection, opened when it is needed and again after it broke. Not for concurrent use beyond a lock."""

    def __init__(self, host: str, port: int) -> None:
        self._address = (host, port)
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._correlation = 0
        self._turn = asyncio.Lock()

    async def ask(self, request: Any, version: int, *, timeout_s: float) -> Any:
        """The decoded answer. Raises OSError or TimeoutError; the next call starts afresh then."""
        async with self._turn:
            try:
                async with asyncio.timeout(timeout_s):
                    return await self._ask(request, version)
            except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.CancelledError) as error:
                self.close()
                if isinstance(error, asyncio.IncompleteReadError):
                    raise ConnectionResetError("the broker closed the connection") from error
                raise

    async def _ask(self, request: Any, version: int) -> Any:
        if self._reader is None or self._writer is None:
            self._reader, self._writer = await asyncio.open_connection(*self._address)
        self._correlation += 1
        request.with_header(correlation_id=self._correlation, client_id=_CLIENT_ID)
        self._writer.write(bytes(request.encode(version=version, header=True, framed=True)))
        size = int.from_bytes(await self._reader.readexactly(4), "big")
        frame = await self._reader.readexactly(size)
        answer = request.header.get_response_class()
        return answer[None].decode(frame, version=version, header=True)

    def close(self) -> None:
        if self._writer is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closing
                self._writer.transport.abort()
        self._reader = self._writer = None
