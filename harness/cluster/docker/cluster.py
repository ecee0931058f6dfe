"""A cluster as containers: every node has a network and a disk of its own, which outlive its broker.

Partitions are packet rules in the nodes' networks, disks are named volumes. Everything made in the engine bears the
run's labels; what a killed harness leaves behind goes with the next command's sweep.
"""

import asyncio
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from harness.clock import Clock
from harness.cluster.brokers.catalogue import system_of
from harness.cluster.brokers.kafka import KafkaSystem
from harness.cluster.brokers.system import NodeFolders
from harness.cluster.docker import images
from harness.cluster.docker.capabilities import Capabilities, probe
from harness.cluster.docker.engine import Engine, connect, engine_errors
from harness.cluster.docker.ground import PLACE, DockerGround
from harness.cluster.docker.infra import make_network, start_infra
from harness.cluster.docker.labels import labels_of
from harness.cluster.docker.netem import Impairment, flows_of, impair
from harness.cluster.docker.nodes import ContainerNode
from harness.cluster.docker.packet_rules import PacketRules
from harness.cluster.docker.rules import Places
from harness.cluster.docker.sweep import remove_run
from harness.cluster.local.processes import Spawner
from harness.cluster.running import BrokerCluster, link_names
from harness.errors import HarnessError
from harness.interfaces import ClientId, ClusterHistory, Evidence, Link, Node, NodeId, ReplicaLog
from harness.scenario import ClusterSpec

_MEMORY = "700m"


