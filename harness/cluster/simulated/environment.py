"""The nodes' environment in the simulated world: an address for each node, and one for each link to it."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from harness.cluster.brokers.system import NodeFolders
from harness.errors import HarnessError
from harness.ports.cluster import ClientId, Link, NodeId

_FIRST_CLIENT_PORT = 9100


@dataclass(frozen=True, kw_only=True)
class SimulatedEnvironment:
    """10.0.0.N is node N; 10.0.A.N is N as node A reaches it, and 10.1.C.N as client C does. The nodes work in the
    run's folder and name their own by it, so that nothing they write tells where it lies."""

    nodes_folder: Path  # RUN/nodes
    client_links: int
    chance: Random
    internal_port: int = 9092
    controller_port: int = 9093
    admin_port: int = 9094

    def client_port(self, client: ClientId) -> int:
        return _FIRST_CLIENT_PORT + client

    def listens_at(self, node: NodeId) -> str:
        return f"10.0.0.{node + 1}"

    def reached_at(self, source: NodeId, target: NodeId) -> str:
        return f"10.0.{source + 1}.{target + 1}"

    def client_reaches(self, client: ClientId, target: NodeId) -> str:
        return f"10.1.{client}.{target + 1}"

    def address_of(self, link: Link) -> str:
        if link.source is not None:
            return self.reached_at(link.source, link.target)
        assert link.client is not None, "a link without a source is a client's"
        return self.client_reaches(link.client, link.target)

    def harness_reaches(self, target: NodeId) -> str:
        return self.listens_at(target)

    def here(self, node: NodeId) -> NodeFolders:
        return NodeFolders.below(self.nodes_folder / str(node))

    def there(self, node: NodeId) -> NodeFolders:
        return NodeFolders.below(Path(self.nodes_folder.name) / str(node))

    def secret(self) -> str:
        return self.chance.randbytes(32).hex()

    def machine_name(self, node: NodeId) -> str:
        return f"machine{node}"

    def python(self) -> Sequence[str]:
        return [sys.executable]

    def java(self) -> str:
        raise HarnessError("nothing of Java runs in the simulated world; use --world local")

    def jars(self, libs: Path) -> str:
        raise HarnessError("nothing of Java runs in the simulated world; use --world local")
