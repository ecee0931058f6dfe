"""The controller's access to the coordination service: reads, and writes that only the current controller can make.

Every write is a multi that checks the version of /controller_epoch, so a deposed controller that does not know it yet
(a paused process, a late packet) writes nothing (docs/replication.md R38). A change too large for one multi is split
into several, in an order that lets a successor complete it: a topic before the states of its partitions, the mark that
requests a deletion last.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
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
from reference_impl.core.controller import znodes
from reference_impl.core.controller.controller_state import Incarnation, Topic
from reference_impl.core.identifiers import TopicPartition, is_topic_name
from reference_impl.core.state import LiveBroker, PartitionState

logger = logging.getLogger(__name__)

BYTES_PER_WRITE = 400_000  # bytes; far below the service's limit of a frame (jute.maxbuffer, 1 MB)
BYTES_PER_OPERATION = 80  # bytes in addition to path and data; its part of the answer is no larger
RETRY_SECONDS = 0.1
Result = TypeVar("Result")
Operation = Create | Set | Delete | Check
Group = Sequence[Operation]  # most operations of one multi


@dataclass(frozen=True, kw_only=True)
class Claim:
    """The right to write: the controller epoch, and the version of the znode that holds it."""

    epoch: int
    version: int


async def persistently(action: Callable[[], Awaitable[Result]]) -> Result:
    """Repeats an idempotent action for as long as the session lasts; SessionExpired ends it."""
    while True:
        try:
            return await action()
        except ConnectionLost:
            await asyncio.sleep(RETRY_SECONDS)


async def ensure_paths(coordination: CoordinationClient) -> None:
    """Creates the persistent parent znodes."""
    for path, data in (*((path, b"") for path in znodes.PERSISTENT_PATHS), (znodes.CONTROLLER_EPOCH, b"0")):
        try:
            await persistently(lambda path=path, data=data: coordination.create(path, data))  # type: ignore[misc]
        except NodeExists:
            continue


class ControllerStore:
    def __init__(self, coordination: CoordinationClient) -> None:
        self._coordination = coordination

    async def claim(self, broker_id: int, wall_ms: int) -> Claim | None:
        """Takes /controller if it is free; sets a watch on it in any case. None: another broker holds it."""
        while True:
            present = await self._coordination.exists(znodes.CONTROLLER, watch=True)
            data, stat = await self._coordination.get(znodes.CONTROLLER_EPOCH)
            if present is not None:
                if present.ephemeral_owner != self._coordination.session_id:
                    return None
                # The znode is this broker's: the answer to an earlier attempt was lost. Epoch and /controller are
                # written together.
                return Claim(epoch=int(data), version=stat.version)
            epoch = int(data) + 1
            office = Create(path=znodes.CONTROLLER, data=znodes.controller(broker_id, wall_ms), ephemeral=True)
            raised = Set(path=znodes.CONTROLLER_EPOCH, data=str(epoch).encode(), version=stat.version)
            try:
                await self._coordination.multi([office, raised])
            except (NodeExists, BadVersion):
                continue
            return Claim(epoch=epoch, version=stat.version + 1)

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
        """Other clients may write there too: znodes without a valid topic name are ignored."""
        names = set(await self._coordination.children(path, watch=True))
        topics = set(filter(is_topic_name, names))
        for name in sorted(names - topics):
            logger.warning("%s/%s: no legal topic name; left alone", path, name)
        return topics

    async def topic(self, name: str) -> tuple[Topic, dict[TopicPartition, tuple[int, ...]]] | None:
        """Returns a topic with its assignment, and sets a watch on its overrides."""
        entry = await self._read(znodes.topic_path(name))
        if entry is None:
            return None
        topic_id, assignment = znodes.read_topic(entry[0])
        topic = await self.with_configs(Topic(name=name, topic_id=topic_id))
        return topic, {TopicPartition(name, number): replicas for number, replicas in sorted(assignment.items())}

    async def with_configs(self, topic: Topic) -> Topic:
        path = znodes.topic_config_path(topic.name)
        try:
            data, _ = await self._coordination.get(path, watch=True)
        except NoNode:
            await self._coordination.exists(path, watch=True)
            return replace(topic, configs={})
        return replace(topic, configs=znodes.read_configs(data))

    async def partition_states(
        self, assignment: Mapping[TopicPartition, tuple[int, ...]]
    ) -> dict[TopicPartition, PartitionState]:
        """Returns the written states; a partition without a state is missing from the result."""
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

    # Writes under this claim.

    async def write_states(
        self,
        claim: Claim,
        states: Sequence[PartitionState],
        incarnations: Mapping[int, Incarnation] | None = None,
    ) -> tuple[list[PartitionState], dict[int, Incarnation]]:
        """Writes states conditionally (incarnations last); returns them with their new versions."""
        stamped = [replace(state, controller_epoch=claim.epoch) for state in states]
        operations: list[Group] = [
            [
                Set(
                    path=znodes.state_path(state.topic_partition),
                    data=znodes.partition_state(state),
                    version=state.partition_epoch,
                )
            ]
            for state in stamped
        ]
        for broker_id, incarnation in (incarnations or {}).items():
            path, data = f"{znodes.DIRECTORIES}/{broker_id}", znodes.incarnation(incarnation)
            if incarnation.version < 0:
                operations.append([Create(path=path, data=data)])
            else:
                operations.append([Set(path=path, data=data, version=incarnation.version)])
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
        """Creates the topic in one multi or not at all. If it is too large for one multi and a write fails, the next
        reader of the topic creates what is missing."""
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
        await self._write(claim, [operations, *_creations(claim, states)])
        return [replace(state, controller_epoch=claim.epoch, partition_epoch=0) for state in states]

    async def add_partitions(
        self, claim: Claim, topic: Topic, states: Sequence[PartitionState]
    ) -> list[PartitionState]:
        """Like create_topic, and only if the topic's version is as the states were computed from; else BadVersion."""
        path = znodes.topic_path(topic.name)
        data, stat = await self._coordination.get(path)
        topic_id, existing = znodes.read_topic(data)
        if topic_id != topic.topic_id or len(existing) != states[0].topic_partition.partition:
            raise BadVersion(f"{path} is not what this controller knows")
        assignment = [*(existing[number] for number in sorted(existing)), *(state.replicas for state in states)]
        grown = Set(path=path, data=znodes.topic(topic_id, assignment), version=stat.version)
        await self._write(claim, [[grown], *_creations(claim, states)])
        return [replace(state, controller_epoch=claim.epoch, partition_epoch=0) for state in states]

    async def create_states(self, claim: Claim, states: Sequence[PartitionState]) -> list[PartitionState]:
        """Creates states of a topic whose assignment another client wrote."""
        parents = {f"{znodes.topic_path(state.topic_partition.topic)}/partitions" for state in states}
        missing = [path for path in sorted(parents) if await self._coordination.exists(path) is None]
        await self._write(claim, [*([Create(path=path, data=b"")] for path in missing), *_creations(claim, states)])
        return [replace(state, controller_epoch=claim.epoch, partition_epoch=0) for state in states]

    async def ask_for_deletion(self, topic: str) -> None:
        try:
            await self._coordination.create(f"{znodes.DELETE_TOPICS}/{topic}", b"")
        except NodeExists:
            return

    async def delete_topic(self, claim: Claim, topic: str) -> None:
        """Deletes all of a topic, children before parents, and last the mark that requested it."""
        root = znodes.topic_path(topic)
        groups: list[Group] = []
        rest: list[str] = []
        if await self._coordination.exists(root) is not None:
            if await self._coordination.exists(f"{root}/partitions") is not None:
                numbers = await self._coordination.children(f"{root}/partitions")
                partitions = [f"{root}/partitions/{number}" for number in numbers]
                children = await asyncio.gather(*map(self._coordination.children, partitions))
                for partition, names in zip(partitions, children, strict=True):
                    paths = [*(f"{partition}/{name}" for name in names), partition]
                    groups.append([Delete(path=path) for path in paths])
                rest.append(f"{root}/partitions")
            rest.append(root)
        for path in (znodes.topic_config_path(topic), f"{znodes.DELETE_TOPICS}/{topic}"):
            if await self._coordination.exists(path) is not None:
                rest.append(path)
        await self._write(claim, [*groups, [Delete(path=path) for path in rest]])

    async def _write(self, claim: Claim, groups: Sequence[Group]) -> list[Stat | None]:
        """Writes in as few multis as possible; returns each operation's stat."""
        stats: list[Stat | None] = []
        fence = Check(path=znodes.CONTROLLER_EPOCH, version=claim.version)
        for operations in _multis(groups):
            results = await self._coordination.multi([fence, *operations])
            stats += results[1:]
        return stats


def _multis(groups: Sequence[Group]) -> Iterator[list[Operation]]:
    together: list[Operation] = []
    size = 0
    for group in groups:
        added = sum(BYTES_PER_OPERATION + len(each.path) + len(getattr(each, "data", b"")) for each in group)
        if together and size + added > BYTES_PER_WRITE:
            yield together
            together, size = [], 0
        together.extend(group)
        size += added
    if together:
        yield together


def _creations(claim: Claim, states: Sequence[PartitionState]) -> list[Group]:
    return [
        [
            Create(path=znodes.partition_path(state.topic_partition), data=b""),
            Create(
                path=znodes.state_path(state.topic_partition),
                data=znodes.partition_state(replace(state, controller_epoch=claim.epoch)),
            ),
        ]
        for state in states
    ]


def _data_and_birth(entry: tuple[bytes, Stat]) -> tuple[bytes, int]:
    data, stat = entry
    return data, stat.czxid


def _version(stat: Stat | None) -> int:
    assert stat is not None  # creations and writes return a stat
    return stat.version
