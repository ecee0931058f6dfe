"""Kafka's checkpoint files: a version, a count, then one entry per line. A file is replaced as a whole.

In the log directory: replication-offset-checkpoint and recovery-point-offset-checkpoint ("topic partition offset"). In
each partition's folder: leader-epoch-checkpoint ("epoch startOffset").
"""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from reference_impl.core.identifiers import TopicPartition

VERSION = 0


class CorruptCheckpoint(ValueError):
    """A checkpoint file is invalid; the message says where and why."""

    def __init__(self, path: Path, line: int, reason: str) -> None:
        super().__init__(f"{path}:{line}: {reason}")
        self.path = path


def write_atomically(path: Path, text: str, *, sync: bool, sync_name: bool = True) -> None:
    """Replaces a file so that readers find the old text or the new one. With `sync` the new text survives a power loss
    once this returns; without `sync_name` only once the folder is synced as well."""
    temporary = path.with_name(path.name + ".tmp")
    with temporary.open("w", encoding="utf-8") as file:
        file.write(text)
        if sync:
            file.flush()
            os.fsync(file.fileno())
    temporary.replace(path)
    if sync and sync_name:
        sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Makes created, renamed and removed names in the folder survive a power loss."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_offsets(path: Path, offsets: Mapping[TopicPartition, int], *, sync: bool = True) -> None:
    lines = (f"{key.topic} {key.partition} {offset}" for key, offset in sorted(offsets.items()))
    _write(path, lines, sync=sync)


def read_offsets(path: Path) -> dict[TopicPartition, int]:
    """Returns nothing if the file does not exist; raises CorruptCheckpoint."""
    offsets = {}
    for number, fields in _read(path, field_count=3):
        offsets[TopicPartition(fields[0], _integer(path, number, fields[1]))] = _integer(path, number, fields[2])
    return offsets


def write_epochs(path: Path, entries: Iterable[tuple[int, int]], *, sync: bool) -> None:
    _write(path, (f"{epoch} {start_offset}" for epoch, start_offset in entries), sync=sync)


def read_epochs(path: Path) -> list[tuple[int, int]]:
    """Returns nothing if the file does not exist; raises CorruptCheckpoint."""
    entries = []
    for number, (epoch, start_offset) in _read(path, field_count=2):
        entry = (_integer(path, number, epoch), _integer(path, number, start_offset))
        if min(entry) < 0:
            raise CorruptCheckpoint(path, number, "neither epoch nor offset may be negative")
        entries.append(entry)
    return entries


def _write(path: Path, lines: Iterable[str], *, sync: bool) -> None:
    entries = list(lines)
    write_atomically(path, "\n".join([str(VERSION), str(len(entries)), *entries, ""]), sync=sync)


def _read(path: Path, *, field_count: int) -> list[tuple[int, list[str]]]:
    """(line number, fields) of each entry."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []
    except UnicodeDecodeError as error:
        raise CorruptCheckpoint(path, 1, "not a text file") from error
    if len(lines) < 2:
        raise CorruptCheckpoint(path, len(lines) + 1, "version and count are missing")
    if _integer(path, 1, lines[0]) != VERSION:
        raise CorruptCheckpoint(path, 1, f"version {lines[0]} is unknown")
    count = _integer(path, 2, lines[1])
    entries = [(number, line.split()) for number, line in enumerate(lines[2:], start=3) if line.strip()]
    if len(entries) != count:
        raise CorruptCheckpoint(path, 2, f"{count} entries expected, {len(entries)} found")
    for number, fields in entries:
        if len(fields) != field_count:
            raise CorruptCheckpoint(path, number, f"{field_count} fields expected, {len(fields)} found")
    return entries


def _integer(path: Path, number: int, text: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise CorruptCheckpoint(path, number, f"{text!r} is not a number") from error
