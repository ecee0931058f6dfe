"""The containers that own the nodes' networks, and the bridge between them.

They are created with testcontainers, but without its reaper, which would be another image to pull: the sweep finds what
a killed harness left by its labels (sweep.py).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from docker.models.containers import Container
from testcontainers.core.config import testcontainers_config
from testcontainers.core.container import DockerContainer
from testcontainers.core.network import Network

from harness.cluster.docker.engine import engine_errors
from harness.errors import HarnessError

testcontainers_config.ryuk_disabled = True


@dataclass(frozen=True, kw_only=True)
class Infra:
    """A running infra container. Its address stays as long as it runs, whatever happens to the broker."""

    container: Container
    address: str

    @property
    def network_mode(self) -> str:
        """The value with which a broker's container joins this network."""
        return f"container:{self.container.id}"


def make_network(name: str, labels: Mapping[str, str], *, internal: bool = True) -> Network:
    """Creates a bridge that this machine reaches and that, if `internal`, leads nowhere else; the engine selects the
    subnet."""
    network = Network(docker_network_kw={"labels": dict(labels), "internal": internal})
    network.name = name
    with engine_errors(f"making network {name}"):
        return network.create()


def start_infra(
    image: str,
    *,
    name: str,
    network: Network | None,
    labels: Mapping[str, str],
    hostname: str | None = None,
    volumes: Sequence[tuple[str, str]] = (),
) -> Infra:
    """`network` None: loopback only. `volumes`: (named volume, mount point)."""
    options: dict[str, Any] = {"cap_add": ["NET_ADMIN"], "labels": dict(labels), "hostname": hostname}
    if network is None:
        options["network_mode"] = "none"
    wanted = DockerContainer(image).with_name(name).with_kwargs(**options)
    for volume, place in volumes:
        wanted = wanted.with_volume_mapping(volume, place, "rw")
    if network is not None:
        wanted = wanted.with_network(network)
    with engine_errors(f"starting infra container {name}"):
        wanted.start()
        container = wanted.get_wrapped_container()
        container.reload()
    if network is None:
        return Infra(container=container, address="127.0.0.1")
    address = container.attrs["NetworkSettings"]["Networks"][network.name]["IPAddress"]
    if not address:
        raise HarnessError(f"infra container {name} has no address in {network.name}; see `docker logs {name}`")
    return Infra(container=container, address=str(address))
