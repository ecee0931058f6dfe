"""Creates the containers that `docker compose up` would create for three reference brokers and a coordination service.

Compose itself is not needed: the containers have the labels that compose sets, which is all the harness uses.
"""

import json
import secrets
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from harness.cluster.attached.compose_project import FILES, FOLDER, PROJECT, SERVICE
from harness.cluster.brokers.reference import TEST_SETTINGS
from harness.cluster.docker.engine import Engine

DATA = "/var/lib/kafka"
_INTERNAL, _CLIENT, _COORDINATION = 9092, 9094, 2181
# Writes the node's configuration once, with the address that the network gave it, and becomes the node.
_ENTRY = """
import json, os, pathlib, socket, sys
role, settings, secret = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3]
place = pathlib.Path("/etc/kafka")
place.mkdir(exist_ok=True)
(place / "cluster-secret").touch(mode=0o600)
(place / "cluster-secret").write_text(secret)
address = socket.gethostbyname(socket.gethostname())
lines = [f"{key}={value}".replace("ADDRESS", address) for key, value in settings.items()]
(place / "settings").write_text("\\n".join(lines) + "\\n")
os.execvp("python3", ["python3", "-m", "reference_impl", role, "--config", str(place / "settings")])
"""
_COMPOSE = """\
services:
  zookeeper: { image: reference }
  node1: { image: reference }
  node2: { image: reference }
  node3: { image: reference }
"""


def _broker(number: int) -> dict[str, str]:
    return {
        **TEST_SETTINGS,
        "broker.id": str(number),
        "listeners": f"INTERNAL://0.0.0.0:{_INTERNAL},CLIENT://0.0.0.0:{_CLIENT}",
        "advertised.listeners": f"INTERNAL://node{number}:{_INTERNAL},CLIENT://ADDRESS:{_CLIENT}",
        "inter.broker.listener.name": "INTERNAL",
        "log.dirs": DATA,
        "zookeeper.connect": f"zookeeper:{_COORDINATION}",
        "chaos.cluster.secret.file": "/etc/kafka/cluster-secret",
    }


_ZOOKEEPER = {
    "clientPort": str(_COORDINATION),
    "clientPortAddress": "0.0.0.0",
    "dataDir": DATA,
    "tickTime": "500",
    "minSessionTimeout": "1000",
    "maxSessionTimeout": "10000",
}


@contextmanager
def compose_up(engine: Engine, image: str, folder: Path, *, project: str) -> Iterator[tuple[Path, str]]:
    """(the compose file, "host:port" of a broker). Everything is removed in the end."""
    file = folder / "compose.yaml"
    file.write_text(_COMPOSE, encoding="utf-8")
    with ExitStack() as made:
        network = engine.client.networks.create(f"{project}_default")
        made.callback(network.remove)
        services: Mapping[str, tuple[str, dict[str, str]]] = {
            "zookeeper": ("coordination", _ZOOKEEPER),
            **{f"node{number}": ("broker", _broker(number)) for number in (1, 2, 3)},
        }
        address, secret = "", secrets.token_hex()
        for service, (role, settings) in services.items():
            container = engine.client.containers.create(
                image,
                entrypoint=["python3", "-c", _ENTRY, role, json.dumps(settings), secret],
                command=[],
                name=f"{project}-{service}-1",
                hostname=service,
                labels={PROJECT: project, SERVICE: service, FILES: str(file), FOLDER: str(folder)},
                networking_config=engine.client.api.create_networking_config(
                    {network.name: engine.client.api.create_endpoint_config(aliases=[service])}
                ),
                network=network.name,
                mem_limit="300m",
            )
            made.callback(container.remove, force=True, v=True)
            container.start()
            container.reload()
            address = container.attrs["NetworkSettings"]["Networks"][network.name]["IPAddress"]
        yield file, f"{address}:{_CLIENT}"
