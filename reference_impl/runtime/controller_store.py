"""The controller's hand on the coordination service: what it reads, and writes only the reigning controller can make.

Every write is a multi with a check of /controller_epoch's version: a deposed controller that does not know it yet (a
paused process, a late packet) writes nothing (replication.md 1.18).
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from reference_impl.coordination.client import (
    BadVersion,
    Check,
    ConnectionLost,
    CoordinationClient,
    Create,
    Delete,
    NodeExists,
    NoNode,
    Set,
    Stat,
)
from reference_impl.core import znodes
from reference_impl.core.controller_state import Incarnation, Topic
from reference_impl.core.identifiers import TopicPartition, is_topic_name
from reference_impl.core.state import LiveBroker, PartitionState

logger = logging.getLogger(__name__)

OPERATIONS_PER_WRITE = 500  # about 100 kB: far below the service's limit of a frame (jute.maxbuffer, 1 MB)
RETRY_SECONDS = 0.1
Result = TypeVar("Result")
Operation = Create | Set | Delete | Check


@dataclass(frozen=True, kw_only=True)
class Claim:
    """The right to write: the epoch this controller took, and the version of the znode that says so."""

    epoch: int
    version: int


async def persistently(action: Callable[[], Awaitable[Result]]) -> Result:
    """Repeats an action that may be repeated for as long as the session lasts; SessionExpired ends it."""
    while True:
        try:
            return await action()
        except ConnectionLost:
            await asyncio.sleep(RETRY_SECONDS)


async def ensure_paths(coordination: CoordinationClient) -> None:
    """The persistent znodes everything else is below."""
    for path, data in (*((path, b"") for path in znodes.PERSISTENT_PATHS), (znodes.CONTROLLER_EPOCH, b"0")):
        try:
            await persistently(lambda path=path, data=data: coordination.create(path, data))  # type: ignore[misc]
        except NodeExists:
            continue


class ControllerStore:
    def __init__(self, coordination: CoordinationClient) -> None:
        self._coordination = coordination

    async def claim(self, broker_id: int, wall_ms: int) -> Claim | None:
        """Takes the office if it is free; either way a watch on /controller is set. None: somebody else has it."""
        while True:
            present = await self._coordination.exists(znodes.CONTROLLER, watch=True)
            data, stat = await self._coordination.get(znodes.CONTROLLER_EPOCH)
            if present is not None:
                if present.ephemeral_owner != self._coordination.session_id:
                    return None
                # Ours already: the answer to an earlier attempt was lost. Epoch and office are written together.
                return Claim(epoch=int(data), version=stat.version)
            epoch = int(data) + 1
            office = Create(path=znodes.CONTROLLER, data=znodes.controller(broker_id, wall_ms), ephemeral=True)
            raised = Set(path=znodes.CONTROLLER_EPOCH, data=str(epoch).encode(), version=stat.version)
            try:
                await self._coordination.multi([office, raised])
            except (NodeExists, BadVersion):
                continue
            return Claim(epoch=epoch, version=stat.version + 1)

    async def holds_office(self) -> bool:
        present = await self._coordination.exists(znodes.CONTROLLER, watch=True)
        return present is not None and present.ephemeral_owner == self._coordination.session_id

    # Reading.

    async def registrations(self) -> dict[int, LiveBroker]:
        names = await self._coordination.children(znodes.BROKER_IDS, watch=True)
        found = await self._read_all(f"{znodes.BROKER_IDS}/{name}" for name in names)
        return {
            int(name): znodes.read_registration(int(name), *_data_and_birth(entry))
            for name, entry in zip(names, found, strict=True)
            if entry is not None
        }

    async def incarnations(self) -> dict[int, Incarnation]:
        names = await self._coordination.children(znodes.DIRECTORIES)
        found = await self._read_all(f"{znodes.DIRECTORIES}/{name}" for name in names)
        return {
            int(name): znodes.read_incarnation(entry[0], entry[1].version)
            for name, entry in zip(names, found, strict=True)
            if entry is not None
        }

    async def topic_names(self) -> set[str]:
        return await self._topics_below(znodes.TOPICS)

    async def deletions_wanted(self) -> set[str]:
        return await self._topics_below(znodes.DELETE_TOPICS)

    async def _topics_below(self, path: str) -> set[str]:
        """Others may write there too: what is called as no topic may be is none."""
        names = set(await self._coordination.children(path, watch=True))
        topics = set(filter(is_topic_name, names))
        for name in sorted(names - topics):
            logger.warning("%s/%s: no legal topic name; left alone", path, name)
        return topics

    async def topic(self, name: str) -> tuple[Topic, dict[TopicPartition, tuple[int, ...]]] | None:
        """A topic with its assignment, and a watch on its overrides."""
        entry = await self._read(znodes.topic_path(name))
        if entry is None:
            return None
        topic_id, assignment = znodes.read_topic(entry[0])
        topic = await self.with_configs(Topic(name=name, topic_id=topic_id))
        return topic, {TopicPartition(name, number): replicas for number, replicas in sorted(assignment.items())}

    async def with_configs(self, topic: Topic) -> Topic:
        path = znodes.topic_config_path(topic.name)
        try:
            data, stat = await self._coordination.get(path, watch=True)
        except NoNode:
            await self._coordination.exists(path, watch=True)
            return replace(topic, configs={}, config_version=-1)
        return replace(topic, configs=znodes.read_configs(data), config_version=stat.version)

    async def partition_states(
        self, assignment: Mapping[TopicPartition, tuple[int, ...]]
    ) -> dict[TopicPartition, PartitionState]:
        """The states that are written; a partition without one is missing from the answer."""
        found = await self._read_all(znodes.state_path(key) for key in assignment)
        return {
            key: znodes.read_partition_state(key, replicas, entry[0], entry[1].version)
            for (key, replicas), entry in zip(assignment.items(), found, strict=True)
            if entry is not None
        }

    async def _read_all(self, paths: Iterable[str]) -> list[tuple[bytes, Stat] | None]:
        return await asyncio.gather(*(self._read(path) for path in paths))

    async def _read(self, path: str) -> tuple[bytes, Stat] | None:
        try:
            return await self._coordination.get(path)
        except NoNode:
            return None

    # Writing, as the controller of this claim.

    async def write_states(
        self,
        claim: Claim,
        states: Sequence[PartitionState],
        incarnations: Mapping[int, Incarnation] | None = None,
    ) -> tuple[list[PartitionState], dict[int, Incarnation]]:
        """Conditional writes of states (and incarnations, last); answers them as they now stand."""
        stamped = [replace(state, controller_epoch=claim.epoch) for state in states]
        operations: list[Operation] = [
            Set(
                path=znodes.state_path(state.topic_partition),
                data=znodes.partition_state(state),
                version=state.partition_epoch,
            )
            for state in stamped
        ]
        for broker_id, incarnation in (incarnations or {}).items():
            path, data = f"{znodes.DIRECTORIES}/{broker_id}", znodes.incarnation(incarnation)
            if incarnation.version < 0:
                operations.append(Create(path=path, data=data))
            else:
                operations.append(Set(path=path, data=data, version=incarnation.version))
        stats = await self._write(claim, operations)
        written = [
            replace(state, partition_epoch=_version(stat))
            for state, stat in zip(stamped, stats[: len(stamped)], strict=True)
        ]
        renewed = {
            broker_id: replace(incarnation, version=_version(stat))
            for (broker_id, incarnation), stat in zip((incarnations or {}).items(), stats[len(stamped) :], strict=True)
        }
        return written, renewed

    async def create_topic(self, claim: Claim, topic: Topic, states: Sequence[PartitionState]) -> list[PartitionState]:
        """The topic at once, or nothing of it."""
        assignment = [state.replicas for state in states]
        config_path = znodes.topic_config_path(topic.name)
        leftover = await self._read(config_path)
        overrides = znodes.configs(topic.configs)
        operations: list[Operation] = [
            Create(path=config_path, data=overrides)
            if leftover is None
            else Set(path=config_path, data=overrides, version=leftover[1].version),
            Create(path=znodes.topic_path(topic.name), data=znodes.topic(topic.topic_id, assignment)),
            Create(path=f"{znodes.topic_path(topic.name)}/partitions", data=b""),
        ]
        await self._write(claim, [*operations, *_creations(claim, states)], at_once=True)
        return [replace(state, controller_epoch=claim.epoch, partition_epoch=0) for state in states]

    async def add_partitions(
        self, claim: Claim, topic: Topic, states: Sequence[PartitionState]
    ) -> list[PartitionState]:
        """All of them at once, and only while the topic is as the states' numbers say; else BadVersion."""
        path = znodes.topic_path(topic.name)
        data, stat = await self._coordination.get(path)
        topic_id, existing = znodes.read_topic(data)
        if topic_id != topic.topic_id or len(existing) != states[0].topic_partition.partition:
            raise BadVersion(f"{path} is not what this controller knows")
        assignment = [*(existing[number] for number in sorted(existing)), *(state.replicas for state in states)]
        grown = Set(path=path, data=znodes.topic(topic_id, assignment), version=stat.version)
        await self._write(claim, [grown, *_creations(claim, states)], at_once=True)
        return [replace(state, controller_epoch=claim.epoch, partition_epoch=0) for state in states]

    async def create_states(self, claim: Claim, states: Sequence[PartitionState]) -> list[PartitionState]:
        """States of a topic whose assignment somebody else wrote."""
        parents = {f"{znodes.topic_path(state.topic_partition.topic)}/partitions" for state in states}
        missing = [path for path in sorted(parents) if await self._coordination.exists(path) is None]
        operations = [*(Create(path=path, data=b"") for path in missing), *_creations(claim, states)]
        await self._write(claim, operations, at_once=True)
        return [replace(state, controller_epoch=claim.epoch, partition_epoch=0) for state in states]

    async def ask_for_deletion(self, topic: str) -> None:
        try:
            await self._coordination.create(f"{znodes.DELETE_TOPICS}/{topic}", b"")
        except NodeExists:
            return

    async def delete_topic(self, claim: Claim, topic: str) -> None:
        """Everything of a topic and the mark that asked for it, children before parents."""
        root = znodes.topic_path(topic)
        paths: list[str] = []
        if await self._coordination.exists(root) is not None:
            if await self._coordination.exists(f"{root}/partitions") is not None:
                for number in await self._coordination.children(f"{root}/partitions"):
                    partition = f"{root}/partitions/{number}"
                    paths += [f"{partition}/{child}" for child in await self._coordination.children(partition)]
                    paths.append(partition)
                paths.append(f"{root}/partitions")
            paths.append(root)
        for path in (znodes.topic_config_path(topic), f"{znodes.DELETE_TOPICS}/{topic}"):
            if await self._coordination.exists(path) is not None:
                paths.append(path)
        await self._write(claim, [Delete(path=path) for path in paths], at_once=True)

    async def _write(
        self, claim: Claim, operations: Sequence[Operation], *, at_once: bool = False
    ) -> list[Stat | None]:
        size = len(operations) if at_once else OPERATIONS_PER_WRITE
        stats: list[Stat | None] = []
        fence = Check(path=znodes.CONTROLLER_EPOCH, version=claim.version)
        for start in range(0, len(operations), max(size, 1)):
            results = await self._coordination.multi([fence, *operations[start : start + size]])
            stats += results[1:]
        return stats


def _creations(claim: Claim, states: Sequence[PartitionState]) -> list[Operation]:
    operations: list[Operation] = []
    for state in states:
        operations.append(Create(path=znodes.partition_path(state.topic_partition), data=b""))
        data = znodes.partition_state(replace(state, controller_epoch=claim.epoch))
        operations.append(Create(path=znodes.state_path(state.topic_partition), data=data))
    return operations


def _data_and_birth(entry: tuple[bytes, Stat]) -> tuple[bytes, int]:
    data, stat = entry
    return data, stat.czxid


def _version(stat: Stat | None) -> int:
    assert stat is not None  # creations and writes answer with a stat
    return stat.version
