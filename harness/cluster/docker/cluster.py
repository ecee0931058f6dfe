"""A cluster of containers: every node has a network and a disk of its own, which outlive its broker.

Partitions are packet rules in the nodes' networks, disks are named volumes. Everything created in the engine has the
run's labels; the next command's sweep removes what a killed harness left.
"""

import asyncio
import contextlib
import signal
import uuid
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Literal

from harness.cluster.base_cluster import BrokerCluster, after_refusals, link_names
from harness.cluster.brokers.system import NodeFolders, System
from harness.cluster.confined import folder_below
from harness.cluster.docker import file_export, images
from harness.cluster.docker.capabilities import Capabilities, probe
from harness.cluster.docker.engine import Engine, connect, engine_errors
from harness.cluster.docker.environment import PLACE, DockerEnvironment
from harness.cluster.docker.infra import make_network, start_infra
from harness.cluster.docker.labels import labels_of
from harness.cluster.docker.netem import flows_of, impair
from harness.cluster.docker.nodes import ContainerNode
from harness.cluster.docker.packet_rules import PacketRules, Places
from harness.cluster.docker.sweep import remove_run
from harness.cluster.docker.system_images import provide_image
from harness.cluster.last_words import LastWords
from harness.cluster.link_holders import LinkHolders
from harness.cluster.local.processes import Spawner
from harness.errors import HarnessError, in_a_line
from harness.host.clock import Clock
from harness.ports.capabilities import CanImpairPackets, Impairment, Place
from harness.ports.cluster import CanSlowLinks, ClientId, ClusterHistory, Evidence, Link, Node, NodeId, ReplicaLog
from harness.ports.coordinator_logs import CoordinatorLog
from harness.ports.faults import AlreadyDown

_MEMORY = "700m"


