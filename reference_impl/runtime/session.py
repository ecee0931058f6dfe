"""This broker's session with the coordination service, and its ephemeral znode /brokers/ids/N.

The broker epoch is the creation zxid of that znode, so each registration is a new incarnation (docs/replication.md
R42). A restart faster than the previous session's timeout waits until the old znode is gone. When a session expires,
the broker opens a new one and registers again; until then it goes on with its last known state, as a zombie (R44).
"""

import asyncio
import base64
import json
import logging
from collections.abc import Awaitable, Callable, Sequence
from random import Random
from typing import Literal

from reference_impl.coordination.client import (
    CoordinationClient,
    CoordinationError,
    NodeExists,
    NoNode,
    SessionExpired,
    WatchEvent,
)
from reference_impl.core.controller import znodes
from reference_impl.core.state import LiveBroker
from reference_impl.runtime.config import BrokerConfig

logger = logging.getLogger(__name__)

RETRY_S = 0.1
SessionChange = Literal["connected", "disconnected", "expired"]
Registered = Callable[[CoordinationClient, int], Awaitable[None]]
"""Called with each new session's client and broker epoch."""


class BrokerSession:
    def __init__(
        self,
        *,
        config: BrokerConfig,
        resolve: Callable[[str], str],
        directory_ids: Sequence[str],
        wall_clock_ms: Callable[[], int],
        randomness: Random,
        registered: Registered,
        on_watch: Callable[[WatchEvent], None],
        on_session: Callable[[SessionChange], None],
        lost: Callable[[], Awaitable[None]],
    ) -> None:
        self.client: CoordinationClient | None = None
        self.cluster_id: str | None = None
        self._config = config
        self._resolve = resolve
        self._directory_ids = list(directory_ids)
        self._wall_clock_ms = wall_clock_ms
        self._randomness = randomness
        self._registered = registered
        self._on_watch = on_watch
        self._on_session = on_session
        self._lost = lost
        self._expired = asyncio.Event()
        self._path = f"{znodes.BROKER_IDS}/{config.broker_id}"

    async def run(self) -> None:
        """Keeps the broker registered until cancelled."""
        while True:
            self._expired.clear()
            self.client = CoordinationClient(
                self._config.zookeeper_connect,
                session_timeout_ms=self._config.zookeeper_session_timeout_ms,
                resolve=self._resolve,
                on_watch=self._on_watch,
                on_session=self._session_changed,
            )
            try:
                await self.client.start()
                await self._stand(self.client)
                await self._expired.wait()
            except SessionExpired:
                logger.warning("the session expired before the broker was registered")
            await self._lost()
            await self.client.close()

    async def close(self) -> None:
        if self.client is not None:
            await self.client.close()

    def abandon(self) -> None:
        """Drops the connection as a killed process does; the session expires by its timeout."""
        if self.client is not None:
            self.client.abandon()

    def _session_changed(self, change: SessionChange) -> None:
        logger.info("coordination session: %s", change)
        self._on_session(change)
        if change == "expired":
            self._expired.set()

    async def _stand(self, client: CoordinationClient) -> None:
        while True:
            try:
                await self._prepare_paths(client)
                self.cluster_id = await self._cluster_id(client)
                broker_epoch = await self._register(client)
                await self._registered(client, broker_epoch)
            except SessionExpired:
                raise
            except CoordinationError as error:
                logger.info("registration: %s; trying again", error or type(error).__name__)
                await asyncio.sleep(RETRY_S)
            else:
                return

    async def _prepare_paths(self, client: CoordinationClient) -> None:
        for path in znodes.PERSISTENT_PATHS:
            if await client.exists(path) is None:
                try:
                    await client.create(path, b"")
                except NodeExists:
                    continue

    async def _cluster_id(self, client: CoordinationClient) -> str:
        try:
            data, _ = await client.get(znodes.CLUSTER_ID)
        except NoNode:
            own = base64.urlsafe_b64encode(self._randomness.randbytes(16)).decode().rstrip("=")
            try:
                await client.create(znodes.CLUSTER_ID, znodes.encode({"version": "1", "id": own}))
            except NodeExists:
                return await self._cluster_id(client)
            return own
        return str(json.loads(data)["id"])

    async def _register(self, client: CoordinationClient) -> int:
        """Returns the broker epoch: the zxid of the transaction that created the znode."""
        waited = False
        while True:
            if self._expired.is_set():
                raise SessionExpired
            try:
                stat = await client.create(self._path, self._registration(), ephemeral=True)
                return int(stat.czxid)
            except NodeExists:
                found = await client.exists(self._path)
                if found is not None and found.ephemeral_owner == client.session_id:
                    return int(found.czxid)  # this broker's own: a lost connection swallowed the answer
                if not waited:
                    waited = True
                    logger.info("%s still stands from an older session; waiting until it expires", self._path)
                await asyncio.sleep(RETRY_S)

    def _registration(self) -> bytes:
        """The INTERNAL listener comes first: `host` and `port` repeat it."""
        inter_broker = self._config.inter_broker_listener_name
        endpoints = sorted(self._config.advertised_listeners, key=lambda endpoint: endpoint.listener != inter_broker)
        broker = LiveBroker(
            broker_id=self._config.broker_id,
            broker_epoch=-1,
            listeners=tuple((name, host, port) for name, host, port in endpoints),
            directory_ids=tuple(self._directory_ids),
        )
        return znodes.registration(broker, wall_ms=self._wall_clock_ms())
