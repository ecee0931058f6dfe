"""Sends one request to one broker on a socket of its own, with Kafka's codecs and no Kafka client.

A client library selects a broker by itself and remembers it, so with a zombie in the cluster its answers would vary.
Here every answer comes from a known broker. The supported versions are requested on each new connection, so brokers of
every age answer; only brokers before 0.10 do not support that request. To a secured listener a connection is let in
first (admission.py).
"""

import asyncio
import contextlib
import io
import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from typing import Any

from kafka.protocol.metadata import ApiVersionsRequest
from kafka.protocol.sasl import SaslHandshakeRequest

from harness.cluster.admission import NotAdmitted, authenticate, refusal_by_tls
from harness.ports.security import SecuritySpec, Unusable, tls_context

_CLIENT_ID = "kafka-chaos-observer"
_ADMISSION_S = 10.0
_OPENING_S = 1.0  # what a question on a connection of its own waits longer for a secured listener
_ANSWER_MAX_BYTES = 100 << 20  # as Kafka's clients and brokers take (socket.request.max.bytes)
_CORRELATION_BYTES = 4


class UnreadableAnswer(OSError):
    """Somebody answered, in another form than Kafka's. `answer`: the bytes that cannot be read, without their size."""

    def __init__(self, why: str, *, api: str, version: int, answer: bytes) -> None:
        super().__init__(f"its answer to {api} version {version} {why}")
        self.why = why
        self.api = api
        self.version = version
        self.answer = answer


def framed(request: Any, version: int, *, correlation: int) -> bytes:
    """The request's bytes as they are sent, with their length."""
    request.with_header(correlation_id=correlation, client_id=_CLIENT_ID)
    return bytes(request.encode(version=version, header=True, framed=True))


def decoded(request: Any, version: int, frame: bytes) -> tuple[Any, int]:
    """(the answer to a request that was `framed`, how many bytes follow it). Raises UnreadableAnswer."""

    def unreadable(why: str) -> UnreadableAnswer:
        return UnreadableAnswer(why, api=type(request).__name__, version=version, answer=frame)

    correlation = int.from_bytes(frame[:_CORRELATION_BYTES], "big", signed=True)
    if len(frame) >= _CORRELATION_BYTES and correlation != request.header.correlation_id:
        raise unreadable(f"is for request {correlation}, and not for {request.header.correlation_id}")
    kind = request.header.get_response_class()[None]
    try:
        head = io.BytesIO(frame)
        kind.parse_header(head, version=version)
        if request.API_KEY == ApiVersionsRequest.API_KEY and any(frame[head.tell() : head.tell() + 2]):
            version = 0  # an error comes in version 0, whatever was asked (KIP-511)
        flexible = kind.flexible_version_q(version)
        decode = kind._struct.compiled_decode_from(version, compact=flexible, tagged=flexible, data_class=kind)
        answer, end = decode(memoryview(frame), head.tell())
    except Exception as error:  # the codec raises whatever it stumbles over
        raise unreadable(f"cannot be read ({type(error).__name__})") from error
    if end > len(frame):  # the codec slices: a field that claims more than there is becomes shorter
        raise unreadable(f"cannot be read (it ends {end - len(frame)} bytes early)")
    return answer, len(frame) - end


