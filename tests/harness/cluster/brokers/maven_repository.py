"""A Maven repository in a folder, which Maven's settings name as the mirror, and a cache as a download leaves it."""

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from harness.cluster.brokers.kafka_versions import KafkaVersion, Module
from harness.cluster.brokers.pins import pins_file
from harness.errors import HarnessError

Lines = list[str]


def publish_kafka(root: Path, version: KafkaVersion) -> Path:
    """A repository that holds a version of Kafka, two empty jars, as the mirror of whoever has its home below root."""
    folder = root / "mirror"
    clients = Module(group="org.apache.kafka", name="kafka-clients", version=version.version)
    _publish(folder, clients)
    _publish(folder, Module(group="org.apache.kafka", name=version.artifact, version=version.version), needs=clients)
    name_mirror(root / "home", folder.as_uri())
    return folder


def name_mirror(home: Path, address: str) -> None:
    (home / ".m2").mkdir(parents=True)
    mirror = f"<mirror><mirrorOf>central</mirrorOf><url>{address}</url></mirror>"
    (home / ".m2" / "settings.xml").write_text(f"<settings><mirrors>{mirror}</mirrors></settings>")


def jar_in(mirror: Path, name: str) -> Path:
    return next(mirror.rglob(name))


def put(cache: Path, version: KafkaVersion) -> Path:
    """A version in the cache, as a fetch leaves it, with jars that hold nothing."""
    folder = cache / version.version
    folder.mkdir(parents=True)
    jars = []
    for name in version.needed_jars():
        (folder / name).write_bytes(b"jar")
        jars.append({"name": name, "bytes": 3, "sha256": hashlib.sha256(b"jar").hexdigest()})
    (folder / "manifest.json").write_text(json.dumps({"version": version.version, "jars": jars}))
    return folder


def give_pins(version: KafkaVersion, pins: Mapping[str, str]) -> None:
    path = pins_file(version)
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(["# of a test\n", *(f"{sha256}  {name}\n" for name, sha256 in pins.items())]))


def refused(action: Callable[[], object]) -> str:
    """The one-line message of an action that must be refused."""
    with pytest.raises(HarnessError) as caught:
        action()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def _publish(repository: Path, module: Module, *, needs: Module | None = None) -> None:
    folder = repository / module.group.replace(".", "/") / module.name / module.version
    folder.mkdir(parents=True)
    dependency = "" if needs is None else f"<dependency>{_coordinates(needs)}<scope>compile</scope></dependency>"
    dependencies = f"<dependencies>{dependency}</dependencies>"
    _write_with_checksum(
        folder / f"{module.name}-{module.version}.pom",
        f"<project><modelVersion>4.0.0</modelVersion>{_coordinates(module)}{dependencies}</project>",
    )
    _write_with_checksum(folder / module.jar, f"the jar of {module}")


def _coordinates(module: Module) -> str:
    return f"<groupId>{module.group}</groupId><artifactId>{module.name}</artifactId><version>{module.version}</version>"


def _write_with_checksum(path: Path, text: str) -> None:
    path.write_text(text)
    path.with_name(path.name + ".sha1").write_text(hashlib.sha1(text.encode()).hexdigest())