class DockerCluster(BrokerCluster):
    """Implements Cluster and the capabilities of harness.ports.cluster except the leak check: no connection can bypass
    the links."""

    start_timeout_s = 60.0

    def __init__(
        self,
        *,
        run_path: Path,
        system: System,
        client_links: int,
        clock: Clock,
        disk_bytes: int = 0,
        is_internal: bool = True,
    ) -> None:
        super().__init__(run_path=run_path, system=system, client_links=client_links, clock=clock)
        self._disk_bytes = disk_bytes
        self._is_internal = is_internal
        self._spawner = Spawner(run=self._run)
        self._engine: Engine | None = None
        self._nodes: dict[NodeId, ContainerNode] = {}
        self._rules: PacketRules | None = None
        self._places: Places | None = None
        self._capabilities: Capabilities | None = None
        self._impaired: dict[Link, Impairment] = {}
        self._impairments = LinkHolders[Impairment]()

    # -- Cluster ------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        environment = await asyncio.to_thread(self._make_nodes)
        self._environment = environment
        await self._system.prepare(environment)
        self._observation = self._system.observation(environment, is_running=self.is_running, clock=self._clock)
        await asyncio.to_thread(self._create_containers, environment)
        await self._start_in_stages()

    def _make_nodes(self) -> DockerEnvironment:
        """Creates network, infra containers and volumes. Everything has labels before anything can fail."""
        engine = self._engine = connect()
        image = images.provide(engine, images.infra_recipe())
        capabilities = self._capabilities = probe(engine, image, labels_of(self._run))
        if capabilities.packet_rules is not None:
            raise HarnessError(capabilities.packet_rules)
        prefix = f"kafka-chaos-{uuid.uuid4().hex[:8]}"
        network = make_network(prefix, labels_of(self._run), internal=self._is_internal)
        for node in self.nodes:
            name = f"{prefix}-{self._label(node)}"
            labels = labels_of(self._run, node=str(node.node))
            with engine_errors(f"making volume {name}"):
                volume = engine.client.volumes.create(name, labels=dict(labels))
            disk, disk_folder = self._make_disk(engine, name, labels) if self._disk_bytes else ("", None)
            volumes = [(name, str(PLACE)), *([(disk, f"{PLACE}/data")] if disk else [])]
            infra = start_infra(
                image,
                name=f"{name}-net",
                network=network,
                labels=labels,
                volumes=volumes,
                hostname=f"machine{node.node}",
            )
            copied = capabilities.volumes is not None
            folder = self._run / "nodes" / str(node.node) if copied else Path(volume.attrs["Mountpoint"]).resolve()
            made = ContainerNode(
                node=node.node,
                engine=engine,
                infra=infra,
                volume=name,
                folder=folder,
                copied=copied,
                entry=capabilities.entry,
                on_end=partial(self._has_ended, node.node),
                disk=disk,
                disk_folder=None if copied else disk_folder,
            )
            for part in ("config", "data", "evidence"):
                (folder / part).mkdir(parents=True, exist_ok=True)
            self._nodes[node.node] = made
        return DockerEnvironment(
            addresses={node: each.infra.address for node, each in self._nodes.items()},
            folders={node: each.folder for node, each in self._nodes.items()},
            disks={node: each.disk_folder for node, each in self._nodes.items() if each.disk_folder is not None},
            client_links=self._client_links,
        )

    def _make_disk(self, engine: Engine, name: str, labels: Mapping[str, str]) -> tuple[str, Path]:
        """Creates a volume in memory of limited size; returns (its name, its path on the engine's machine while in
        use)."""
        disk = f"{name}-disk"
        options = {"type": "tmpfs", "device": "tmpfs", "o": f"size={self._disk_bytes}"}
        with engine_errors(f"making volume {disk}"):
            made = engine.client.volumes.create(disk, driver="local", driver_opts=options, labels=dict(labels))
        return disk, Path(made.attrs["Mountpoint"]).resolve()

    def _create_containers(self, environment: DockerEnvironment) -> None:
        assert self._engine is not None, "the engine was reached"
        image = provide_image(self._engine, self._system)
        for node, each in self._nodes.items():
            each.create(
                image,
                self._system.command(node, environment),
                name=each.volume,
                labels=labels_of(self._run, node=str(node)),
                memory=_MEMORY,
            )
        clients = [ClientId(number) for number in range(1, self._client_links + 1)]
        self._places = Places(
            addresses=environment.addresses,
            peer_ports={node: self._system.peer_ports(node, environment) for node in self._nodes},
            client_ports={client: environment.client_port(client) for client in clients},
        )
        self._rules = PacketRules({node: each.namespace for node, each in self._nodes.items()}, self._places)

    async def stop(self) -> None:
        """Keeps the contents of the volumes, then removes everything that the run created in the engine."""
        for node in self._nodes:
            self._lives.to_end(node)
        if self._observation is not None:
            self._observation.close()
        if self._engine is not None:
            await asyncio.to_thread(self._remove, self._engine)
            self._engine = None
        self._environment = None

    def _remove(self, engine: Engine) -> None:
        try:
            for node, each in self._nodes.items():
                kept = self._run / "nodes" / str(node)
                try:
                    if each.is_running:
                        each.kill()
                    each.keep(kept)
                except (HarnessError, OSError) as error:  # what else was recorded is kept and judged all the same
                    file_export.note([f"all that is missing of its volume: {in_a_line(error)}\n"], kept)
        finally:
            self._nodes.clear()
            remove_run(engine, self._run)
            engine.close()

    def collect(self) -> ClusterHistory:
        for node in self._nodes.values():
            node.refresh()
        return super().collect()

    def environment(self) -> dict[str, str]:
        engine = self._engine.environment() if self._engine is not None else {}
        return {**super().environment(), **engine}

    # -- CanCrash, CanPause -------------------------------------------------------------------------------------------

    def is_running(self, node: NodeId) -> bool:
        made = self._nodes.get(node)
        return made is not None and made.is_running

    async def kill(self, node: NodeId) -> Evidence:
        if (down := await self._noted_down(node, "SIGKILL")) is not None:
            return down
        made = self._nodes[node]
        self._lives.to_end(node, by=signal.SIGKILL)
        seen = await asyncio.to_thread(made.kill)
        return self._down_already(node, "SIGKILL") or self._seen(f"{seen}: {self._name(node)} is gone")

    async def shut_down(self, node: NodeId) -> Evidence:
        if (down := await self._noted_down(node, "SIGTERM")) is not None:
            return down
        made = self._nodes[node]
        self._lives.to_end(node)
        seen, by_itself = await asyncio.to_thread(made.shut_down)
        if not by_itself:
            raise HarnessError(f"{self._name(node)} did not end by itself after SIGTERM; see {self._kept_log(node)}")
        return self._seen(f"{self._name(node)}: {seen}")

    async def start_node(self, node: NodeId) -> Evidence:
        if self.is_running(node):
            return self._seen(f"{self._name(node)} was running already")
        refused = await self._launch_and_wait(node)
        self._runs(node)
        return self._seen(f"{self._name(node)} runs in its container and listens{after_refusals(refused)}")

    async def _launch_all(self, nodes: Sequence[NodeId]) -> None:
        await asyncio.gather(*(self._launch(node) for node in nodes))  # a container takes its time

    async def _launch(self, node: NodeId) -> None:
        self._starts_logging(node)
        await asyncio.to_thread(self._nodes[node].start)

    async def pause(self, node: NodeId) -> Evidence:
        seen = await asyncio.to_thread(self._running(node).pause, on=True)
        await asyncio.to_thread(self._nodes[node].look)
        self._running(node)
        return self._seen(f"{self._name(node)}: {seen}")

    async def resume(self, node: NodeId) -> Evidence:
        if self.is_running(node):
            seen = await asyncio.to_thread(self._nodes[node].pause, on=False)
            await asyncio.to_thread(self._nodes[node].look)
            if self.is_running(node):
                return self._seen(f"{self._name(node)}: {seen}")
        return self._seen(f"{self._name(node)} is not running any more")

    async def _noted_down(self, node: NodeId, signal_name: str) -> Evidence | None:
        """The proof that it had ended by itself, whoever told of it so far. Raises HarnessError where it was ended."""
        if self.is_running(node):
            await asyncio.to_thread(self._nodes[node].look)
        down = self._down_already(node, signal_name)
        if down is None:
            self._running(node)
        return down

    # -- CanCutLinks, CanSlowLinks, CanImpairPackets ------------------------------------------------------------------

    def missing(self, need: type) -> str | None:
        """Netem depends on the kernel; known once the engine was probed."""
        assert self._capabilities is not None, "the cluster was started"
        return self._capabilities.netem if need in (CanSlowLinks, CanImpairPackets) else None

    async def _cut_links(self, links: Sequence[Link], *, mode: Literal["hang", "reset"]) -> Evidence:
        assert self._rules is not None, "the cluster was started"
        return self._seen(await self._rules.cut(links, mode=mode))

    async def _heal_links(self, links: Sequence[Link], *, mode: Literal["resume", "reset"]) -> Evidence:
        assert self._rules is not None, "the cluster was started"
        return self._seen(await self._rules.heal(links))

    async def _slow_links(self, links: Sequence[Link], *, delay_ms: float) -> Evidence:
        return await self._impair(links, Impairment(delay_ms=delay_ms))

    def faults_on(self, link: Link) -> int:
        return super().faults_on(link) + self._impairments.count(link)

    async def impair(self, links: Sequence[Link], impairment: Impairment) -> Evidence:
        """Delays, drops, duplicates or reorders packets; if several faults affect a link, the newest one applies."""
        if not impairment.nothing:
            self._impairments.hold(links, impairment)
            return await self._impair(links, impairment)
        after = self._impairments.release(links)
        kept = [link for link in links if after[link] is not None]
        freed = [link for link in links if after[link] is None]
        return self._held(kept, "impaired", [await self._impair(freed, impairment)] if freed else [])

    async def _impair(self, links: Sequence[Link], impairment: Impairment) -> Evidence:
        assert self._places is not None, "the cluster was started"
        lacking = self.missing(CanImpairPackets)
        if lacking is not None:
            raise HarnessError(lacking)
        self._impaired = {link: each for link, each in self._impaired.items() if link not in links}
        if not impairment.nothing:
            self._impaired |= dict.fromkeys(links, impairment)
        flows = flows_of(self._impaired, self._places)
        await asyncio.gather(
            *(asyncio.to_thread(impair, each.namespace, flows[node]) for node, each in self._nodes.items())
        )
        return self._seen(f"{link_names(links)} {impairment.described()}, as tc shows")

    # -- HasDisks -----------------------------------------------------------------------------------------------------

    async def wipe(self, node: NodeId) -> Evidence:
        if self.is_running(node):
            raise HarnessError(f"{self._name(node)} is running; kill it before its disk is wiped")
        made = self._nodes[node]
        with folder_below(self._top(node), self._folders(node).data):
            removed = await asyncio.to_thread(made.empty)
            await self._system.restore(node, self._running_environment())
        await asyncio.to_thread(made.send)
        sentence = f"data directory of {self._name(node)} is empty, {removed} bytes removed"
        return self._seen(sentence, node=node, extent="disk")

    def read_replicas(self, node: NodeId) -> Sequence[ReplicaLog]:
        self._refresh(node)
        return super().read_replicas(node)

    def read_coordinator_logs(self, node: NodeId) -> Sequence[CoordinatorLog]:
        self._refresh(node)
        return super().read_coordinator_logs(node)

    def log_end(self, node: NodeId, topic: str, partition: int) -> int | None:
        self._refresh(node)
        return super().log_end(node, topic, partition)

    def high_watermarks(self, node: NodeId) -> Mapping[tuple[str, int], int]:
        self._refresh(node)
        return super().high_watermarks(node)

    async def lose_tail(self, node: NodeId, topic: str, partition: int, *, records: int) -> Evidence:
        made = self._nodes[node]
        await asyncio.to_thread(made.refresh)
        seen = await super().lose_tail(node, topic, partition, records=records)
        await asyncio.to_thread(made.send)
        return seen

    async def damage(self, node: NodeId, topic: str, partition: int, *, at: Place) -> Evidence:
        made = self._nodes[node]
        if made.copied and self.is_running(node):
            raise HarnessError(f"{self._name(node)} runs on another machine's disk; kill it before that is damaged")
        await asyncio.to_thread(made.refresh)
        seen = await super().damage(node, topic, partition, at=at)
        await asyncio.to_thread(made.send)
        return seen

    # -- CanFillDisks -------------------------------------------------------------------------------------------------

    async def fill_disk(self, node: NodeId) -> Evidence:
        if not self._disk_bytes:
            raise HarnessError(f"the disk of {self._name(node)} has no limit; give [cluster] disk_bytes")
        taken = await asyncio.to_thread(self._nodes[node].fill)
        return self._seen(f"the disk of {self._name(node)} is full: 0 of {self._disk_bytes} bytes free, {taken} before")

    async def free_disk(self, node: NodeId) -> Evidence:
        free = await asyncio.to_thread(self._nodes[node].free)
        return self._seen(f"{free} bytes are free again on the disk of {self._name(node)}")

    # -- internal ---------------------------------------------------------------------------------------------------

    def _refresh(self, node: NodeId) -> None:
        if node in self._nodes:
            self._nodes[node].refresh()

    async def spawn_worker(self, arguments: Sequence[str], *, log: Path) -> asyncio.subprocess.Process:
        """Starts a client process of the run; it runs on this machine, like the harness."""
        return await self._spawner.spawn_worker(arguments, log=log)

    def _top(self, node: NodeId) -> Path:
        made = self._nodes.get(node)
        if made is None or made.copied:
            return super()._top(node)
        return made.disk_folder or made.folder

    def _folders(self, node: NodeId) -> NodeFolders:
        return self._nodes[node].folders() if node in self._nodes else super()._folders(node)

    def _ended(self, node: NodeId) -> str | None:
        return self._nodes[node].ended if node in self._nodes else None

    def _last_words(self, node: NodeId) -> LastWords:
        made = self._nodes[node]
        if made.ran_out_of_memory:
            line = f"it needed more than the {_MEMORY} of memory that its container has"
            return LastWords(reason="out-of-resources", line=line)
        with contextlib.suppress(HarnessError):  # then its log is not there, or not to its end
            made.refresh()
        return super()._last_words(node)

    def _running(self, node: NodeId) -> ContainerNode:
        if not self.is_running(node):
            kind = AlreadyDown if self._lives.is_down_by_itself(node) else HarnessError
            raise kind(f"{self._name(node)} is not running")
        return self._nodes[node]

    @staticmethod
    def _label(node: Node) -> str:
        return f"node{node.node}"
