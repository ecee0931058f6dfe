"""The interface between systems (kinds of brokers) and worlds (where nodes run).

A `System` names the nodes, their start order, their configuration and command, and reads the system's own records. A
`NodeEnvironment` says where a node listens, at which address its peers and clients reach it, and where its files are,
both as the harness sees them and as the node does.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from harness.cluster.books.observing import Observation
from harness.host.clock import Anchor, Clock
from harness.ports.cluster import ClientId, ClusterHistory, Node, NodeId, TopicDefinition
from harness.scenario.model import ClusterSpec, Traits


@dataclass(frozen=True, kw_only=True)
class NodeFolders:
    """One node's folders: its process gets `config` and `data`, and writes `evidence` and `log`."""

    config: Path
    data: Path
    evidence: Path
    log: Path

    @staticmethod
    def below(folder: Path) -> "NodeFolders":
        return NodeFolders(
            config=folder / "config", data=folder / "data", evidence=folder / "evidence", log=folder / "log"
        )


class NodeEnvironment(Protocol):
    """What a world provides for the nodes of one cluster; fixed before the first of them starts."""

    @property
    def client_links(self) -> int: ...

    @property
    def internal_port(self) -> int:
        """The port of the inter-broker listener, or of the coordination service or a separate controller."""
        ...

    @property
    def controller_port(self) -> int:
        """The port of the controller's listener on a node that is also a broker."""
        ...

    @property
    def admin_port(self) -> int:
        """The port of the harness's own listener, which is never cut."""
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
        """The folders as the harness sees them; the configuration folder is writable before the node starts."""
        ...

    def there(self, node: NodeId) -> NodeFolders:
        """The same folders as the node's own process sees them."""
        ...

    def secret(self) -> str:
        """A new one, by which the nodes of this cluster know each other."""
        ...

    def machine_name(self, node: NodeId) -> str:
        """The host name of the node's machine; old brokers resolve it, and only with their hosts file."""
        ...

    def python(self) -> Sequence[str]:
        """The command of Python with the reference broker importable, on that node."""
        ...

    def java(self) -> str:
        """The command of Java on that node. Raises HarnessError if there is none."""
        ...

    def jars(self, libs: Path) -> str:
        """A class path of the jars in `libs`, a folder of this machine, as the node sees them."""
        ...


@runtime_checkable
class HasImage(Protocol):
    """A System whose nodes can be containers: of that image, which is pulled if it is not there."""

    @property
    def image(self) -> str: ...


@dataclass(frozen=True, kw_only=True)
class SystemKind:
    """A kind of brokers that an installed package adds, named NAME or NAME:VERSION (docs/extending.md).

    make: raises UsageError for a version or a layout that it does not know. traits: what scenarios may ask of it.
    lacks: what this machine has not got to run it, with the remedy; empty where nothing is missing. worlds: where it
    can run; in "docker" a System is a ReferenceSystem or a KafkaSystem, whose images are known, or HasImage.
    """

    name: str
    make: "Callable[[ClusterSpec], System]"
    traits: Callable[[ClusterSpec], Traits]
    lacks: Callable[[], str] = lambda: ""
    worlds: tuple[str, ...] = ("local",)


class System(Protocol):
    """One kind of broker cluster. Created from the scenario alone, so that the records of a past run can be read."""

    @property
    def title(self) -> str:
        """For people: "reference cluster", "Apache Kafka 4.3.1 (KRaft)"."""
        ...

    @property
    def nodes(self) -> Sequence[Node]: ...

    @property
    def stages(self) -> Sequence[Sequence[NodeId]]:
        """Groups of nodes that start together; each group must listen before the next one starts."""
        ...

    @property
    def first_is_controller(self) -> bool:
        """True if the first broker must become the controller before the others start."""
        ...

    @property
    def has_one_listener(self) -> bool:
        """True if brokers have one listener for everybody, advertised by name; then each client must resolve the names
        by itself."""
        ...

    @property
    def refuses_early_restarts(self) -> bool:
        """True if a broker exits when it is started while its last session is still alive, so that it must be started
        again."""
        ...

    def peer_ports(self, node: NodeId, environment: NodeEnvironment) -> Sequence[int]:
        """The ports where a node listens for other nodes: the ports of the links to it."""
        ...

    async def prepare(self, environment: NodeEnvironment) -> None:
        """Writes every node's configuration, and formats storage if needed."""
        ...

    async def restore(self, node: NodeId, environment: NodeEnvironment) -> None:
        """Turns an emptied data directory into one that the node can start with."""
        ...

    def command(self, node: NodeId, environment: NodeEnvironment) -> Sequence[str]: ...

    def topic_command(self, topic: TopicDefinition, environment: NodeEnvironment) -> Sequence[str]:
        """The command that creates a topic if brokers do not support the request; else empty."""
        ...

    def observation(
        self, environment: NodeEnvironment, *, is_running: Callable[[NodeId], bool], clock: Clock
    ) -> Observation: ...

    def history(self, folders: Callable[[NodeId], NodeFolders], anchor: Anchor) -> ClusterHistory:
        """The system's own records, on the time axis of `anchor`. Raises HarnessError if they were never begun."""
        ...

    def shown(self) -> Mapping[str, str]:
        """Versions and settings worth showing in a report."""
        ...


def hosts_of(node: NodeId, nodes: Sequence[Node], environment: NodeEnvironment) -> str:
    """The hosts file of one node: its own name at its own address, its peers' names at its links to them."""
    lines = []
    for other in nodes:
        address = environment.listens_at(node) if other.node == node else environment.reached_at(node, other.node)
        lines.append(f"{address} {host_name(other.node)}")
    return "\n".join([*lines, f"{environment.listens_at(node)} {environment.machine_name(node)}", ""])


def host_name(node: NodeId) -> str:
    return f"node{node}"


def write_properties(path: Path, settings: Mapping[str, str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()), encoding="utf-8")


def listeners_of(node: NodeId, environment: NodeEnvironment) -> tuple[list[str], list[str]]:
    """(listeners, advertised.listeners): the brokers' own listener by name, one per client link, and the harness's.

    Clients get the addresses of their own links, so any client library works unchanged.
    """
    at = environment.listens_at(node)
    listeners = [f"INTERNAL://{at}:{environment.internal_port}", f"ADMIN://{at}:{environment.admin_port}"]
    advertised = [
        f"INTERNAL://{host_name(node)}:{environment.internal_port}",
        f"ADMIN://{environment.harness_reaches(node)}:{environment.admin_port}",
    ]
    for number in range(1, environment.client_links + 1):
        client = ClientId(number)
        port = environment.client_port(client)
        listeners.append(f"CLIENT{number}://{at}:{port}")
        advertised.append(f"CLIENT{number}://{environment.client_reaches(client, node)}:{port}")
    return listeners, advertised
