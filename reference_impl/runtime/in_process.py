"""A whole cluster in one process and on one event loop: N brokers and the coordination service, for tests and
simulation.

The brokers still talk to each other through the loop's sockets.
"""

import asyncio
import secrets
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random

from reference_impl.coordination.service import CoordinationConfig, CoordinationService
from reference_impl.runtime.broker import Broker
from reference_impl.runtime.config import BrokerConfig, broker_config
from reference_impl.runtime.decoding import Decoding
from reference_impl.runtime.disk_work import DiskWork
from reference_impl.runtime.handlers.broker_authentication import write_secret
from reference_impl.runtime.hosts import Hosts
from reference_impl.runtime.threads import DecodingThread, DiskThreads

POLL_S = 0.02


def wall_clock_ms() -> int:
    return time.time_ns() // 1_000_000


class InProcessCluster:
    """`addresses[id]` is the address of broker `id`; `ports` are (coordination, internal, client)."""

    def __init__(
        self,
        directory: Path,
        *,
        addresses: Mapping[int, str],
        coordination_address: str,
        ports: tuple[int, int, int],
        settings: Mapping[str, str] | None = None,
        clock_ms: Callable[[], int] = wall_clock_ms,
        seed: int = 0,
        decoding: Callable[[], Decoding] = DecodingThread,
        disk_work: Callable[[int], DiskWork] = lambda broker_id: DiskThreads(),
    ) -> None:
        """`disk_work` creates each broker's disk port."""
        self.brokers: dict[int, Broker] = {}
        self._directory = directory
        self._addresses = dict(addresses)
        self._coordination_address = coordination_address
        self._coordination_port, self._internal_port, self._client_port = ports
        self._settings = dict(settings or {})
        self._secret_file = directory / "cluster-secret"
        self._clock_ms = clock_ms
        self._decoding = decoding
        self._random = Random(seed)
        self._disk_work = disk_work
        write_secret(self._secret_file, secrets.token_hex())
        self._coordination: CoordinationService | None = None
        self._hosts = Hosts(
            addresses={f"node{broker}": address for broker, address in addresses.items()}
            | {"node0": coordination_address}
        )

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{address}:{self._client_port}" for address in self._addresses.values())

    def client_address(self, broker_id: int) -> tuple[str, int]:
        return self._addresses[broker_id], self._client_port

    def config(self, broker_id: int) -> BrokerConfig:
        address = self._addresses[broker_id]
        listeners = f"INTERNAL://{address}:{self._internal_port},CLIENT://{address}:{self._client_port}"
        properties = {
            "broker.id": str(broker_id),
            "listeners": listeners,
            "advertised.listeners": listeners.replace(f"INTERNAL://{address}", f"INTERNAL://node{broker_id}"),
            "inter.broker.listener.name": "INTERNAL",
            "log.dirs": str(self._directory / str(broker_id) / "data"),
            "zookeeper.connect": f"node0:{self._coordination_port}",
            "chaos.cluster.secret.file": str(self._secret_file),
            "zookeeper.session.timeout.ms": "1500",
            "replica.lag.time.max.ms": "1500",
            "replica.fetch.wait.max.ms": "200",
            "replica.fetch.backoff.ms": "50",
            "replica.socket.timeout.ms": "1000",
            "replica.high.watermark.checkpoint.interval.ms": "300",
            "controller.socket.timeout.ms": "2000",
            "min.insync.replicas": "2",
            "default.replication.factor": "3",
        }
        return broker_config(properties | self._settings, f"broker {broker_id}")

    async def start(self) -> None:
        await self.start_coordination()
        for broker_id in self._addresses:
            await self.start_broker(broker_id)
        await self.until(lambda: all(set(b.metadata.brokers) >= set(self.brokers) for b in self.brokers.values()))

    async def start_coordination(self) -> None:
        config = CoordinationConfig(
            data_directory=self._directory / "coordination",
            address=self._coordination_address,
            port=self._coordination_port,
            session_timeout_min_ms=200,
        )
        self._coordination = CoordinationService(config, wall_clock_ms=self._clock_ms)
        await self._coordination.start()

    async def start_broker(self, broker_id: int) -> Broker:
        loop = asyncio.get_running_loop()
        broker = Broker(
            self.config(broker_id),
            hosts=self._hosts,
            wall_clock_ms=self._clock_ms,
            monotonic_ns=lambda: int(loop.time() * 1e9),
            randomness=Random(self._random.getrandbits(64)),
            decoding=self._decoding(),
            disk_work=self._disk_work(broker_id),
        )
        await broker.start()
        self.brokers[broker_id] = broker
        return broker

    async def kill(self, broker_id: int) -> None:
        await self.brokers.pop(broker_id).abandon()

    async def stop_broker(self, broker_id: int) -> None:
        await self.brokers.pop(broker_id).stop()

    async def stop(self) -> None:
        await asyncio.gather(*(self.kill(broker_id) for broker_id in list(self.brokers)))
        if self._coordination is not None:
            await self._coordination.stop()

    async def until(self, condition: Callable[[], bool], *, timeout_s: float = 60.0) -> None:
        """Waits for a condition on the brokers' internal state."""
        async with asyncio.timeout(timeout_s):
            while not condition():
                await asyncio.sleep(POLL_S)
