"""The nodes' environment in the local world: loopback addresses of the run's block, and shared folders."""

import secrets
import socket
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.cluster.brokers.system import NodeFolders
from harness.cluster.local.addresses import AddressBlock
from harness.ports.cluster import ClientId, NodeId


@dataclass(frozen=True, kw_only=True)
class LocalEnvironment:
    addresses: AddressBlock
    nodes_folder: Path  # RUN/nodes
    one_listener: bool = False  # one listener for everybody, as in brokers before KIP-103

    @property
    def client_links(self) -> int:
        return self.addresses.client_links

    @property
    def internal_port(self) -> int:
        return self.addresses.internal_port

    @property
    def controller_port(self) -> int:
        return self.addresses.controller_port

    @property
    def admin_port(self) -> int:
        return self.internal_port if self.one_listener else self.addresses.admin_port

    def client_port(self, client: ClientId) -> int:
        return self.internal_port if self.one_listener else self.addresses.client_port(client)

    def listens_at(self, node: NodeId) -> str:
        return self.addresses.node(node)

    def reached_at(self, source: NodeId, target: NodeId) -> str:
        return self.addresses.link(source, target)

    def client_reaches(self, client: ClientId, target: NodeId) -> str:
        return self.addresses.client(client, target)

    def harness_reaches(self, target: NodeId) -> str:
        return self.addresses.node(target)

    def here(self, node: NodeId) -> NodeFolders:
        return NodeFolders.below(self.nodes_folder / str(node))

    def there(self, node: NodeId) -> NodeFolders:
        return self.here(node)

    def secret(self) -> str:
        return secrets.token_hex()

    def machine_name(self, node: NodeId) -> str:
        return socket.gethostname()

    def python(self) -> Sequence[str]:
        return [sys.executable]

    def java(self) -> str:
        from harness.host.java import java_home

        return str(java_home() / "bin" / "java")

    def jars(self, libs: Path) -> str:
        return f"{libs}/*"
