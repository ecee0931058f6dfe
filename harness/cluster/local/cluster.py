"""A reference cluster as processes on this machine: nothing is needed, and every fault but the packet's is possible."""

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal

from harness.clock import Clock
from harness.cluster.brokers.reference import ReferenceNodes
from harness.cluster.local.addresses import AddressBlock
from harness.cluster.local.fabric import Route
from harness.cluster.local.fabric_control import FabricControl
from harness.cluster.local.leaks import leaks
from harness.cluster.local.processes import Spawner, state_of
from harness.cluster.observing import Observation
from harness.cluster.replica_logs import (
    log_end,
    partition_folders,
    read_events,
    read_high_watermarks,
    read_replica,
)
from harness.cluster.znode_history import history_of
from harness.cluster.zookeeper_log import read_changes
from harness.errors import HarnessError
from harness.history.run_folder import RunFolder
from harness.interfaces import (
    COORDINATION,
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
from harness.scenario import ClusterSpec

_START_S = 30.0
_STOP_S = 15.0
_POLL_S = 0.05


class LocalCluster:
    """Implements Cluster and all capabilities of harness.interfaces. Until `start`, only its books can be read."""

    def __init__(self, *, run_path: Path, spec: ClusterSpec, client_links: int, clock: Clock) -> None:
        self._run = run_path.resolve()
        self._spec = spec
        self._client_links = client_links
        self._clock = clock
        self._spawner = Spawner(run=self._run)
        self._fabric = FabricControl(spawner=self._spawner, log=self._run / "nodes" / "fabric" / "log")
        self._processes: dict[NodeId, asyncio.subprocess.Process] = {}
        self._addresses: AddressBlock | None = None
        self._made: ReferenceNodes | None = None
        self._observation: Observation | None = None

    # -- Cluster ------------------------------------------------------------------------------------------------------

    @property
    def nodes(self) -> Sequence[Node]:
        brokers = [
            Node(node=NodeId(broker), role="broker", name=f"broker {broker}") for broker in sorted(self._spec.brokers)
        ]
        return [Node(node=COORDINATION, role="coordination", name="coordination service"), *brokers]

    async def start(self) -> None:
        brokers = [NodeId(broker) for broker in self._spec.brokers]
        if COORDINATION in brokers:
            raise HarnessError(f"broker id {COORDINATION} is the coordination service's; choose another one")
        addresses = self._addresses = AddressBlock([COORDINATION, *brokers], client_links=self._client_links)
        nodes = self._made = ReferenceNodes(folder=self._run / "nodes", spec=self._spec, addresses=addresses)
        nodes.write()
        self._observation = Observation(
            {broker: (addresses.node(broker), addresses.admin_port) for broker in brokers},
            is_running=self.is_running,
            clock=self._clock,
        )
        await self._fabric.start(self._routes(addresses, brokers))
        await self._spawn(COORDINATION)
        await self._listens(COORDINATION, addresses.internal_port)
        await self._spawn(brokers[0])
        await self._until(lambda: self._sees_controller(brokers[0]), f"broker {brokers[0]} becomes controller", brokers)
        for broker in brokers[1:]:
            await self._spawn(broker)
        await self._until(lambda: self._all_registered(brokers), "all brokers are registered", brokers)
        found = self.leaks()
        if found:
            raise HarnessError(f"{found[0]}; the link fabric would not be believed")

    async def stop(self) -> None:
        """Coordination service and fabric last, so that no broker spends its end on electing."""
        for node, process in sorted(self._processes.items(), key=lambda item: item[0] == COORDINATION):
            if process.returncode is None:
                process.kill()
            await process.wait()
            self._processes.pop(node)
        await self._fabric.stop()
        if self._observation is not None:
            self._observation.close()
        if self._addresses is not None:
            self._addresses.release()
            self._addresses = None

    def bootstrap(self, client: ClientId | None) -> str:
        addresses = self._running_addresses()
        brokers = [NodeId(broker) for broker in self._spec.brokers]
        if client is None:
            return ",".join(f"{addresses.node(broker)}:{addresses.admin_port}" for broker in brokers)
        port = addresses.client_port(client)
        return ",".join(f"{addresses.client(client, broker)}:{port}" for broker in brokers)

    def coordination(self) -> str:
        addresses = self._running_addresses()
        return f"{addresses.node(COORDINATION)}:{addresses.internal_port}"

    async def live_partition_states(self, topics: Sequence[str]) -> Sequence[PartitionState]:
        return await self._observing().look(topics)

    async def controller(self) -> int:
        return self._observing().controller()

    async def create_topics(self, topics: Sequence[TopicDefinition]) -> None:
        await self._observing().create_topics(topics)

    def collect(self) -> ClusterHistory:
        """From the coordination log and the brokers' evidence journals, on the axis of the run's first anchor."""
        anchor = RunFolder(self._run).anchor()
        books = history_of(read_changes(self._data(COORDINATION) / "version-2"), anchor)
        events = list(books.broker_events)
        for broker in sorted(self._spec.brokers):
            events.extend(read_events(NodeId(broker), self._node_folder(NodeId(broker)) / "evidence"))
        return ClusterHistory(
            partition_states=books.partition_states,
            controllers=books.controllers,
            broker_events=sorted(events, key=lambda event: event.t_ns),
            configuration=books.configuration,
        )

    def environment(self) -> Mapping[str, str]:
        nodes = self._made
        shown = ("zookeeper.session.timeout.ms", "replica.lag.time.max.ms", "replica.fetch.wait.max.ms")
        told = {"start order": " ".join(str(broker) for broker in self._spec.brokers)}
        if nodes is not None:
            told |= {key: nodes.setting(key) for key in shown}
        if self._spec.flaws:
            told["planted flaws"] = ", ".join(self._spec.flaws)
        return told

    # -- CanCrash -----------------------------------------------------------------------------------------------------

    def is_running(self, node: NodeId) -> bool:
        process = self._processes.get(node)
        return process is not None and process.returncode is None

    async def kill(self, node: NodeId) -> Evidence:
        process = self._process(node)
        process.kill()
        await process.wait()
        return self._seen(f"process {process.pid} of {self._name(node)} is gone after SIGKILL")

    async def shut_down(self, node: NodeId) -> Evidence:
        process = self._process(node)
        process.terminate()
        try:
            async with asyncio.timeout(_STOP_S):
                code = await process.wait()
        except TimeoutError:
            raise HarnessError(
                f"{self._name(node)} did not end within {_STOP_S:g} s of SIGTERM; see {self._log(node)}"
            ) from None
        return self._seen(f"process {process.pid} of {self._name(node)} ended by itself with code {code}")

    async def start_node(self, node: NodeId) -> Evidence:
        if self.is_running(node):
            return self._seen(f"{self._name(node)} was running already, as process {self._process(node).pid}")
        process = await self._spawn(node)
        addresses = self._running_addresses()
        await self._listens(node, addresses.internal_port if node == COORDINATION else addresses.admin_port)
        return self._seen(f"{self._name(node)} runs as process {process.pid} and listens")

    # -- CanPause -----------------------------------------------------------------------------------------------------

    async def pause(self, node: NodeId) -> Evidence:
        return await self._signal(node, signal.SIGSTOP, stopped=True)

    async def resume(self, node: NodeId) -> Evidence:
        if not self.is_running(node):
            return self._seen(f"{self._name(node)} is not running any more")
        return await self._signal(node, signal.SIGCONT, stopped=False)

    async def _signal(self, node: NodeId, number: signal.Signals, *, stopped: bool) -> Evidence:
        pid = self._process(node).pid
        os.kill(pid, number)

        async def changed() -> bool:
            return (state_of(pid) == "T") == stopped

        await self._until(changed, f"process {pid} takes {number.name}", [node])
        return self._seen(f"process {pid} of {self._name(node)} is in state {state_of(pid)} after {number.name}")

    # -- CanCutLinks, CanSlowLinks, LeakCheck -------------------------------------------------------------------------

    def links(self) -> Sequence[Link]:
        brokers = [NodeId(broker) for broker in sorted(self._spec.brokers)]
        made = [Link(source=f"n{a}", target=f"n{b}") for a in brokers for b in [COORDINATION, *brokers] if a != b]
        clients = range(1, self._client_links + 1)
        return made + [Link(source=f"c{client}", target=f"n{broker}") for client in clients for broker in brokers]

    async def cut(self, links: Sequence[Link], *, mode: Literal["hang", "reset"] = "hang") -> Evidence:
        seen = await self._fabric.command("cut", [str(link) for link in links], mode=mode)
        self._refuse_leaks()
        still = sum(each["connections"] for each in seen.values())
        how = "bytes wait" if mode == "hang" else "connections are reset"
        assert all(each["cut"] for each in seen.values()), "the fabric does as it is told"
        return self._seen(f"{_names(links)} cut, {how}, {still} connections held")

    async def heal(self, links: Sequence[Link], *, mode: Literal["resume", "reset"] = "resume") -> Evidence:
        before = await self._fabric.command("look", [str(link) for link in links])
        seen = await self._fabric.command("heal", [str(link) for link in links], mode=mode)
        assert not any(each["cut"] for each in seen.values()), "the fabric does as it is told"
        passed = sum(seen[name]["bytes"] - before[name]["bytes"] for name in seen)
        self._refuse_leaks()
        return self._seen(f"{_names(links)} pass again ({mode}), {passed} bytes so far")

    async def slow(self, links: Sequence[Link], *, delay_ms: float) -> Evidence:
        await self._fabric.command("slow", [str(link) for link in links], delay_ms=delay_ms)
        what = f"delay every byte by {delay_ms:g} ms" if delay_ms else "pass without delay again"
        return self._seen(f"{_names(links)} {what}")

    def leaks(self) -> Sequence[str]:
        addresses = self._running_addresses()
        running = {self._name(node): process.pid for node, process in self._processes.items() if self.is_running(node)}
        real = {node.name: addresses.node(node.node) for node in self.nodes}
        return leaks(running, real, peer_ports={addresses.internal_port})

    def _refuse_leaks(self) -> None:
        found = self.leaks()
        if found:
            raise HarnessError(f"{found[0]}; a cut would not be what it says")

    # -- HasDisks -----------------------------------------------------------------------------------------------------

    async def wipe(self, node: NodeId) -> Evidence:
        if self.is_running(node):
            raise HarnessError(f"{self._name(node)} is running; kill it before its disk is wiped")
        data = self._data(node)
        removed = 0
        for path in sorted(data.rglob("*"), key=lambda path: len(path.parts), reverse=True):
            if path.is_dir():
                path.rmdir()
            else:
                removed += path.stat().st_size
                path.unlink()
        assert not any(data.iterdir()), "everything below the data directory was removed"
        return self._seen(f"data directory of {self._name(node)} is empty, {removed} bytes removed")

    def read_replicas(self, node: NodeId) -> Sequence[ReplicaLog]:
        now = self._clock.monotonic_ns()
        return [
            read_replica(node, topic, partition, folder, t_ns=now)
            for topic, partition, folder in partition_folders(self._data(node))
        ]

    def log_end(self, node: NodeId, topic: str, partition: int) -> int | None:
        folder = self._data(node) / f"{topic}-{partition}"
        return log_end(folder) if folder.is_dir() else None

    def high_watermark(self, node: NodeId, topic: str, partition: int) -> int | None:
        return read_high_watermarks(self._data(node)).get((topic, partition))

    # -- CanReconfigure -----------------------------------------------------------------------------------------------

    async def set_topic_config(self, topic: str, settings: Mapping[str, str]) -> None:
        await self._observing().set_topic_config(topic, settings)

    async def elect(self, topic: str, partition: int, *, kind: Literal["preferred", "unclean"]) -> int:
        return await self._observing().elect(topic, partition, kind=kind)

    # -- within -------------------------------------------------------------------------------------------------------

    async def spawn_worker(self, arguments: Sequence[str], *, log: Path) -> asyncio.subprocess.Process:
        """A client process of the run, owned like its nodes."""
        return await self._spawner.spawn_worker(arguments, log=log)

    def _routes(self, addresses: AddressBlock, brokers: Sequence[NodeId]) -> list[Route]:
        routes = []
        for link in self.links():
            target = NodeId(int(link.target[1:]))
            if link.source.startswith("c"):
                client = ClientId(int(link.source[1:]))
                listen, port = addresses.client(client, target), addresses.client_port(client)
            else:
                listen, port = addresses.link(NodeId(int(link.source[1:])), target), addresses.internal_port
            routes.append(Route(link=str(link), listen=(listen, port), target=(addresses.node(target), port)))
        return routes

    async def _spawn(self, node: NodeId) -> asyncio.subprocess.Process:
        assert self._made is not None, "the cluster was started"
        process = await self._spawner.spawn(
            self._made.command(node), log=self._log(node), environment={"PYTHONPATH": os.pathsep.join(sys.path)}
        )
        self._processes[node] = process
        return process

    async def _listens(self, node: NodeId, port: int) -> None:
        host = self._running_addresses().node(node)

        async def accepts() -> bool:
            try:
                _, writer = await asyncio.open_connection(host, port)
            except OSError:
                return False
            writer.close()
            return True

        await self._until(accepts, f"{self._name(node)} listens on {host}:{port}", [node])

    async def _sees_controller(self, broker: NodeId) -> bool:
        await self._observing().look([])
        return self._observing().controller() == broker

    async def _all_registered(self, brokers: Sequence[NodeId]) -> bool:
        for broker in brokers:
            try:
                answer = await self._observing().metadata(broker, [])
            except (OSError, TimeoutError):
                return False
            if len(answer.brokers) < len(brokers):
                return False
        return True

    async def _until(self, holds: Callable[[], Awaitable[bool]], what: str, nodes: Sequence[NodeId]) -> None:
        """Polls until it holds. Raises HarnessError that names the log of a node that ended, or that took too long."""
        try:
            async with asyncio.timeout(_START_S):
                while not await holds():
                    for node in nodes:
                        process = self._processes.get(node)
                        if process is not None and process.returncode is not None:
                            raise HarnessError(
                                f"{self._name(node)} ended with code {process.returncode} while waiting until {what}; "
                                f"see {self._log(node)}"
                            )
                    await asyncio.sleep(_POLL_S)
        except TimeoutError:
            logs = " ".join(str(self._log(node)) for node in nodes)
            raise HarnessError(f"not within {_START_S:g} s: {what}; see {logs}") from None

    def _running_addresses(self) -> AddressBlock:
        if self._addresses is None:
            raise HarnessError("the cluster is not running")
        return self._addresses

    def _observing(self) -> Observation:
        assert self._observation is not None, "the cluster was started"
        return self._observation

    def _process(self, node: NodeId) -> asyncio.subprocess.Process:
        if not self.is_running(node):
            raise HarnessError(f"{self._name(node)} is not running")
        return self._processes[node]

    def _seen(self, sentence: str) -> Evidence:
        return Evidence(t_ns=self._clock.monotonic_ns(), sentence=sentence)

    def _name(self, node: NodeId) -> str:
        return "coordination service" if node == COORDINATION else f"broker {node}"

    def _node_folder(self, node: NodeId) -> Path:
        return self._run / "nodes" / str(node)

    def _data(self, node: NodeId) -> Path:
        return self._node_folder(node) / "data"

    def _log(self, node: NodeId) -> Path:
        return self._node_folder(node) / "log"


def _names(links: Sequence[Link]) -> str:
    names = " ".join(str(link).replace("n", "") for link in links)
    return f"link {names}" if len(links) == 1 else f"links {names}"
