"""A service on a free port, and helpers that wait for conditions instead of sleeping."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from reference_impl.coordination.client import CoordinationClient, SessionState, WatchEvent
from reference_impl.coordination.service import CoordinationConfig, CoordinationService
from tests.waiting import PATIENCE_S


class Witness:
    """A client that records everything its callbacks received."""

    def __init__(self, connect: str, *, session_timeout_ms: int) -> None:
        self.cut_off = False
        self.watches: list[WatchEvent] = []
        self.session: list[SessionState] = []
        self._news = asyncio.Event()
        self.client = CoordinationClient(
            connect,
            session_timeout_ms=session_timeout_ms,
            resolve=self._resolve,
            on_watch=self._on_watch,
            on_session=self._on_session,
        )

    def _resolve(self, name: str) -> str:
        if self.cut_off:
            raise OSError(f"no way to {name}")
        return "127.0.0.1"

    def _on_watch(self, event: WatchEvent) -> None:
        self.watches.append(event)
        self._news.set()

    def _on_session(self, state: SessionState) -> None:
        self.session.append(state)
        self._news.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not condition():
                self._news.clear()
                await self._news.wait()


class Services:
    """Starts and restarts a service at one address; creates clients that are closed at the end."""

    def __init__(self, data_directory: Path) -> None:
        self.data_directory = data_directory
        self._closers: list[Callable[[], Awaitable[None]]] = []
        self.port = 0
        self.service: CoordinationService | None = None

    async def start_service(self) -> CoordinationService:
        config = CoordinationConfig(
            data_directory=self.data_directory,
            port=self.port,
            session_timeout_min_ms=100,
            session_timeout_max_ms=60_000,
        )
        self.service = CoordinationService(config)
        await self.service.start()
        self.port = self.service.address[1]
        return self.service

    async def stop_service(self) -> None:
        if self.service is not None:
            await self.service.stop()
            self.service = None

    @property
    def connect(self) -> str:
        return f"node100:{self.port}"

    async def client(self, *, session_timeout_ms: int = 10_000) -> Witness:
        witness = Witness(self.connect, session_timeout_ms=session_timeout_ms)
        self._closers.append(witness.client.close)
        await witness.client.start()
        return witness

    def cut_off(self, witness: Witness) -> None:
        """Blocks the way to the service until `witness.cut_off` is reset."""
        witness.cut_off = True
        self.drop_connection(witness)

    def drop_connection(self, witness: Witness) -> None:
        self.transport_of(witness).abort()

    def transport_of(self, witness: Witness) -> asyncio.Transport:
        """The service's end of the client's connection."""
        assert self.service is not None
        assert self.service._server is not None
        transport = self.service._server._by_session[witness.client.session_id]._transport
        assert transport is not None
        return transport

    async def strike(self) -> None:
        for close in self._closers:
            await close()
        await self.stop_service()


@pytest.fixture
async def services(tmp_path: Path) -> AsyncIterator[Services]:
    services = Services(tmp_path)
    await services.start_service()
    yield services
    await services.strike()
