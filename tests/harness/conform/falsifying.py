"""A liar between a row and a broker: it passes everything on, and alters what a lie says of the answers to one API.

Requests are passed on as they are, so the cluster does what it does, and only the answer is false.
"""

import asyncio
import contextlib
import io
import struct
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import kafka.protocol.admin
import kafka.protocol.consumer
import kafka.protocol.metadata
import kafka.protocol.producer

from harness.cluster.broker_requests import decoded
from harness.ports.cluster import NodeId

API_VERSIONS = 18
_MODULES = (kafka.protocol.metadata, kafka.protocol.producer, kafka.protocol.consumer, kafka.protocol.admin)
_REQUESTS = {
    kind.API_KEY: kind
    for module in _MODULES
    for name, kind in vars(module).items()
    if name.endswith("Request") and hasattr(kind, "API_KEY")
}


@dataclass(frozen=True, kw_only=True)
class Exchange:
    """A request and the answer, which may be altered. number: of the requests of this API, from 0 on."""

    request: Any
    version: int
    answer: Any
    number: int


@dataclass(frozen=True, kw_only=True)
class Lie:
    """`alter` an answer to this API, or its bytes: None closes the connection, no byte says nothing.

    `breaks`: a part of the name of a fact that does not hold then."""

    api: Any = None
    alter: Callable[[Exchange], None] | None = None
    frame: Callable[[bytes, int], bytes | None] | None = None
    breaks: str = ""


@dataclass
class Liar:
    """`altered`: how many answers were altered."""

    lie: Lie | None = None
    altered: int = 0
    _numbers: dict[int, int] = field(default_factory=dict)

    def falsified(self, asked: bytes, answered: bytes) -> bytes | None:
        key, version = struct.unpack_from(">hh", asked)
        number = self._numbers[key] = self._numbers.get(key, -1) + 1
        lie = self.lie
        if lie is None or (lie.api is not None and key != lie.api.API_KEY):
            return answered
        if lie.frame is not None:
            altered = lie.frame(answered, number)
            self.altered += altered != answered
            return altered
        if version > _REQUESTS[key].max_version:
            return answered
        assert lie.alter is not None, "a lie alters answers or bytes"
        request = _REQUESTS[key].decode(asked, version=version, header=True)
        answer, _ = decoded(request_with_header(request, version, asked), version, answered)
        answer._header = None  # one that was decoded lacks it
        before = answer.encode(version=version)
        lie.alter(Exchange(request=request, version=version, answer=answer, number=number))
        after = answer.encode(version=version)
        self.altered += before != after
        head = io.BytesIO(answered)
        type(answer).parse_header(head, version=version)
        return bytes(answered[: head.tell()] + after)


def request_with_header(request: Any, version: int, asked: bytes) -> Any:
    request.API_VERSION = version
    request.with_header(correlation_id=struct.unpack_from(">i", asked, 4)[0])
    return request


def is_answered(asked: bytes) -> bool:
    key, version = struct.unpack_from(">hh", asked)
    kind = _REQUESTS[key]
    if kind is not kafka.protocol.producer.ProduceRequest:
        return True
    return bool(kind.decode(asked, version=version, header=True).acks != 0)


async def _frame(reader: asyncio.StreamReader) -> bytes:
    return await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))


def _framed(frame: bytes) -> bytes:
    return len(frame).to_bytes(4, "big") + frame


@contextlib.asynccontextmanager
async def lying(
    addresses: Mapping[NodeId, tuple[str, int]], lie: Lie | None
) -> AsyncIterator[tuple[dict[NodeId, tuple[str, int]], Liar]]:
    """(where the liars listen for each broker, what they did)"""
    liar = Liar(lie=lie)

    def serving(address: tuple[str, int]) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Any]:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            broker, to_broker = await asyncio.open_connection(*address)
            try:
                with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
                    while True:
                        asked = await _frame(reader)
                        to_broker.write(_framed(asked))
                        if is_answered(asked):
                            answer = liar.falsified(asked, await _frame(broker))
                            if answer is None:
                                return
                            if answer:
                                writer.write(_framed(answer))
            finally:
                to_broker.close()
                writer.close()

        return serve

    servers = {node: await asyncio.start_server(serving(each), "127.0.0.1", 0) for node, each in addresses.items()}
    try:
        yield {node: server.sockets[0].getsockname()[:2] for node, server in servers.items()}, liar
    finally:
        for server in servers.values():
            server.close()
