"""Formatted storage of a KRaft node: Kafka's tool formats once per version and feature set, and each node gets a copy.

A copy needs its own node.id and directory.id in meta.properties; the rest is the same for all nodes of a cluster. This
saves one JVM per node at each start.
"""

import asyncio
import base64
import hashlib
import os
import shutil
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.cluster.brokers.kafka_jars import KafkaHome
from harness.errors import HarnessError
from harness.host.java import java_home
from harness.host.scratch import scratch_folder
from harness.host.user_folders import made_in_cache
from harness.ports.cluster import NodeId

_FORMAT_S = 60.0
_META = "meta.properties"


async def formatted(home: KafkaHome, features: Mapping[str, str]) -> Path:
    """Returns a folder as `StorageTool format` leaves it. Raises HarnessError with the tool's output."""
    named = ",".join(f"{name}={level}" for name, level in sorted(features.items()))
    digest = hashlib.sha256(f"{home.libs}|{named}".encode()).hexdigest()[:12]
    kept = made_in_cache("formatted") / f"{home.version}-{digest}"
    if (kept / _META).is_file():
        return kept
    with scratch_folder(".making-", beside=kept.parent) as folder:
        await _format(home, features, folder)
        try:
            os.rename(folder / "data", kept)
        except OSError:
            if not (kept / _META).is_file():  # another run may have been first
                raise
    return kept


async def _format(home: KafkaHome, features: Mapping[str, str], folder: Path) -> None:
    properties = folder / "format.properties"
    settings = {
        "process.roles": "controller",
        "node.id": "100",
        "controller.quorum.voters": "100@node100:9093",
        "controller.listener.names": "CONTROLLER",
        "listeners": "CONTROLLER://:9093",
        "log.dirs": str(folder / "data"),
    }
    properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()), encoding="utf-8")
    command = [
        str(java_home() / "bin" / "java"),
        "-XX:TieredStopAtLevel=1",
        "-XX:+UseSerialGC",
        "-Xshare:auto",
        "-cp",
        f"{home.libs}/*",
        "kafka.tools.StorageTool",
        "format",
        "-t",
        _identity(_valid_uuid()),
        "-c",
        str(properties),
    ]
    for name, level in sorted(features.items()):
        command += ["--feature", f"{name}={level}"]
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT, stdin=asyncio.subprocess.DEVNULL
    )
    try:
        async with asyncio.timeout(_FORMAT_S):
            output, _ = await process.communicate()
    except BaseException:
        process.kill()
        await process.wait()
        raise
    if process.returncode or not (folder / "data" / _META).is_file():
        words = output.decode(errors="replace").strip().splitlines() or ["it said nothing"]
        raise HarnessError(f"Kafka {home.version} would not format its storage: {words[-1]}")


def give(node: NodeId, template: Path, data: Path) -> None:
    """Turns `data` into the storage of `node`, with a new directory id."""
    data.mkdir(parents=True, exist_ok=True)
    for path in template.iterdir():
        if path.name != _META:
            shutil.copy(path, data / path.name)
    properties = _properties(template / _META)
    properties["node.id"] = str(node)
    if "directory.id" in properties:
        properties["directory.id"] = _identity(_valid_uuid())
    text = "".join(f"{key}={value}\n" for key, value in properties.items())
    (data / _META).write_text(text, encoding="utf-8")


def _properties(path: Path) -> dict[str, str]:
    lines: Sequence[str] = path.read_text(encoding="utf-8").splitlines()
    pairs = (line.partition("=") for line in lines if line and not line.startswith("#"))
    return {key: value for key, _, value in pairs}


def _valid_uuid() -> uuid.UUID:
    """Kafka writes ids as base64url and rejects a leading dash, which looks like a command-line option."""
    while _identity(found := uuid.uuid4()).startswith("-"):
        continue
    return found


def _identity(value: uuid.UUID) -> str:
    return base64.urlsafe_b64encode(value.bytes).decode().rstrip("=")
