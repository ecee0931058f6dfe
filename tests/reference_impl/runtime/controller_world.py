"""A coordination service, and fake brokers that register, may be controller, and record the messages they receive."""

import asyncio
import json
import logging
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from reference_impl.coordination.client import CoordinationClient, NodeExists, WatchEvent
from reference_impl.coordination.service import CoordinationConfig, CoordinationService
from reference_impl.core.controller import znodes
from reference_impl.core.identifiers import ErrorCode, TopicPartition
from reference_impl.core.state import LiveBroker, PartitionState
from reference_impl.runtime.controller.controller import ControllerRole, ControllerSettings
from reference_impl.runtime.controller.store import ensure_paths
from reference_impl.runtime.handlers.admin import TopicAdmin
from reference_impl.runtime.handlers.admin_configs import ConfigAdmin
from reference_impl.wire.api_keys import ApiKey
from reference_impl.wire.messages import decode_request, encode_request, response_class
from tests.waiting import PATIENCE_S

PROPERTIES = {"min.insync.replicas": "2"}


class FakeBroker:
    def __init__(self, broker_id: int, connect: str, world: "World", disk: str) -> None:
        self.broker_id = broker_id
        self.disk = disk
        self.epoch = -1
        self.requests: list[tuple[int, Any]] = []
        self.silent = False
        self.deaf_to_watches = False
        self._world = world
        self.client = CoordinationClient(
            connect, session_timeout_ms=10_000, on_watch=self._on_watch, on_session=lambda state: None
        )
        self.role = ControllerRole(
            broker_id=broker_id,
            coordination=self.client,
            settings=world.settings,
            send=world,
            log=logging.getLogger("controller"),
            chance=random.Random(broker_id),
            wall_ms=lambda: 1_000_000,
        )
        self.topics = TopicAdmin(role=self.role, properties=PROPERTIES)
        self.configs = ConfigAdmin(broker_id=broker_id, coordination=self.client, properties=PROPERTIES)

    def _on_watch(self, event: WatchEvent) -> None:
        if not self.deaf_to_watches:
            self.role.on_watch(event)

    async def start(self) -> None:
        await self.client.start()
        await ensure_paths(self.client)
        me = LiveBroker(
            broker_id=self.broker_id,
            broker_epoch=-1,
            listeners=(("INTERNAL", f"node{self.broker_id}", 9092),),
            directory_ids=(self.disk,),
        )
        data = znodes.registration(me, wall_ms=1)
        self.epoch = (await self.client.create(f"{znodes.BROKER_IDS}/{self.broker_id}", data, ephemeral=True)).czxid

    async def contest(self) -> None:
        await self.role.start()

    async def stop(self) -> None:
        await self.role.stop()
        await self.client.close()

    def bodies(self, api_key: int) -> list[Any]:
        return [body for key, body in self.requests if key == api_key]

    def knows(self, topic: str, partition: int = 0) -> tuple[int, list[int]] | None:
        """Leader and ISR from the metadata that it received."""
        known = None
        for body in self.bodies(ApiKey.UPDATE_METADATA):
            if topic in body.deleted_topics:
                known = None
            for state in body.partition_states:
                if (state.topic, state.partition) == (topic, partition):
                    known = (state.leader, list(state.isr))
        return known


class World:
    """Also the controllers' sender: a message goes through the wire format and into the fake broker's notes."""

    def __init__(self, settings: ControllerSettings) -> None:
        self.settings = settings
        self.brokers: dict[int, FakeBroker] = {}
        self.connect = ""
        self._news = asyncio.Event()
        self._all: list[FakeBroker] = []

    async def send(self, broker: LiveBroker, api_key: int, version: int, body: Any) -> Any:
        receiver = self.brokers.get(broker.broker_id)
        if receiver is None or receiver.silent:
            await asyncio.Event().wait()
        assert receiver is not None
        frame = encode_request(api_key, version, 1, "controller", body)
        receiver.requests.append((api_key, decode_request(frame[4:]).body))
        self._news.set()
        answer = response_class(api_key)
        if api_key == ApiKey.LEADER_AND_ISR:
            return answer(error_code=ErrorCode.NONE, partition_errors=[])
        return answer(error_code=ErrorCode.NONE)

    async def add(self, broker_id: int, *, contest: bool = False, disk: str | None = None) -> FakeBroker:
        broker = FakeBroker(broker_id, self.connect, self, disk or f"disk-{broker_id}")
        self.brokers[broker_id] = broker
        self._all.append(broker)
        await broker.start()
        if contest:
            await broker.contest()
        return broker

    async def lose(self, *broker_ids: int) -> None:
        """Ends their sessions."""
        gone = [self.brokers.pop(broker_id) for broker_id in broker_ids]
        await asyncio.gather(*(broker.stop() for broker in gone))

    async def until(self, condition: Callable[[], bool]) -> None:
        """Waits for something to be seen in what the brokers were told."""
        async with asyncio.timeout(PATIENCE_S):
            while not condition():
                self._news.clear()
                await self._news.wait()

    async def until_written(self, broker: FakeBroker, topic: str, leader: int, isr: list[int]) -> PartitionState:
        """Waits until the state znode of a topic's first partition says this."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                found = await state_of(broker, topic)
                if (found.leader, list(found.isr)) == (leader, isr):
                    return found
                await asyncio.sleep(0.01)

    async def end(self) -> None:
        for broker in self._all:
            await broker.stop()


async def state_of(broker: FakeBroker, topic: str, partition: int = 0) -> PartitionState:
    key = TopicPartition(topic, partition)
    data, stat = await broker.client.get(znodes.state_path(key))
    return znodes.read_partition_state(key, (), data, stat.version)


async def read_json(broker: FakeBroker, path: str) -> Any:
    return json.loads((await broker.client.get(path))[0])


async def mark_for_deletion(broker: FakeBroker, topic: str) -> None:
    try:
        await broker.client.create(f"{znodes.DELETE_TOPICS}/{topic}", b"")
    except NodeExists:
        return


@asynccontextmanager
async def a_world(directory: Path, settings: ControllerSettings | None = None) -> AsyncIterator[World]:
    world = World(settings or ControllerSettings(auto_leader_rebalance_enable=False))
    config = CoordinationConfig(data_directory=directory, port=0, session_timeout_min_ms=100)
    service = CoordinationService(config)
    await service.start()
    world.connect = f"127.0.0.1:{service.address[1]}"
    try:
        yield world
    finally:
        await world.end()
        await service.stop()


__all__ = ["FakeBroker", "World", "a_world"]
