"""A listener in this process: TLS as real ones have it, and of Kafka's protocol what comes before the first request."""

import asyncio
import contextlib
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse, MetadataRequest, MetadataResponse
from kafka.protocol.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

from tests.interop.secured_kafka import Certificates

_APIS = {ApiVersionsRequest.API_KEY: 0, MetadataRequest.API_KEY: 4, SaslHandshakeRequest.API_KEY: 1}
_REQUEST_MAX_BYTES = 100 << 20
UNSUPPORTED_MECHANISM, ILLEGAL_STATE, AUTHENTICATION_FAILED = 33, 34, 58


class Listener:
    """mechanism: empty where it wants no SASL. lifetime_ms: of a session; 0: without end. delay_s: of what
    comes before the first request."""

    def __init__(self, *, mechanism: str = "", lifetime_ms: int = 0, refuses: bool = False, delay_s: float = 0) -> None:
        self.delay_s = delay_s
        self.mechanism = mechanism
        self.lifetime_ms = lifetime_ms
        self.refuses = refuses
        self.sessions = 0
        self.said: list[bytes] = []  # by SASL

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        admitted = not self.mechanism
        with contextlib.suppress(asyncio.IncompleteReadError, asyncio.CancelledError, OSError):
            while True:
                size = int.from_bytes(await reader.readexactly(4), "big")
                if size > _REQUEST_MAX_BYTES:  # as brokers do with what is no request
                    break
                frame = await reader.readexactly(size)
                key, version = int.from_bytes(frame[:2], "big"), int.from_bytes(frame[2:4], "big")
                answer = self._answer(key, version, frame)
                if answer is None or (key == MetadataRequest.API_KEY and not admitted):
                    break
                admitted = admitted or key == SaslAuthenticateRequest.API_KEY
                await asyncio.sleep(0 if key == MetadataRequest.API_KEY else self.delay_s)
                whole = frame[4:8] + answer
                writer.write(len(whole).to_bytes(4, "big") + whole)
                await writer.drain()
        writer.close()

    def _answer(self, key: int, version: int, frame: bytes) -> bytes | None:
        if key == ApiVersionsRequest.API_KEY:
            apis = {**_APIS, SaslAuthenticateRequest.API_KEY: 1}
            kinds = ApiVersionsResponse.ApiVersion
            versions = [kinds(api_key=each, min_version=0, max_version=highest) for each, highest in apis.items()]
            return bytes(ApiVersionsResponse(error_code=0, api_keys=versions).encode(version=version))
        if key == SaslHandshakeRequest.API_KEY:
            asked = frame[-len(self.mechanism) :].decode() if self.mechanism else ""
            right = asked == self.mechanism
            code = (0 if right else UNSUPPORTED_MECHANISM) if self.mechanism else ILLEGAL_STATE
            mechanisms = [self.mechanism] if self.mechanism else []
            return bytes(SaslHandshakeResponse(error_code=code, mechanisms=mechanisms).encode(version=version))
        if key == SaslAuthenticateRequest.API_KEY:
            self.said.append(frame)
            self.sessions += 1
            answer = SaslAuthenticateResponse(
                error_code=AUTHENTICATION_FAILED if self.refuses else 0,
                error_message=None,
                auth_bytes=b"",
                session_lifetime_ms=self.lifetime_ms,
            )
            return bytes(answer.encode(version=version))
        if key == MetadataRequest.API_KEY:
            known = MetadataResponse(throttle_time_ms=0, brokers=[], cluster_id=None, controller_id=-1, topics=[])
            return known.encode(version=version)
        return None


@asynccontextmanager
async def listening(listener: Listener, context: ssl.SSLContext | None = None) -> AsyncIterator[tuple[str, int]]:
    server = await asyncio.start_server(listener.serve, "127.0.0.1", 0, ssl=context)
    try:
        yield "127.0.0.1", server.sockets[0].getsockname()[1]
    finally:
        server.close()


@contextmanager
def refusing_certificates(certificates: Certificates) -> Iterator[tuple[str, int]]:
    """A listener that wants a client's certificate of the authority, and tells with an alert of TLS that it got none.

    In a thread: asyncio closes such a connection before its alert is out.
    """
    context = server_context(certificates, "broker")
    context.load_verify_locations(certificates.path("ca.crt"))
    context.verify_mode = ssl.CERT_REQUIRED
    with socket.create_server(("127.0.0.1", 0)) as listening_at:
        thread = threading.Thread(target=_refuse, args=(listening_at, context), daemon=True)
        thread.start()
        try:
            yield listening_at.getsockname()
        finally:
            listening_at.shutdown(socket.SHUT_RDWR)
            thread.join(20)


def _refuse(listening_at: socket.socket, context: ssl.SSLContext) -> None:
    with contextlib.suppress(OSError):
        while True:
            plain, _ = listening_at.accept()
            with plain, context.wrap_socket(plain, server_side=True, do_handshake_on_connect=False) as connection:
                connection.settimeout(20)
                with contextlib.suppress(ssl.SSLError):
                    connection.do_handshake()
                raw = connection.detach()
            with socket.socket(fileno=raw) as left, contextlib.suppress(OSError):
                left.shutdown(socket.SHUT_WR)
                while left.recv(4096):
                    continue


def server_context(certificates: Certificates, name: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.path(f"{name}.pem"))
    return context
