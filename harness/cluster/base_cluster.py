"""The base class of local and docker clusters: observing, administration, disks, the system's own records."""

import asyncio
import contextlib
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from harness.cluster import node_files
from harness.cluster.books.observing import Observation
from harness.cluster.brokers.system import NodeEnvironment, NodeFolders, System, host_name
from harness.cluster.confined import folder_below
from harness.cluster.coordinator_logs import read_coordinator_logs
from harness.cluster.damage import damage_log, lose_tail
from harness.cluster.last_words import LastWords, last_lines, last_words, reason_in
from harness.cluster.link_holders import LinkHolders
from harness.cluster.node_lives import NodeLives
from harness.cluster.questions import BrokerQuestions
from harness.cluster.replica_logs import log_end_in, read_high_watermarks, read_replicas
from harness.errors import HarnessError
from harness.history.facts.disk_facts import DiskEvent
from harness.history.run_folder import RunFolder
from harness.host.clock import Anchor, Clock
from harness.ports.capabilities import Place
from harness.ports.cluster import (
    ClientId,
    ClusterHistory,
    Evidence,
    Link,
    Node,
    NodeEnd,
    NodeId,
    PartitionState,
    ReplicaLog,
    TopicDefinition,
)
from harness.ports.coordinator_logs import CoordinatorLog

_POLL_S = 0.05
_RESTARTS_MAX = 6
_REGISTRATION_S = 8.0
_STOP_S = 15.0
_Mode = Literal["hang", "reset"]


