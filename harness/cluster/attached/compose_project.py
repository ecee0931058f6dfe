"""Finds the containers that `docker compose up` created from a compose file, by compose's labels.

The file itself is not read: the labels contain the services and their containers.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.cluster.docker.engine import Engine, connect, engine_errors
from harness.cluster.docker.labels import NODE
from harness.errors import UsageError
from harness.ports.cluster import NodeId
from harness.scenario.model import ClusterSpec
from harness.values import is_number

PREFIX = "compose:"
PROJECT, SERVICE = "com.docker.compose.project", "com.docker.compose.service"
FILES, FOLDER = "com.docker.compose.project.config_files", "com.docker.compose.project.working_dir"
_NODE_NAME = re.compile(r"(?:node|kafka|broker)[-_]?([0-9]{1,10})")


def file_of(spec: ClusterSpec) -> Path:
    """Raises UsageError if the compose file does not exist."""
    path = Path(spec.system.removeprefix(PREFIX))
    if not path.is_file():
        raise UsageError(f"--system {spec.system}: no such file; write compose:PATH of a compose file")
    return path.resolve()


def find(spec: ClusterSpec) -> tuple[Engine, dict[NodeId, Any]]:
    """Returns the engine and each node's container. Raises UsageError if compose has not created them or a node is
    ambiguous."""
    file = file_of(spec)
    engine = connect()
    with engine_errors("looking for the containers of the compose file"):
        containers = engine.client.containers.list(all=True, filters={"label": [PROJECT, SERVICE]})
    own = [container for container in containers if file in files_of(container.labels)]
    projects = sorted({container.labels[PROJECT] for container in own})
    wanted = spec.attached.project
    if wanted:
        own = [container for container in own if container.labels[PROJECT] == wanted]
    elif len(projects) > 1:
        raise UsageError(
            f"{file}: compose made several projects of it ({', '.join(projects)}); name one: project in [attached]"
        )
    if not own:
        named = f" in project {wanted}" if wanted else ""
        raise UsageError(f"{file}: compose has made no containers of it{named}; first `docker compose -f {file} up -d`")
    return engine, nodes_of(own, spec.attached.services)


def published(containers: Iterable[Any]) -> str:
    """The ports of this machine that lead to them, "host:port,host:port". Raises UsageError if there are none."""
    places = []
    for container in containers:
        for bindings in (container.attrs["NetworkSettings"]["Ports"] or {}).values():
            for binding in bindings or ():
                host = binding["HostIp"]
                places.append(f"{'127.0.0.1' if host in ('', '0.0.0.0', '::') else host}:{binding['HostPort']}")
    if not places:
        raise UsageError("the compose file publishes no port of its brokers; give --bootstrap HOST:PORT")
    return ",".join(dict.fromkeys(places))


def files_of(labels: Mapping[str, str]) -> list[Path]:
    """Of any project of the engine: one whose labels name no place has none."""
    folder = Path(labels.get(FOLDER, "/"))
    try:
        return [(folder / name.strip()).resolve() for name in labels.get(FILES, "").split(",") if name.strip()]
    except (OSError, RuntimeError, ValueError):
        return []


def nodes_of(containers: Sequence[Any], services: Mapping[str, str]) -> dict[NodeId, Any]:
    """Maps services to nodes: by the scenario's table, else by the containers' labels, else by the services' names."""
    by_service: dict[str, list[Any]] = {}
    for container in containers:
        by_service.setdefault(container.labels[SERVICE], []).append(container)
    chosen: dict[NodeId, list[str]] = {}
    for service in sorted(by_service):
        label = by_service[service][0].labels.get(NODE, "")
        name = _NODE_NAME.fullmatch(service)
        if not services and (is_number(label) or name is not None):
            chosen.setdefault(NodeId(int(label if is_number(label) else name[1] if name else "")), []).append(service)
    for number, service in services.items():
        if not is_number(number) or service not in by_service:
            raise UsageError(
                f"[attached] services: {number} = {service!r}; write a broker id and a service, one of "
                f"{', '.join(sorted(by_service))}"
            )
        chosen.setdefault(NodeId(int(number)), []).append(service)
    found: dict[NodeId, Any] = {}
    for node, names in sorted(chosen.items()):
        made = [container for name in names for container in by_service[name]]
        if len(made) != 1:
            what = f"services {' and '.join(names)}" if len(names) > 1 else f"{len(made)} containers of {names[0]}"
            raise UsageError(f"node {node} would be {what}; say which in [attached] services")
        found[node] = made[0]
    if not found:
        raise UsageError(
            f"no service is named as a node (node1, kafka1, broker1): {', '.join(sorted(by_service))}; "
            'say which is which: services = { 1 = "..." } in [attached]'
        )
    return found
