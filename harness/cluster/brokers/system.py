"""What differs between kinds of brokers, and what a world gives each node: where every world meets every kind.

A `System` says which nodes there are, in what order they start, how each is configured and called, and how its books
are read. A `Ground` says where a node listens, under which address its peers and clients reach it, and where its files
are, both as the harness sees them and as the node does.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from harness.clock import Anchor, Clock
from harness.cluster.observing import Observation
from harness.interfaces import ClientId, ClusterHistory, Node, NodeId, TopicDefinition


@dataclass(frozen=True, kw_only=True)
class NodeFolders:
    """One node's folders: `config` and `data` are given to its process; `evidence` and `log` are what it leaves."""

    config: Path
    data: Path
    evidence: Path
    log: Path

    @staticmethod
    def below(folder: Path) -> "NodeFolders":
        return NodeFolders(
            config=folder / "config", data=folder / "data", evidence=folder / "evidence", log=folder / "log"
        )


class Ground(Protocol):
    """What a world gives the nodes of one cluster; fixed before the first of them starts."""

    @property
    def client_links(self) -> int: ...

    @property
    def internal_port(self) -> int:
        """Of the inter-broker listener, and of the coordination service or a controller apart from the brokers."""
        ...

    @property
    def controller_port(self) -> int:
        """Of the controller's listener on a node that is a broker too."""
        ...

    @property
    def admin_port(self) -> int:
        """The harness's own listener, never cut."""
        ...

    def client_port(self, client: ClientId) -> int: ...

    def listens_at(self, node: NodeId) -> str:
        """The address that the node binds."""
        ...

    def reached_at(self, source: NodeId, target: NodeId) -> str:
        """The address under which `source` reaches `target`: the link's, where links are forwarders."""
        ...

    def client_reaches(self, client: ClientId, target: NodeId) -> str: ...

    def harness_reaches(self, target: NodeId) -> str: ...

    def here(self, node: NodeId) -> NodeFolders:
        """As the harness sees them; the configuration folder can be written before the node starts."""
        ...

    def there(self, node: NodeId) -> NodeFolders:
        """The same as the node's own process sees them."""
        ...

    def machine_name(self, node: NodeId) -> str:
        """What the node's machine calls itself; old brokers look that up, and a hosts file is all they have."""
        ...

    def python(self) -> Sequence[str]:
        """How a node calls Python with the reference broker importable."""
        ...

    def java(self) -> str:
        """How a node calls Java. Raises HarnessError when there is none."""
        ...

    def jars(self, libs: Path) -> str:
        """A class path of the jars in `libs`, a folder of this machine, as the node sees them."""
        ...


class System(Protocol):
    """One kind of broker cluster. Made from the scenario alone, so that the books of a past run can be read."""

    @property
    def title(self) -> str:
        """For people: "reference cluster", "Apache Kafka 4.3.1 (KRaft)"."""
        ...

    @property
    def nodes(self) -> Sequence[Node]: ...

    @property
    def stages(self) -> Sequence[Sequence[NodeId]]:
        """Nodes that start together, one group after the other; each group has to listen before the next starts."""
        ...

    @property
    def first_is_controller(self) -> bool:
        """The broker started first is to be the controller before the others start."""
        ...

    @property
    def has_one_listener(self) -> bool:
        """One listener for everybody, advertised by name: each client has to resolve the names in its own way."""
        ...

    @property
    def refuses_early_restarts(self) -> bool:
        """A broker that is started while its last session is still alive ends at once, and is to be started again."""
        ...

    def peer_ports(self, node: NodeId, ground: Ground) -> Sequence[int]:
        """Where a node listens for other nodes; the ports of the links that lead to it."""
        ...

    async def prepare(self, ground: Ground) -> None:
        """Writes every node's configuration, and formats what has to be formatted."""
        ...

    async def restore(self, node: NodeId, ground: Ground) -> None:
        """Makes an emptied data directory one that the node starts with."""
        ...

    def command(self, node: NodeId, ground: Ground) -> Sequence[str]: ...

    def topic_command(self, topic: TopicDefinition, ground: Ground) -> Sequence[str]:
        """What makes a topic where brokers cannot be asked to; empty where they can."""
        ...

    def observation(self, ground: Ground, *, is_running: Callable[[NodeId], bool], clock: Clock) -> Observation: ...

    def history(self, folders: Callable[[NodeId], NodeFolders], anchor: Anchor) -> ClusterHistory:
        """The system's own books, on the axis of `anchor`. Raises HarnessError where they were never begun."""
        ...

    def shown(self) -> Mapping[str, str]:
        """Versions and settings worth showing in a report."""
        ...


def hosts_of(node: NodeId, nodes: Sequence[Node], ground: Ground) -> str:
    """The hosts file of one node: every name, its own at its own address, its peers' at its links to them."""
    lines = []
    for other in nodes:
        address = ground.listens_at(node) if other.node == node else ground.reached_at(node, other.node)
        lines.append(f"{address} {host_name(other.node)}")
    return "\n".join([*lines, f"{ground.listens_at(node)} {ground.machine_name(node)}", ""])


def host_name(node: NodeId) -> str:
    return f"node{node}"


def write_properties(path: Path, settings: Mapping[str, str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()), encoding="utf-8")


def listeners_of(node: NodeId, ground: Ground) -> tuple[list[str], list[str]]:
    """(listeners, advertised.listeners): the brokers' own by name, one per client link, and the harness's.

    Clients are told the addresses of their own links, so that any client library works unchanged.
    """
    at = ground.listens_at(node)
    listeners = [f"INTERNAL://{at}:{ground.internal_port}", f"ADMIN://{at}:{ground.admin_port}"]
    advertised = [
        f"INTERNAL://{host_name(node)}:{ground.internal_port}",
        f"ADMIN://{ground.harness_reaches(node)}:{ground.admin_port}",
    ]
    for number in range(1, ground.client_links + 1):
        client = ClientId(number)
        port = ground.client_port(client)
        listeners.append(f"CLIENT{number}://{at}:{port}")
        advertised.append(f"CLIENT{number}://{ground.client_reaches(client, node)}:{port}")
    return listeners, advertised