class BrokerCluster(ABC):
    """The part of a cluster that is the same in every world. Before `start`, only its stored records can be read."""

    start_timeout_s = 30.0

    def __init__(self, *, run_path: Path, system: System, client_links: int, clock: Clock) -> None:
        self._run = run_path.resolve()
        self._system = system
        self._client_links = client_links
        self._clock = clock
        self._environment: NodeEnvironment | None = None
        self._observation: Observation | None = None
        self._lives = NodeLives()
        self._log_bytes: dict[NodeId, int] = {}  # of each node's log when its process was started
        self._cuts = LinkHolders[_Mode]()
        self._delays = LinkHolders[float]()

    # -- to be implemented by each world ------------------------------------------------------------------------

    @abstractmethod
    def is_running(self, node: NodeId) -> bool: ...

    @abstractmethod
    def _ended(self, node: NodeId) -> str | None:
        """How a started node has ended, in words; None while it runs or before it was started."""

    @abstractmethod
    async def _cut_links(self, links: Sequence[Link], *, mode: _Mode) -> Evidence: ...

    @abstractmethod
    async def _heal_links(self, links: Sequence[Link], *, mode: Literal["resume", "reset"]) -> Evidence: ...

    @abstractmethod
    async def _slow_links(self, links: Sequence[Link], *, delay_ms: float) -> Evidence: ...

    def _folders(self, node: NodeId) -> NodeFolders:
        return NodeFolders.below(self._run / "nodes" / str(node))

    def _top(self, node: NodeId) -> Path:
        """The folder below which the node writes; links that lead out of it are not followed when files are removed or
        changed."""
        return self._run

    # -- Cluster ------------------------------------------------------------------------------------------------------

    @property
    def nodes(self) -> Sequence[Node]:
        return self._system.nodes

    @property
    def brokers(self) -> Sequence[NodeId]:
        return [node.node for node in self.nodes if node.role == "broker"]

    def bootstrap(self, client: ClientId | None) -> str:
        environment = self._running_environment()
        if client is None:
            return ",".join(
                f"{environment.harness_reaches(broker)}:{environment.admin_port}" for broker in self.brokers
            )
        port = environment.client_port(client)
        return ",".join(f"{environment.client_reaches(client, broker)}:{port}" for broker in self.brokers)

    def names_for(self, client: ClientId | None) -> Mapping[str, str]:
        """The addresses of broker names for that client; empty if brokers advertise addresses."""
        if not self._system.has_one_listener or self._environment is None:
            return {}
        environment = self._environment
        return {
            host_name(broker): environment.harness_reaches(broker)
            if client is None
            else environment.client_reaches(client, broker)
            for broker in self.brokers
        }

    async def live_partition_states(self, topics: Sequence[str]) -> Sequence[PartitionState]:
        return await self._observing().look(topics)

    async def controller(self) -> int:
        return self._observing().controller()

    async def create_topics(self, topics: Sequence[TopicDefinition]) -> None:
        await self._observing().create_topics(topics)

    def coordination(self) -> str:
        """The listening address of the coordination service or the first controller."""
        environment = self._running_environment()
        apart = next((node.node for node in self.nodes if node.role != "broker"), None)
        if apart is None:
            return f"{environment.harness_reaches(self.brokers[0])}:{environment.controller_port}"
        return f"{environment.harness_reaches(apart)}:{environment.internal_port}"

    def collect(self) -> ClusterHistory:
        return self._system.history(self._folders, self._anchor())

    def _anchor(self) -> Anchor:
        """Of the run's clock, for stamps that nodes wrote."""
        return RunFolder(self._run).anchor()

    def environment(self) -> Mapping[str, str]:
        return self._system.shown()

    def endings(self) -> Mapping[NodeId, Sequence[str]]:
        """For each node that has ended: how it ended, and its last log lines."""
        found = {}
        for node in self.nodes:
            ended = self._ended(node.node)
            if ended is not None:
                last = [f"  {line}" for line in last_lines(self._folders(node.node).log)]
                found[node.node] = [
                    f"{node.name} {ended}; {'its log ends with' if last else 'it logged nothing'}",
                    *last,
                ]
        return found

    # -- SeesNodesEnd -------------------------------------------------------------------------------------------------

    def node_ends(self) -> Sequence[NodeEnd]:
        return self._lives.ends()

    def _starts_logging(self, node: NodeId) -> None:
        self._log_bytes[node] = node_files.size(self._folders(node).log)

    def _runs(self, node: NodeId) -> None:
        """It was seen to listen. Raises HarnessError if it has ended since."""
        self._lives.runs(node, self._clock.monotonic_ns())
        ended = self._ended(node)
        if ended is not None:
            raise HarnessError(f"{self._name(node)} {ended} as soon as it listened{self._why(node)}")

    def _has_ended(self, node: NodeId, code: int | None) -> None:
        """Its process has ended with that code (None: not known). From any thread."""
        self._lives.has_ended(node, code, self._clock.monotonic_ns(), lambda: self._last_words(node))

    def _last_words(self, node: NodeId) -> LastWords:
        return last_words(self._folders(node).log, since=self._log_bytes.get(node, 0))

    def _down_already(self, node: NodeId, signal_name: str) -> Evidence | None:
        """The proof that it is down, where it has ended by itself before it could be sent a signal."""
        ended = self._ended(node)
        if ended is None or not self._lives.is_down_by_itself(node):
            return None
        return self._seen(f"{self._name(node)} had {ended} by itself before {signal_name}")

    @contextlib.asynccontextmanager
    async def _in_time_to_stop(self, node: NodeId) -> AsyncIterator[None]:
        """Raises HarnessError where what is waited for after SIGTERM takes too long."""
        try:
            async with asyncio.timeout(_STOP_S):
                yield
        except TimeoutError:
            raise HarnessError(
                f"{self._name(node)} did not end within {_STOP_S:g} s of SIGTERM; see {self._folders(node).log}"
            ) from None

    # -- CanCutLinks, CanSlowLinks: a link with several faults is healed when the last of them ends -------------------

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

    def faults_on(self, link: Link) -> int:
        return self._cuts.count(link) + self._delays.count(link)

    async def slow(self, links: Sequence[Link], *, delay_ms: float) -> Evidence:
        """Delays links; 0 ends one fault's delay. If several faults delay a link, the newest one applies."""
        if delay_ms:
            self._delays.hold(links, delay_ms)
            return await self._slow_links(links, delay_ms=delay_ms)
        after = self._delays.release(links)
        kept, freed = ([link for link in links if (after[link] is None) is free] for free in (False, True))
        return self._held(kept, "slow", [await self._slow_links(freed, delay_ms=0)] if freed else [])

    def _held(self, kept: Sequence[Link], harmed: str, seen: Sequence[Evidence]) -> Evidence:
        """One proof that also names links on which other faults are still active."""
        sentences = [each.sentence for each in seen]
        if kept:
            stay = "stays" if len(kept) == 1 else "stay"
            sentences.append(f"{link_names(kept)} {stay} {harmed}: another fault is still in force there")
        return self._seen("; ".join(sentences))

    # -- HasDisks, by files --------------------------------------------------------------------------------------------

    def read_replicas(self, node: NodeId) -> Sequence[ReplicaLog]:
        if node not in self.brokers:
            return []  # a coordination service's folder "version-2" is no replica of a topic "version"
        return read_replicas(node, self._folders(node).data, t_ns=self._clock.monotonic_ns())

    def read_coordinator_logs(self, node: NodeId) -> Sequence[CoordinatorLog]:
        if node not in self.brokers:
            return []
        data = self._folders(node).data
        return read_coordinator_logs(node, data, t_ns=self._clock.monotonic_ns(), anchor=self._anchor())

    def log_end(self, node: NodeId, topic: str, partition: int) -> int | None:
        return log_end_in(self._folders(node).data, topic, partition)

    def high_watermark(self, node: NodeId, topic: str, partition: int) -> int | None:
        return self.high_watermarks(node).get((topic, partition))

    def high_watermarks(self, node: NodeId) -> Mapping[tuple[str, int], int]:
        return read_high_watermarks(self._folders(node).data)

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
            node=node,
            extent="tail",
            topic=topic,
            partition=partition,
            from_offset=lost.to_offset,
        )

    # -- CanDamageDisks -----------------------------------------------------------------------------------------------

    async def damage(self, node: NodeId, topic: str, partition: int, *, at: Place) -> Evidence:
        folder = self._replica_to_harm(node, topic, partition)
        done = await asyncio.to_thread(damage_log, folder, at=at)
        return self._seen(
            f"the log of {topic}-{partition} on {self._name(node)} is damaged: bits of bytes {done.from_byte} to "
            f"{done.to_byte - 1} of {done.segment.name} are flipped, and the checksum of the batch with offsets "
            f"{done.from_offset} to {done.to_offset - 1} does not hold any more",
            node=node,
            extent="batch",
            topic=topic,
            partition=partition,
            from_offset=done.from_offset,
            to_offset=done.to_offset,
        )

    # -- CanReconfigure -----------------------------------------------------------------------------------------------

    async def set_topic_config(self, topic: str, settings: Mapping[str, str]) -> None:
        await self._observing().set_topic_config(topic, settings)

    async def delete_topic(self, topic: str) -> None:
        await self._observing().delete_topic(topic)

    async def elect(self, topic: str, partition: int, *, kind: Literal["preferred", "unclean"]) -> int:
        return await self._observing().elect(topic, partition, kind=kind)

    # -- AnswersQuestions ---------------------------------------------------------------------------------------------

    def questions(self) -> BrokerQuestions:
        observing = self._observing()
        return BrokerQuestions(
            observing.addresses,
            is_running=self.is_running,
            clock=self._clock,
            reports_versions=observing.reports_versions,
        )

    # -- internal ---------------------------------------------------------------------------------------------------

    def links(self) -> Sequence[Link]:
        """All links that are ever used: from every node to every other, except that a coordination service opens no
        connections."""
        nodes = self.nodes
        callers = [node for node in nodes if node.role != "coordination"]
        apart = [node for node in nodes if node.role != "broker"]
        made = [
            Link(source=a.node, target=b.node)
            for a in callers
            for b in (nodes if a.role == "broker" else apart)  # a controller connects only to other controllers
            if a.node != b.node
        ]
        clients = [ClientId(number) for number in range(1, self._client_links + 1)]
        return made + [Link(client=client, target=broker) for client in clients for broker in self.brokers]

    def _port_of(self, node: NodeId) -> int:
        """The port that shows that a node is up."""
        environment = self._running_environment()
        return environment.admin_port if node in self.brokers else environment.internal_port

    async def _listens(self, node: NodeId) -> None:
        host, port = self._running_environment().harness_reaches(node), self._port_of(node)

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
        """Starts a node, and again while it exits because its last session is still alive; returns how often it did."""
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
        raise HarnessError(f"{self._name(node)} ended at each of {_RESTARTS_MAX} starts{self._why(node)}")

    async def _registers(self, node: NodeId) -> None:
        """Waits until the broker appears in its own metadata, but not for ever: a broker cut off from its coordination
        service cannot.

        A broker listens before it registers, and it is refused only when it registers.
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

    async def _launch_all(self, nodes: Sequence[NodeId]) -> None:
        for node in nodes:
            await self._launch(node)

    async def _start_in_stages(self) -> None:
        """Each stage of the system's when all of the one before listen; returns when all brokers are registered."""
        for number, stage in enumerate(self._system.stages):
            await self._launch_all(stage)
            for node in stage:
                await self._listens(node)
            if number == 1 and self._system.first_is_controller:
                await self._becomes_controller(stage[0])
        await self._all_registered()
        for each in self.nodes:
            self._runs(each.node)

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
        """Polls until the condition holds. Raises HarnessError with the log of a node that ended, or that was late."""
        try:
            await self._until_ended_or(holds, what, nodes, timeout_s=self.start_timeout_s)
        except TimeoutError:
            logs = " ".join(str(self._kept_log(node)) for node in nodes)
            raise HarnessError(f"not within {self.start_timeout_s:g} s: {what}; see {logs}") from None

    async def _until_ended_or(
        self, holds: Callable[[], Awaitable[bool]], what: str, nodes: Sequence[NodeId], *, timeout_s: float
    ) -> None:
        """Raises HarnessError if the node ended, TimeoutError if the condition does not hold in time."""
        async with asyncio.timeout(timeout_s):
            while not await holds():
                for node in nodes:
                    ended = self._ended(node)
                    if ended is not None:
                        raise HarnessError(f"{self._name(node)} {ended} while waiting until {what}{self._why(node)}")
                await asyncio.sleep(_POLL_S)

    def _running_environment(self) -> NodeEnvironment:
        if self._environment is None:
            raise HarnessError("the cluster is not running")
        return self._environment

    def _observing(self) -> Observation:
        assert self._observation is not None, "the cluster was started"
        return self._observation

    def _seen(self, sentence: str, **destroyed: Any) -> Evidence:
        """`destroyed`: the fields of the DiskEvent that this proves; its time is now."""
        t_ns = self._clock.monotonic_ns()
        events = (DiskEvent(time_ns=t_ns, **destroyed),) if destroyed else ()
        return Evidence(t_ns=t_ns, sentence=sentence, destroyed=events)

    def _why(self, node: NodeId) -> str:
        """What the log of a node that has ended says of it, and where the log is after the run."""
        said = reason_in(self._folders(node).log)
        return f"{f': it says {said!r}' if said else ''}; see {self._kept_log(node)}"

    def _kept_log(self, node: NodeId) -> Path:
        return NodeFolders.below(self._run / "nodes" / str(node)).log

    def _name(self, node: NodeId) -> str:
        for each in self.nodes:
            if each.node == node:
                return each.name
        known = ", ".join(map(str, sorted(each.node for each in self.nodes)))
        raise HarnessError(f"there is no node {node}: give one of {known}, and one at a time")


def after_refusals(count: int) -> str:
    return f", after {count} starts were refused: its last session was still alive" if count else ""


def link_names(links: Sequence[Link]) -> str:
    names = " ".join(link.short_name for link in links)
    return f"link {names}" if len(links) == 1 else f"links {names}"
