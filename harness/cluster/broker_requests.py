"""Sends one request to one broker on a socket of its own, with Kafka's codecs and no Kafka client.

A client library selects a broker by itself and remembers it, so with a zombie in the cluster its answers would vary.
Here every answer comes from a known broker. The supported versions are requested on each new connection, so brokers of
every age answer; only brokers before 0.10 do not support that request.
"""

import asyncio
import contextlib
from typing import Any

from kafka.protocol.metadata import ApiVersionsRequest

_CLIENT_ID = "kafka-chaos-observer"
_ANSWER_MAX_BYTES = 100 << 20  # as Kafka's clients and brokers take (socket.request.max.bytes)


class UnreadableAnswer(OSError):
    """Somebody answered, in another form than Kafka's."""


class BrokerConnection:
    """One connection, opened on demand and again after it broke. A lock serialises concurrent calls.

    `reports_versions`: False for Kafka 0.9, which never answers the request for versions and supports only version 0.
    """

    def __init__(self, host: str, port: int, *, reports_versions: bool = True) -> None:
        self._address = (host, port)
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._correlation = 0
        self._turn = asyncio.Lock()
        self._without_request: dict[int, int] | None = None if reports_versions else {}
        self._highest = self._without_request  # by API key; None: not requested yet; empty: before Kafka 0.10

    async def ask(self, request: Any, version: int, *, timeout_s: float) -> Any:
        """Returns the decoded answer, in `version` or the highest lower one that the broker supports.

        Raises OSError, also for an answer that cannot be read, or TimeoutError; the next call opens a new connection
        then.
        """
        async with self._turn:
            try:
                async with asyncio.timeout(timeout_s):
                    return await self._ask(request, version)
            except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.CancelledError) as error:
                self.close()
                if isinstance(error, asyncio.IncompleteReadError):
                    raise ConnectionResetError("the broker closed the connection") from error
                raise

    async def knows(self, api_key: int, *, timeout_s: float) -> bool:
        """True if the broker supports this API. Raises OSError or TimeoutError."""
        return await self.highest_version(api_key, timeout_s=timeout_s) is not None

    async def highest_version(self, api_key: int, *, timeout_s: float) -> int | None:
        """Of this API, None if the broker does not support it. Raises OSError or TimeoutError."""
        if self._highest is None:
            await self.ask(ApiVersionsRequest(), 0, timeout_s=timeout_s)
        return (self._highest or {}).get(api_key)

    async def _ask(self, request: Any, version: int) -> Any:
        if self._writer is None:
            await self._open()
        if self._highest is None:
            await self._learn_versions()
        highest = (self._highest or {}).get(request.API_KEY, 0)
        return await self._exchange(request, min(version, highest))

    async def _open(self) -> None:
        self._reader, self._writer = await asyncio.open_connection(*self._address)

    async def _learn_versions(self) -> None:
        try:
            answer = await self._exchange(ApiVersionsRequest(), 0)
        except (asyncio.IncompleteReadError, ConnectionError):
            # The broker closes the connection on an unknown request: it only supports version 0.
            self.close()
            await self._open()
            self._highest = {}
            return
        self._highest = {each.api_key: each.max_version for each in answer.api_keys}

    async def _exchange(self, request: Any, version: int) -> Any:
        assert self._reader is not None, "the connection was opened"
        assert self._writer is not None, "the connection was opened"
        self._correlation += 1
        request.with_header(correlation_id=self._correlation, client_id=_CLIENT_ID)
        self._writer.write(bytes(request.encode(version=version, header=True, framed=True)))
        asked = type(request).__name__
        size = int.from_bytes(await self._reader.readexactly(4), "big")
        if size > _ANSWER_MAX_BYTES:
            raise UnreadableAnswer(f"its answer to {asked} would have {size} bytes: it speaks another protocol")
        frame = await self._reader.readexactly(size)
        answer = request.header.get_response_class()
        try:
            return answer[None].decode(frame, version=version, header=True)
        except Exception as error:  # the codec raises whatever it stumbles over
            raised = type(error).__name__
            raise UnreadableAnswer(f"its answer to {asked} version {version} cannot be read ({raised})") from error

    def close(self) -> None:
        if self._writer is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closing
                self._writer.transport.abort()
        self._reader = self._writer = None
        self._highest = self._without_request  # the next time, another process may answer at this address
