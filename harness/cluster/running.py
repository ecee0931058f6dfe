"""What every world's cluster does in the same way: observe, administer, read disks and books."""

import asyncio
import contextlib
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from harness.clock import Clock
from harness.cluster.brokers.system import Ground, NodeFolders, System, host_name
from harness.cluster.confined import folder_below
from harness.cluster.damage import damage_log
from harness.cluster.link_holders import LinkHolders
from harness.cluster.observing import Observation
from harness.cluster.power_loss import lose_tail
from harness.cluster.questions import BrokerQuestions
from harness.cluster.replica_logs import log_end, read_high_watermarks, read_replicas
from harness.errors import HarnessError
from harness.harms import Place
from harness.history.disk_facts import DiskEvent
from harness.history.run_folder import RunFolder
from harness.interfaces import (
    ClientId,
    ClusterHistory,
    Evidence,
    Link,
    Node,
    NodeId,
    PartitionState,
    ReplicaLog,
    TopicDefinition,
)

_POLL_S = 0.05
_RESTARTS_MAX = 6
_REGISTRATION_S = 8.0
_Mode = Literal["hang", "reset"]


class BrokerCluster(ABC):
    """The part of a cluster that no world changes. Until `start`, only its books can be read."""

    start_timeout_s = 30.0

    def __init__(self, *, run_path: Path, system: System, client_links: int, clock: Clock) -> None:
        self._run = run_path.resolve()
        self._system = system
        self._client_links = client_links
        self._clock = clock
        self._ground: Ground | None = None
        self._observation: Observation | None = None
        self._cuts = LinkHolders[_Mode]()
        self._delays = LinkHolders[float]()

    # -- what a world has to say --------------------------------------------------------------------------------------

    @abstractmethod
    def is_running(self, node: NodeId) -> bool: ...

    @abstractmethod
    def _ended(self, node: NodeId) -> str | None:
        """How a node that was started has ended, in words; None while it runs or before it was started."""

    @abstractmethod
    async def _cut_links(self, links: Sequence[Link], *, mode: _Mode) -> Evidence: ...

    @abstractmethod
    async def _heal_links(self, links: Sequence[Link], *, mode: Literal["resume", "reset"]) -> Evidence: ...

    @abstractmethod
    async def _slow_links(self, links: Sequence[Link], *, delay_ms: float) -> Evidence: ...

    def _folders(self, node: NodeId) -> NodeFolders:
        return NodeFolders.below(self._run / "nodes" / str(node))

    def _top(self, node: NodeId) -> Path:
        """Below it the node writes; what leads out of it again is not followed when something is removed or changed."""
        return self._run

    # -- Cluster ------------------------------------------------------------------------------------------------------

    @property
    def nodes(self) -> Sequence[Node]:
        return self._system.nodes

    @property
    def brokers(self) -> Sequence[NodeId]:
        return [node.node for node in self.nodes if node.role == "broker"]

    def bootstrap(self, client: ClientId | None) -> str:
        ground = self._running_ground()
        if client is None:
            return ",".join(f"{ground.harness_reaches(broker)}:{ground.admin_port}" for broker in self.brokers)
        port = ground.client_port(client)
        return ",".join(f"{ground.client_reaches(client, broker)}:{port}" for broker in self.brokers)

    def names_for(self, client: ClientId | None) -> Mapping[str, str]:
        """Where the names that brokers advertise lead for that client; empty where they advertise addresses."""
        if not self._system.has_one_listener or self._ground is None:
            return {}
        ground = self._ground
        return {
            host_name(broker): ground.harness_reaches(broker)
            if client is None
            else ground.client_reaches(client, broker)
            for broker in self.brokers
        }

    async def live_partition_states(self, topics: Sequence[str]) -> Sequence[PartitionState]:
        return await self._observing().look(topics)

    async def controller(self) -> int:
        return self._observing().controller()

    async def create_topics(self, topics: Sequence[TopicDefinition]) -> None:
        await self._observing().create_topics(topics)

    def coordination(self) -> str:
        """Where the coordination service or the first controller listens."""
        ground = self._running_ground()
        apart = next((node.node for node in self.nodes if node.role != "broker"), None)
        if apart is None:
            return f"{ground.harness_reaches(self.brokers[0])}:{ground.controller_port}"
        return f"{ground.harness_reaches(apart)}:{ground.internal_port}"

    def collect(self) -> ClusterHistory:
        return self._system.history(self._folders, RunFolder(self._run).anchor())

    def environment(self) -> Mapping[str, str]:
        return self._system.shown()

    # -- CanCutLinks, CanSlowLinks: a link that several faults hold passes again when the last of them is over -------

    async def cut(self, links: Sequence[Link], *, mode: _Mode = "hang") -> Evidence:
        self._cuts.hold(links, mode)
        return await self._cut_links(links, mode=mode)

    async def heal(self, links: Sequence[Link], *, mode: Literal["resume", "reset"] = "resume") -> Evidence:
        before = {link: self._cuts.in_force(link) for link in links}
        after = self._cuts.release(links, "hang" if mode == "resume" else "reset")
        kept = [link for link in links if after[link] is not None]
        seen = []
        if len(kept) < len(links) or not links:
            seen.append(await self._heal_links([link for link in links if after[link] is None], mode=mode))
        for still in ("hang", "reset"):
            changed = [link for link in kept if after[link] == still != before[link]]
            if changed:
                seen.append(await self._cut_links(changed, mode=still))
        return self._held(kept, "cut", seen)

    async def slow(self, links: Sequence[Link], *, delay_ms: float) -> Evidence:
        """0 ends one fault's delay; of several on a link the newest is in force."""
        if delay_ms:
            self._delays.hold(links, delay_ms)
            return await self._slow_links(links, delay_ms=delay_ms)
        after = self._delays.release(links)
        kept = [link for link in links if after[link] is not None]
        seen = []
        if len(kept) < len(links):
            seen.append(await self._slow_links([link for link in links if after[link] is None], delay_ms=0))
        return self._held(kept, "slow", seen)

    def _held(self, kept: Sequence[Link], harmed: str, seen: Sequence[Evidence]) -> Evidence:
        """One proof, which says what another fault still holds."""
        told = [each.sentence for each in seen]
        if kept:
            stay = "stays" if len(kept) == 1 else "stay"
            told.append(f"{link_names(kept)} {stay} {harmed}: another fault is still in force there")
        return self._seen("; ".join(told))

    # -- HasDisks, as far as files tell -------------------------------------------------------------------------------

    def read_replicas(self, node: NodeId) -> Sequence[ReplicaLog]:
        if node not in self.brokers:
            return []  # a coordination service's folder "version-2" is no replica of a topic "version"
        return read_replicas(node, self._folders(node).data, t_ns=self._clock.monotonic_ns())

    def log_end(self, node: NodeId, topic: str, partition: int) -> int | None:
        folder = self._folders(node).data / f"{topic}-{partition}"
        return log_end(folder) if folder.is_dir() else None

    def high_watermark(self, node: NodeId, topic: str, partition: int) -> int | None:
        return read_high_watermarks(self._folders(node).data).get((topic, partition))

    def _replica_to_harm(self, node: NodeId, topic: str, partition: int) -> Path:
        folder = self._folders(node).data / f"{topic}-{partition}"
        with folder_below(self._top(node), folder):
            return folder

    # -- CanLosePower -------------------------------------------------------------------------------------------------

    async def lose_tail(self, node: NodeId, topic: str, partition: int, *, records: int) -> Evidence:
        if self.is_running(node):
            raise HarnessError(f"{self._name(node)} is running; kill it before it loses what it never flushed")
        folder = self._replica_to_harm(node, topic, partition)
        lost = await asyncio.to_thread(lose_tail, folder, records=records)
        return self._seen(
            f"the log of {topic}-{partition} on {self._name(node)} ends at {lost.to_offset} and no longer at "
            f"{lost.from_offset}: {lost.removed_bytes} bytes never reached the disk",
            node=node, extent="tail", topic=topic, part=partition, from_offset=lost.to_offset,
        )  # fmt: skip

    # -- CanDamageDisks -----------------------------------------------------------------------------------------------

    async def damage(self, node: NodeId, topic: str, partition: int, *, at: Place) -> Evidence:
        folder = self._replica_to_harm(node, topic, partition)
        done = await asyncio.to_thread(damage_log, folder, at=at)
        return self._seen(
            f"the log of {topic}-{partition} on {self._name(node)} is damaged: bits of bytes {done.from_byte} to "
            f"{done.to_byte - 1} of {done.segment.name} are flipped, and the checksum of the batch with offsets "
            f"{done.from_offset} to {done.to_offset - 1} does not hold any more",
            node=node, extent="batch", topic=topic, part=partition, from_offset=done.from_offset,
            to_offset=done.to_offset,
        )  # fmt: skip

    # -- CanReconfigure -----------------------------------------------------------------------------------------------

    async def set_topic_config(self, topic: str, settings: Mapping[str, str]) -> None:
        await self._observing().set_topic_config(topic, settings)

    async def delete_topic(self, topic: str) -> None:
        await self._observing().delete_topic(topic)

    async def elect(self, topic: str, partition: int, *, kind: Literal["preferred", "unclean"]) -> int:
        return await self._observing().elect(topic, partition, kind=kind)

    # -- CanBeAsked ---------------------------------------------------------------------------------------------------

    def questions(self) -> BrokerQuestions:
        observing = self._observing()
        return BrokerQuestions(
            observing.addresses,
            is_running=self.is_running,
            clock=self._clock,
            tells_versions=observing.tells_versions,
        )

    # -- within -------------------------------------------------------------------------------------------------------

    def links(self) -> Sequence[Link]:
        """Everybody's to everybody that is ever opened: a coordination service calls nobody."""
        nodes = self.nodes
        callers = [node for node in nodes if node.role != "coordination"]
        apart = [node for node in nodes if node.role != "broker"]
        made = [
            Link(source=f"n{a.node}", target=f"n{b.node}")
            for a in callers
            for b in (nodes if a.role == "broker" else apart)  # a controller calls only its like
            if a.node != b.node
        ]
        clients = range(1, self._client_links + 1)
        return made + [Link(source=f"c{client}", target=f"n{broker}") for client in clients for broker in self.brokers]

    def _port_of(self, node: NodeId) -> int:
        """Where a node shows that it is up."""
        ground = self._running_ground()
        return ground.admin_port if node in self.brokers else ground.internal_port

    async def _listens(self, node: NodeId) -> None:
        host, port = self._running_ground().harness_reaches(node), self._port_of(node)

        async def accepts() -> bool:
            try:
                _, writer = await asyncio.open_connection(host, port)
            except OSError:
                return False
            writer.close()
            return True

        await self._until(accepts, f"{self._name(node)} listens on {host}:{port}", [node])

    @abstractmethod
    async def _launch(self, node: NodeId) -> None:
        """Starts the node's process and does not wait for it."""

    async def _launch_and_wait(self, node: NodeId) -> int:
        """As a supervisor does: starts it again while it is refused for its last session's sake; how often it was."""
        for refused in range(_RESTARTS_MAX):
            await self._launch(node)
            try:
                await self._listens(node)
                if self._system.refuses_early_restarts:
                    await self._registers(node)
            except HarnessError:
                if not self._system.refuses_early_restarts or self._ended(node) is None:
                    raise
            else:
                return refused
        raise HarnessError(f"{self._name(node)} ended at each of {_RESTARTS_MAX} starts; see {self._folders(node).log}")

    async def _registers(self, node: NodeId) -> None:
        """Until the broker knows of itself, or for a while: one that is cut off from its coordination service cannot.

        It listens before it registers, and only when it registers is it refused.
        """

        async def seen() -> bool:
            try:
                answer = await self._observing().metadata(node, [])
            except (OSError, TimeoutError):
                return False
            return any(broker.node_id == node for broker in answer.brokers)

        with contextlib.suppress(TimeoutError):
            await self._until_ended_or(seen, f"{self._name(node)} registers", [node], timeout_s=_REGISTRATION_S)

    async def _becomes_controller(self, broker: NodeId) -> None:
        async def seen() -> bool:
            await self._observing().look([])
            return self._observing().controller() == broker

        await self._until(seen, f"broker {broker} becomes controller", self.brokers)

    async def _all_registered(self) -> None:
        async def seen() -> bool:
            for broker in self.brokers:
                try:
                    answer = await self._observing().metadata(broker, [])
                except (OSError, TimeoutError):
                    return False
                if len(answer.brokers) < len(self.brokers):
                    return False
            return True

        await self._until(seen, "all brokers are registered", self.brokers)

    async def _until(self, holds: Callable[[], Awaitable[bool]], what: str, nodes: Sequence[NodeId]) -> None:
        """Polls until it holds. Raises HarnessError that names the log of a node that ended, or that took too long."""
        try:
            await self._until_ended_or(holds, what, nodes, timeout_s=self.start_timeout_s)
        except TimeoutError:
            logs = " ".join(str(self._folders(node).log) for node in nodes)
            raise HarnessError(f"not within {self.start_timeout_s:g} s: {what}; see {logs}") from None

    async def _until_ended_or(
        self, holds: Callable[[], Awaitable[bool]], what: str, nodes: Sequence[NodeId], *, timeout_s: float
    ) -> None:
        """Raises HarnessError for a node that ended, TimeoutError when it does not hold in time."""
        async with asyncio.timeout(timeout_s):
            while not await holds():
                for node in nodes:
                    ended = self._ended(node)
                    if ended is not None:
                        raise HarnessError(
                            f"{self._name(node)} {ended} while waiting until {what}; see {self._folders(node).log}"
                        )
                await asyncio.sleep(_POLL_S)

    def _running_ground(self) -> Ground:
        if self._ground is None:
            raise HarnessError("the cluster is not running")
        return self._ground

    def _observing(self) -> Observation:
        assert self._observation is not None, "the cluster was started"
        return self._observation

    def _seen(self, sentence: str, **destroyed: Any) -> Evidence:
        """destroyed: the fields of the DiskEvent that it proves, but for its moment, which is now."""
        t_ns = self._clock.monotonic_ns()
        events = (DiskEvent(t=t_ns, **destroyed),) if destroyed else ()
        return Evidence(t_ns=t_ns, sentence=sentence, destroyed=events)

    def _name(self, node: NodeId) -> str:
        return next((each.name for each in self.nodes if each.node == node), f"node {node}")


def after_refusals(count: int) -> str:
    return f", after {count} starts were refused: its last session was still alive" if count else ""


def link_names(links: Sequence[Link]) -> str:
    names = " ".join(str(link).replace("n", "") for link in links)
    return f"link {names}" if len(links) == 1 else f"links {names}"
