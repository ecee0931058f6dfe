"""The server's handling of connections, tested with raw sockets."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from reference_impl.coordination.client_connection import ClientConnection
from reference_impl.coordination.errors import ConnectionLost
from reference_impl.coordination.records import ConnectRequest, ConnectResponse, OpCode
from reference_impl.coordination.transactions import Entry
from tests.waiting import PATIENCE_S

if TYPE_CHECKING:
    from tests.reference_impl.coordination.conftest import Services


async def greet(services: Services, request: ConnectRequest) -> tuple[ClientConnection, ConnectResponse]:
    connection = ClientConnection(on_notification=lambda _: None, on_zxid=lambda _: None)
    await asyncio.get_running_loop().create_connection(lambda: connection, "127.0.0.1", services.port)
    async with asyncio.timeout(PATIENCE_S):
        return connection, await connection.connect(request)


def request(session_id: int = 0, password: bytes = bytes(16), zxid: int = 0, timeout_ms: int = 5000) -> ConnectRequest:
    return ConnectRequest(last_zxid_seen=zxid, timeout_ms=timeout_ms, session_id=session_id, password=password)


async def test_a_session_moves_to_the_connection_that_claims_it_with_its_password(services: Services) -> None:
    first, greeting = await greet(services, request())
    second, again = await greet(services, request(greeting.session_id, greeting.password))
    assert again == greeting
    async with asyncio.timeout(PATIENCE_S):
        await first.lost
    assert not second.lost.done()
    second.abort()


async def test_a_wrong_password_ends_nothing_but_its_own_connection(services: Services) -> None:
    first, greeting = await greet(services, request())
    thief, refused = await greet(services, request(greeting.session_id, b"guess" + bytes(11)))
    assert refused.timeout_ms == 0
    async with asyncio.timeout(PATIENCE_S):
        await thief.lost
    assert not first.lost.done()
    first.abort()


async def test_an_unknown_session_is_expired(services: Services) -> None:
    stranger, refused = await greet(services, request(12345))
    assert (refused.timeout_ms, refused.session_id) == (0, 0)
    stranger.abort()


async def test_a_client_that_has_seen_a_later_state_is_turned_away(services: Services) -> None:
    with pytest.raises(ConnectionLost):
        await greet(services, request(zxid=10**6))


async def test_timeouts_are_bent_into_the_servers_limits(services: Services) -> None:
    for wish_ms, granted_ms in ((1, 100), (5000, 5000), (10**9, 60_000)):
        connection, greeting = await greet(services, request(timeout_ms=wish_ms))
        assert greeting.timeout_ms == granted_ms
        connection.abort()


async def test_an_unknown_request_is_refused_and_the_connection_lives(services: Services) -> None:
    connection, _ = await greet(services, request())
    with pytest.raises(Exception, match="code -6"):
        await connection.request(OpCode.CREATE_SESSION, b"", subject="odd")
    assert (await connection.request(OpCode.SYNC, b"\0\0\0\1/", subject="sync")).string() == "/"
    connection.abort()


async def test_what_the_log_does_not_take_is_not_answered_and_the_service_fails(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(entry: Entry) -> None:
        raise OSError("no space left on device")

    assert services.service is not None
    monkeypatch.setattr(services.service._database._log, "append", full)
    with pytest.raises(ConnectionLost):
        await greet(services, request())
    async with asyncio.timeout(PATIENCE_S):
        assert "no space" in str(await services.service.failed())
