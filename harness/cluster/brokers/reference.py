"""How the reference cluster's nodes are configured and started: Kafka's own keys, a hosts file per node.

Nodes register and advertise names; each node's hosts file maps its peers' names to its own links, so that every link
is a forwarder's. Client listeners are advertised as the addresses of that client's links; the admin listener is the
node's real address, for the harness alone.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.cluster.local.addresses import AddressBlock
from harness.interfaces import COORDINATION, ClientId, NodeId
from harness.scenario import ClusterSpec

# Times in proportion to a test, not to a data centre: sessions of 2.5 s, lag of 3 s (replication.md 6).
TEST_SETTINGS: Mapping[str, str] = {
    "zookeeper.session.timeout.ms": "2500",
    "replica.lag.time.max.ms": "3000",
    "replica.fetch.wait.max.ms": "200",
    "replica.fetch.backoff.ms": "200",
    "replica.socket.timeout.ms": "3000",
    "replica.high.watermark.checkpoint.interval.ms": "500",
    "controller.socket.timeout.ms": "3000",
    "request.timeout.ms": "3000",
    "auto.leader.rebalance.enable": "false",
    "auto.create.topics.enable": "false",
    "default.replication.factor": "3",
    "log.segment.bytes": "16777216",
}
_TICK_MS = 500


def name_of(node: NodeId) -> str:
    return f"node{node}"


@dataclass(frozen=True, kw_only=True)
class ReferenceNodes:
    """Writes configurations below RUN/nodes and says how each node is started."""

    folder: Path  # RUN/nodes
    spec: ClusterSpec
    addresses: AddressBlock

    @property
    def brokers(self) -> list[NodeId]:
        return [NodeId(broker) for broker in self.spec.brokers]

    def node_folder(self, node: NodeId) -> Path:
        return self.folder / str(node)

    def data(self, node: NodeId) -> Path:
        return self.node_folder(node) / "data"

    def evidence(self, node: NodeId) -> Path:
        return self.node_folder(node) / "evidence"

    def log(self, node: NodeId) -> Path:
        return self.node_folder(node) / "log"

    def write(self) -> None:
        for node in [COORDINATION, *self.brokers]:
            config = self.node_folder(node) / "config"
            config.mkdir(parents=True, exist_ok=True)
            (config / "hosts").write_text(self._hosts(node), encoding="utf-8")
            if node == COORDINATION:
                _write_properties(config / "zoo.cfg", self._coordination())
            else:
                _write_properties(config / "server.properties", self._broker(node))

    def command(self, node: NodeId) -> Sequence[str]:
        config = self.node_folder(node) / "config"
        module = [sys.executable, "-m", "reference_impl"]
        if node == COORDINATION:
            return [*module, "coordination", "--config", str(config / "zoo.cfg")]
        return [*module, "broker", "--config", str(config / "server.properties"), "--hosts", str(config / "hosts")]

    def setting(self, key: str) -> str:
        return str(self.spec.settings.get(key, TEST_SETTINGS.get(key, "")))

    def _hosts(self, node: NodeId) -> str:
        lines = []
        for other in [COORDINATION, *self.brokers]:
            address = self.addresses.node(other) if other == node else self.addresses.link(node, other)
            lines.append(f"{address} {name_of(other)}")
        return "\n".join([*lines, ""])

    def _coordination(self) -> dict[str, str]:
        session_ms = int(self.setting("zookeeper.session.timeout.ms"))
        return {
            "clientPort": str(self.addresses.internal_port),
            "clientPortAddress": self.addresses.node(COORDINATION),
            "dataDir": str(self.data(COORDINATION)),
            "tickTime": str(_TICK_MS),
            "minSessionTimeout": str(min(session_ms, _TICK_MS * 2)),
            "maxSessionTimeout": str(max(session_ms, _TICK_MS * 20)),
        }

    def _broker(self, node: NodeId) -> dict[str, str]:
        at, addresses = self.addresses.node(node), self.addresses
        listeners = [f"INTERNAL://{at}:{addresses.internal_port}", f"ADMIN://{at}:{addresses.admin_port}"]
        advertised = [f"INTERNAL://{name_of(node)}:{addresses.internal_port}", f"ADMIN://{at}:{addresses.admin_port}"]
        for number in range(1, addresses.client_links + 1):
            client = ClientId(number)
            port = addresses.client_port(client)
            listeners.append(f"CLIENT{number}://{at}:{port}")
            advertised.append(f"CLIENT{number}://{addresses.client(client, node)}:{port}")
        own = {
            "broker.id": str(node),
            "listeners": ",".join(listeners),
            "advertised.listeners": ",".join(advertised),
            "inter.broker.listener.name": "INTERNAL",
            "log.dirs": str(self.data(node)),
            "zookeeper.connect": f"{name_of(COORDINATION)}:{addresses.internal_port}",
            "chaos.evidence.dir": str(self.evidence(node)),
        }
        flaws = {"chaos.flaws": ",".join(self.spec.flaws)} if self.spec.flaws else {}
        return {**TEST_SETTINGS, **self.spec.settings, **own, **flaws}


def _write_properties(path: Path, settings: Mapping[str, str]) -> None:
    path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()), encoding="utf-8")