class DockerCluster(BrokerCluster):
    """Implements Cluster and the capabilities of harness.interfaces but the leak check: no link can be passed by."""

    start_timeout_s = 60.0

    def __init__(self, *, run_path: Path, spec: ClusterSpec, client_links: int, clock: Clock) -> None:
        super().__init__(run_path=run_path, system=system_of(spec), client_links=client_links, clock=clock)
        self._spawner = Spawner(run=self._run)
        self._engine: Engine | None = None
        self._nodes: dict[NodeId, ContainerNode] = {}
        self._rules: PacketRules | None = None
        self._places: Places | None = None
        self._capabilities: Capabilities | None = None
        self._impaired: dict[Link, Impairment] = {}

    # -- Cluster ------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        ground = await asyncio.to_thread(self._make_nodes)
        self._ground = ground
        await self._system.prepare(ground)
        self._observation = self._system.observation(ground, is_running=self.is_running, clock=self._clock)
        await asyncio.to_thread(self._create_containers, ground)
        for number, stage in enumerate(self._system.stages):
            await asyncio.gather(*(asyncio.to_thread(self._nodes[node].start) for node in stage))
            for node in stage:
                await self._listens(node)
            if number == 1 and self._system.first_is_controller:
                await self._becomes_controller(stage[0])
        await self._all_registered()

    def _make_nodes(self) -> DockerGround:
        """Network, infra containers and volumes. Everything is labelled before anything can go wrong."""
        engine = self._engine = connect()
        image = images.provide(engine, images.infra_recipe())
        capabilities = self._capabilities = probe(engine, image, labels_of(self._run))
        if capabilities.packet_rules is not None:
            raise HarnessError(capabilities.packet_rules)
        prefix = f"kafka-chaos-{uuid.uuid4().hex[:8]}"
        network = make_network(prefix, labels_of(self._run))
        for node in self.nodes:
            name = f"{prefix}-{self._label(node)}"
            labels = labels_of(self._run, node=str(node.node))
            with engine_errors(f"making volume {name}"):
                volume = engine.client.volumes.create(name, labels=dict(labels))
            infra = start_infra(
                image, name=f"{name}-net", network=network, labels=labels, volumes=[(name, str(PLACE))],
                hostname=f"machine{node.node}",
            )  # fmt: skip
            copied = capabilities.volumes is not None
            folder = self._run / "nodes" / str(node.node) if copied else Path(volume.attrs["Mountpoint"])
            made = ContainerNode(
                node=node.node, engine=engine, infra=infra, volume=name, folder=folder, copied=copied,
                entry=capabilities.entry,
            )  # fmt: skip
            for part in ("config", "data", "evidence"):
                (folder / part).mkdir(parents=True, exist_ok=True)
            self._nodes[node.node] = made
        return DockerGround(
            addresses={node: each.infra.address for node, each in self._nodes.items()},
            folders={node: each.folder for node, each in self._nodes.items()},
            client_links=self._client_links,
        )

    def _create_containers(self, ground: DockerGround) -> None:
        assert self._engine is not None, "the engine was reached"
        recipe = (
            images.kafka_recipe(self._system.home.libs)
            if isinstance(self._system, KafkaSystem)
            else images.reference_recipe()
        )
        image = images.provide(self._engine, recipe)
        for node, each in self._nodes.items():
            each.create(
                image,
                self._system.command(node, ground),
                name=each.volume,
                labels=labels_of(self._run, node=str(node)),
                memory=_MEMORY,
            )
        clients = [ClientId(number) for number in range(1, self._client_links + 1)]
        self._places = Places(
            addresses=ground.addresses,
            peer_ports={node: self._system.peer_ports(node, ground) for node in self._nodes},
            client_ports={client: ground.client_port(client) for client in clients},
        )
        self._rules = PacketRules({node: each.namespace for node, each in self._nodes.items()}, self._places)

    async def stop(self) -> None:
        """Keeps what the volumes hold, then removes all that the run made in the engine."""
        if self._observation is not None:
            self._observation.close()
        if self._engine is not None:
            await asyncio.to_thread(self._remove, self._engine)
            self._engine = None
        self._ground = None

    def _remove(self, engine: Engine) -> None:
        try:
            for node, each in self._nodes.items():
                if each.is_running:
                    each.kill()
                each.keep(self._run / "nodes" / str(node))
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
        seen = await asyncio.to_thread(self._running(node).kill)
        return self._seen(f"{seen}: {self._name(node)} is gone")

    async def shut_down(self, node: NodeId) -> Evidence:
        seen, by_itself = await asyncio.to_thread(self._running(node).shut_down)
        if not by_itself:
            raise HarnessError(f"{self._name(node)} did not end by itself after SIGTERM; see {self._folders(node).log}")
        return self._seen(f"{self._name(node)}: {seen}")

    async def start_node(self, node: NodeId) -> Evidence:
        if self.is_running(node):
            return self._seen(f"{self._name(node)} was running already")
        await asyncio.to_thread(self._nodes[node].start)
        await self._listens(node)
        return self._seen(f"{self._name(node)} runs in its container and listens")

    async def pause(self, node: NodeId) -> Evidence:
        seen = await asyncio.to_thread(self._running(node).pause, on=True)
        return self._seen(f"{self._name(node)}: {seen}")

    async def resume(self, node: NodeId) -> Evidence:
        if not self.is_running(node):
            return self._seen(f"{self._name(node)} is not running any more")
        seen = await asyncio.to_thread(self._running(node).pause, on=False)
        return self._seen(f"{self._name(node)}: {seen}")

    # -- CanCutLinks, CanSlowLinks ------------------------------------------------------------------------------------

    async def cut(self, links: Sequence[Link], *, mode: Literal["hang", "reset"] = "hang") -> Evidence:
        assert self._rules is not None, "the cluster was started"
        return self._seen(await self._rules.cut(links, mode=mode))

    async def heal(self, links: Sequence[Link], *, mode: Literal["resume", "reset"] = "resume") -> Evidence:
        assert self._rules is not None, "the cluster was started"
        return self._seen(await self._rules.heal(links))

    async def slow(self, links: Sequence[Link], *, delay_ms: float) -> Evidence:
        assert self._capabilities is not None, "the cluster was started"
        if self._capabilities.netem is not None:
            raise HarnessError(self._capabilities.netem)
        await self.impair(links, Impairment(delay_ms=delay_ms))
        what = f"delay every packet by {delay_ms:g} ms" if delay_ms else "pass without delay again"
        return self._seen(f"{link_names(links)} {what}")

    async def impair(self, links: Sequence[Link], impairment: Impairment) -> None:
        """Delay, loss, duplication and reordering of the links' packets; an empty impairment ends it."""
        assert self._places is not None, "the cluster was started"
        self._impaired = {link: each for link, each in self._impaired.items() if link not in links}
        if not impairment.nothing:
            self._impaired |= dict.fromkeys(links, impairment)
        flows = flows_of(self._impaired, self._places)
        await asyncio.gather(
            *(asyncio.to_thread(impair, each.namespace, flows[node]) for node, each in self._nodes.items())
        )

    # -- HasDisks -----------------------------------------------------------------------------------------------------

    async def wipe(self, node: NodeId) -> Evidence:
        if self.is_running(node):
            raise HarnessError(f"{self._name(node)} is running; kill it before its disk is wiped")
        made = self._nodes[node]
        removed = await asyncio.to_thread(made.empty)
        await self._system.restore(node, self._running_ground())
        await asyncio.to_thread(made.send)
        return self._seen(f"data directory of {self._name(node)} is empty, {removed} bytes removed")

    def read_replicas(self, node: NodeId) -> Sequence[ReplicaLog]:
        self._refresh(node)
        return super().read_replicas(node)

    def log_end(self, node: NodeId, topic: str, partition: int) -> int | None:
        self._refresh(node)
        return super().log_end(node, topic, partition)

    def high_watermark(self, node: NodeId, topic: str, partition: int) -> int | None:
        self._refresh(node)
        return super().high_watermark(node, topic, partition)

    async def lose_tail(self, node: NodeId, topic: str, partition: int, *, records: int) -> Evidence:
        made = self._nodes[node]
        await asyncio.to_thread(made.refresh)
        seen = await super().lose_tail(node, topic, partition, records=records)
        await asyncio.to_thread(made.send)
        return seen

    def _refresh(self, node: NodeId) -> None:
        if node in self._nodes:
            self._nodes[node].refresh()

    # -- within -------------------------------------------------------------------------------------------------------

    async def spawn_worker(self, arguments: Sequence[str], *, log: Path) -> asyncio.subprocess.Process:
        """A client process of the run; it lives on this machine, beside the harness."""
        return await self._spawner.spawn_worker(arguments, log=log)

    def _folders(self, node: NodeId) -> NodeFolders:
        return self._nodes[node].folders() if node in self._nodes else super()._folders(node)

    def _ended(self, node: NodeId) -> str | None:
        return self._nodes[node].ended if node in self._nodes else None

    def _running(self, node: NodeId) -> ContainerNode:
        if not self.is_running(node):
            raise HarnessError(f"{self._name(node)} is not running")
        return self._nodes[node]

    @staticmethod
    def _label(node: Node) -> str:
        return f"node{node.node}"