class BrokerConnection:
    """One connection, opened on demand and again after it broke. A lock serialises concurrent calls.

    `reports_versions`: False for Kafka 0.9, which never answers the request for versions and supports only version 0.
    `security`: None where the listener asks for nothing.
    """

    def __init__(
        self, host: str, port: int, *, reports_versions: bool = True, security: SecuritySpec | None = None
    ) -> None:
        self._address = (host, port)
        self._security = security
        self._is_admitted = security is None
        self._admission: asyncio.Task[None] | None = None
        self._renew_s: float | None = None  # on the loop's clock: when the session should begin anew
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._correlation = 0
        self._turn = asyncio.Lock()
        self._without_request: dict[int, int] | None = None if reports_versions else {}
        self._highest = self._without_request  # by API key; None: not requested yet; empty: before Kafka 0.10

    async def ask(self, request: Any, version: int, *, timeout_s: float) -> Any:
        """Returns the decoded answer, in `version` or the highest lower one that the broker supports.

        Raises OSError, also for an answer that cannot be read and as NotAdmitted, or TimeoutError; the next call opens
        a new connection then. Being let in by a secured listener may take longer than one call waits: it goes on.
        """
        async with self._in_turn(timeout_s):
            return await self._ask(request, version)

    async def ask_exactly(self, request: Any, version: int, *, timeout_s: float) -> Any:
        """Like `ask`, in exactly this version, whatever the broker supports. Nothing may follow the answer."""
        api = type(request).__name__
        frames = [self.frame(request, version)]
        (frame,) = await self.exchange(frames, answers=1, timeout_s=timeout_s, api=api, version=version)
        try:
            answer, left = decoded(request, version, frame)
            if left:
                why = f"has {left} bytes more than that version"
                raise UnreadableAnswer(why, api=api, version=version, answer=frame)
        except UnreadableAnswer:
            self.close()
            raise
        return answer

    def frame(self, request: Any, version: int) -> bytes:
        """The request as `exchange` sends it, with a correlation id of its own."""
        self._correlation += 1
        return framed(request, version, correlation=self._correlation)

    async def exchange(
        self, frames: Sequence[bytes], *, answers: int, timeout_s: float, api: str, version: int
    ) -> list[bytes]:
        """Sends the frames at once and returns the first `answers` frames that come, as they are. `api`, `version`: of
        the first of them. Raises OSError or TimeoutError."""
        async with self._in_turn(timeout_s):
            await self._be_open()
            assert self._writer is not None, "the connection was opened"
            self._writer.write(b"".join(frames))
            return [await self._answer(api, version) for _ in range(answers)]

    @contextlib.asynccontextmanager
    async def _in_turn(self, timeout_s: float) -> AsyncIterator[None]:
        async with self._turn:
            try:
                async with asyncio.timeout(timeout_s):
                    yield
            except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.CancelledError, Unusable) as error:
                if self._admission is not None and not self._admission.done():
                    raise
                self.close()
                if isinstance(error, asyncio.IncompleteReadError):
                    raise ConnectionResetError("the broker closed the connection") from error
                if (refused := self._refused(error)) is not None:
                    raise refused from None
                raise

    def _refused(self, error: BaseException) -> NotAdmitted | None:
        """By TLS, which may tell it as late as at the first answer (TLS 1.3), or for a secret that cannot be read."""
        if isinstance(error, Unusable):
            return NotAdmitted.for_want_of(error)
        if isinstance(error, ssl.SSLError) and self._security is not None:
            refusal = refusal_by_tls(error, self._security)
            return None if refusal is None else NotAdmitted.by(refusal, self._address)
        return None

    async def knows(self, api_key: int, *, timeout_s: float) -> bool:
        """True if the broker supports this API. Raises OSError or TimeoutError."""
        return await self.highest_version(api_key, timeout_s=timeout_s) is not None

    async def highest_version(self, api_key: int, *, timeout_s: float) -> int | None:
        """Of this API, None if the broker does not support it. Raises OSError or TimeoutError."""
        if self._highest is None:
            await self.ask(ApiVersionsRequest(), 0, timeout_s=timeout_s)
        return (self._highest or {}).get(api_key)

    async def _be_open(self) -> None:
        if self._renew_s is not None and asyncio.get_running_loop().time() >= self._renew_s:
            self.close()
        if not self._is_admitted:
            await self._be_admitted()
        if self._writer is None:
            await self._open()

    async def _ask(self, request: Any, version: int) -> Any:
        await self._be_open()
        if self._highest is None:
            await self._learn_versions()
        highest = (self._highest or {}).get(request.API_KEY, 0)
        return await self._exchange(request, min(version, highest))

    async def _open(self) -> None:
        security = self._security
        context = tls_context(security) if security is not None and security.tls else None
        self._reader, self._writer = await asyncio.open_connection(*self._address, ssl=context)

    async def _be_admitted(self) -> None:
        if self._admission is None:
            self._admission = asyncio.create_task(self._admit(), name="admission")
            self._admission.add_done_callback(_retrieve_error)
        admission = self._admission
        await asyncio.wait({admission})  # which goes on if this is cancelled
        if admission.cancelled():
            raise ConnectionAbortedError("the connection was closed while it was let in")
        self._admission = None
        admission.result()

    async def _admit(self) -> None:
        assert self._security is not None, "others are let in from the beginning"
        async with asyncio.timeout(_ADMISSION_S):
            await self._open()
            await self._learn_versions()
            if self._security.sasl:
                version = (self._highest or {}).get(SaslHandshakeRequest.API_KEY)
                lifetime_s = await authenticate(
                    self._exchange, self._security, handshake_version=version, place=self._address
                )
                self._renew_s = None if lifetime_s is None else asyncio.get_running_loop().time() + lifetime_s
        self._is_admitted = True

    async def _learn_versions(self) -> None:
        try:
            answer = await self._exchange(ApiVersionsRequest(), 0)
        except (asyncio.IncompleteReadError, ConnectionError):
            if self._security is not None:
                raise
            # The broker closes the connection on an unknown request: it only supports version 0.
            self.close()
            await self._open()
            self._highest = {}
            return
        self._highest = {each.api_key: each.max_version for each in answer.api_keys}

    async def _exchange(self, request: Any, version: int) -> Any:
        assert self._writer is not None, "the connection was opened"
        self._correlation += 1
        self._writer.write(framed(request, version, correlation=self._correlation))
        frame = await self._answer(type(request).__name__, version)
        return decoded(request, version, frame)[0]

    async def _answer(self, api: str, version: int) -> bytes:
        assert self._reader is not None, "the connection was opened"
        prefix = await self._reader.readexactly(4)
        size = int.from_bytes(prefix, "big")
        if size > _ANSWER_MAX_BYTES:
            why = f"would have {size} bytes: it speaks another protocol"
            raise UnreadableAnswer(why, api=api, version=version, answer=prefix)
        return await self._reader.readexactly(size)

    @property
    def opening_s(self) -> float:
        """How much longer a first question may take than a later one."""
        return 0.0 if self._security is None else _OPENING_S

    def close(self) -> None:
        if self._admission is not None:
            self._admission.cancel()
            self._admission = None
        if self._writer is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closing
                self._writer.transport.abort()
        self._reader = self._writer = None
        self._is_admitted, self._renew_s = self._security is None, None
        self._highest = self._without_request  # the next time, another process may answer at this address


def _retrieve_error(admission: "asyncio.Task[None]") -> None:
    """Looks at how it failed, which the next request reports: asyncio warns of errors that nobody looked at."""
    if not admission.cancelled():
        admission.exception()


Connect = Callable[[str, int], BrokerConnection]


def connections(security: SecuritySpec | None) -> Connect:
    """What opens the harness's own connections to the brokers of a cluster: by host and port."""
    return partial(BrokerConnection, security=security)
