"""A node of a simulated run: the coordination service or a broker as an object, on a machine of its own.

It is configured by the files that a process would read. `abandon` is its SIGKILL: connections end without a message,
nothing is handed over or flushed. It is a cooperative one: what the node's code does on its way out, without writing,
it still does. What waits for a disk takes a drawn time.
"""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from random import Random
from typing import Any, Protocol, TypeVar

from harness.cluster.brokers.system import NodeFolders
from harness.host.clock import Clock
from reference_impl.coordination.service import CoordinationConfig, CoordinationService
from reference_impl.runtime.broker import Broker
from reference_impl.runtime.config import load
from reference_impl.runtime.hosts import Hosts

_DISK_S = (0.000_2, 0.004)
_Result = TypeVar("_Result")


class RunningNode(Protocol):
    @property
    def failed(self) -> "asyncio.Future[BaseException]":
        """Set when it cannot work any more."""
        ...

    async def stop(self) -> None: ...

    async def abandon(self) -> None: ...


@dataclass(frozen=True, kw_only=True)
class InlineWork:
    """Implements the broker's ports for decoding and for its disk. `waits_s`: None where nothing waits."""

    waits_s: Callable[[], float] | None = None

    async def run(self, work: Callable[[], _Result]) -> _Result:
        if self.waits_s is not None:
            await asyncio.sleep(self.waits_s())
        return work()

    async def close(self) -> None:
        """Nothing runs apart from its caller."""


class CoordinationNode:
    def __init__(self, folders: NodeFolders, clock: Clock) -> None:
        config = CoordinationConfig.load(folders.config / "zoo.cfg")
        self._service = CoordinationService(config, wall_clock_ms=lambda: clock.wall_ns() // 1_000_000)
        self.failed: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()
        self._watching: asyncio.Task[None] | None = None

    async def start(self) -> None:
        await self._service.start()
        self._watching = asyncio.create_task(self._watch())

    async def _watch(self) -> None:
        self.failed.set_result(await self._service.failed())

    async def stop(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
        await self._service.stop()

    abandon = stop  # its log is written as it goes, and nobody is told


def begun_coordination(folders: NodeFolders, clock: Clock) -> Coroutine[Any, Any, RunningNode]:
    async def begin() -> RunningNode:
        node = CoordinationNode(folders, clock)
        await node.start()
        return node

    return begin()


def begun_broker(folders: NodeFolders, clock: Clock, chance: Random) -> Coroutine[Any, Any, RunningNode]:
    """`chance`: for this start of the broker alone."""
    disk = Random(chance.getrandbits(64))

    async def begin() -> RunningNode:
        broker = Broker(
            load(folders.config / "server.properties"),
            hosts=Hosts.load(folders.config / "hosts"),
            wall_clock_ms=lambda: clock.wall_ns() // 1_000_000,
            monotonic_ns=clock.monotonic_ns,
            randomness=chance,
            decoding=InlineWork(),
            disk_work=InlineWork(waits_s=lambda: disk.uniform(*_DISK_S)),
        )
        await broker.start()
        return broker

    return begin()
