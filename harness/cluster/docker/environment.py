"""The nodes' environment in the container world: each node has an address, a volume and an image."""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from harness.cluster.brokers.system import NodeFolders
from harness.ports.cluster import ClientId, NodeId

PLACE = Path("/kafka-chaos")  # mount point of a node's volume in its containers
_INTERNAL_PORT, _CONTROLLER_PORT, _ADMIN_PORT = 9092, 9093, 9094
_FIRST_CLIENT_PORT = 9100


@dataclass(frozen=True, kw_only=True)
class DockerEnvironment:
    """Each node has its own network, so all use the same ports; packets are distinguished by address and port."""

    addresses: Mapping[NodeId, str]
    folders: Mapping[NodeId, Path]  # the volume as the harness sees it
    client_links: int
    disks: Mapping[NodeId, Path] = field(default_factory=dict)  # volumes of limited size for the data
    internal_port: int = _INTERNAL_PORT
    controller_port: int = _CONTROLLER_PORT
    admin_port: int = _ADMIN_PORT

    def client_port(self, client: ClientId) -> int:
        return _FIRST_CLIENT_PORT + client

    def listens_at(self, node: NodeId) -> str:
        return self.addresses[node]

    def reached_at(self, source: NodeId, target: NodeId) -> str:
        return self.addresses[target]

    def client_reaches(self, client: ClientId, target: NodeId) -> str:
        return self.addresses[target]

    def harness_reaches(self, target: NodeId) -> str:
        return self.addresses[target]

    def here(self, node: NodeId) -> NodeFolders:
        found = NodeFolders.below(self.folders[node])
        return replace(found, data=self.disks[node]) if node in self.disks else found

    def there(self, node: NodeId) -> NodeFolders:
        return NodeFolders.below(PLACE)

    def secret(self) -> str:
        return secrets.token_hex()

    def machine_name(self, node: NodeId) -> str:
        return f"machine{node}"

    def python(self) -> Sequence[str]:
        return ["python3"]

    def java(self) -> str:
        return "java"

    def jars(self, libs: Path) -> str:
        return "/opt/kafka/libs/*"
