"""The owners of a log directory and of a partition's folder: meta.properties and partition.metadata.

The directory id distinguishes a disk from its replacement (KIP-858). A directory without a readable meta.properties
gets a new id, which tells the controller that its former contents are lost.
"""

import base64
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from reference_impl.storage.checkpoints import write_atomically
from reference_impl.storage.disk import StorageError

META_PROPERTIES = "meta.properties"
PARTITION_METADATA = "partition.metadata"
_VERSION = "0"  # the version with broker.id; version 1 has node.id and belongs to KRaft


def uuid_to_text(value: uuid.UUID) -> str:
    """Formats a UUID as Kafka does: URL-safe base64 without padding, 22 characters."""
    return base64.urlsafe_b64encode(value.bytes).decode().rstrip("=")


def uuid_from_text(text: str) -> uuid.UUID:
    return uuid.UUID(bytes=base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))


@dataclass(frozen=True, kw_only=True)
class MetaProperties:
    broker_id: int
    directory_id: uuid.UUID
    cluster_id: str | None = None

    def with_cluster(self, cluster_id: str) -> "MetaProperties":
        return replace(self, cluster_id=cluster_id)


def read_meta_properties(folder: Path) -> MetaProperties | None:
    """Returns None if the file is missing or invalid: nothing is known of this disk then."""
    values = _read_pairs(folder / META_PROPERTIES, "=")
    try:
        return MetaProperties(
            broker_id=int(values["broker.id"]),
            directory_id=uuid_from_text(values["directory.id"]),
            cluster_id=values.get("cluster.id"),
        )
    except (KeyError, ValueError):
        return None


def write_meta_properties(folder: Path, properties: MetaProperties) -> None:
    lines = [f"version={_VERSION}", f"broker.id={properties.broker_id}"]
    if properties.cluster_id is not None:
        lines.append(f"cluster.id={properties.cluster_id}")
    lines.append(f"directory.id={uuid_to_text(properties.directory_id)}")
    write_atomically(folder / META_PROPERTIES, "\n".join([*lines, ""]), sync=True)


def read_or_make_meta_properties(
    folder: Path, *, broker_id: int, new_id: Callable[[], uuid.UUID]
) -> tuple[MetaProperties, bool]:
    """Returns (the properties, True if they were created). Raises StorageError if the directory is another broker's."""
    found = read_meta_properties(folder)
    if found is None:
        made = MetaProperties(broker_id=broker_id, directory_id=new_id())
        write_meta_properties(folder, made)
        return made, True
    if found.broker_id != broker_id:
        raise StorageError(
            f"{folder / META_PROPERTIES}: broker.id is {found.broker_id}, this is broker {broker_id};"
            " correct log.dirs, or remove the directory if its data may go"
        )
    return found, False


def read_topic_id(folder: Path) -> uuid.UUID | None:
    """Returns None if the folder has no readable topic id."""
    try:
        return uuid_from_text(_read_pairs(folder / PARTITION_METADATA, ":")["topic_id"])
    except (KeyError, ValueError):
        return None


def write_topic_id(folder: Path, topic_id: uuid.UUID, *, sync_name: bool = True) -> None:
    text = f"version: {_VERSION}\ntopic_id: {uuid_to_text(topic_id)}\n"
    write_atomically(folder / PARTITION_METADATA, text, sync=True, sync_name=sync_name)


def _read_pairs(path: Path, separator: str) -> dict[str, str]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (FileNotFoundError, UnicodeDecodeError):
        return {}
    pairs = (line.partition(separator) for line in lines if separator in line and not line.startswith("#"))
    return {name.strip(): value.strip() for name, _, value in pairs}
