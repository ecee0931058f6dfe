"""Kafka's producer snapshots: `<base offset>.snapshot` holds the state of producers, and of their transactions, where
that segment begins.

The producer state of existing batches is rebuilt from them at every start; the first segment's snapshot covers batches
that retention deleted. It has each producer's last batch only, so a repeat of an earlier batch is not recognised. The
files are not fsynced: a CRC detects one that a power loss damaged, and then less is known, never something wrong.
"""

import logging
import struct
from collections.abc import Iterable
from pathlib import Path

import crc32c

from reference_impl.core.producer_state import ProducerEntry

logger = logging.getLogger(__name__)

SNAPSHOT_SUFFIX = ".snapshot"
VERSION = 1

_START = struct.Struct(">hI")  # version, CRC-32C of everything after it
_COUNT = struct.Struct(">i")
_ENTRY = struct.Struct(">qhiqiqiq")  # the fields of a ProducerEntry


def write_snapshot(path: Path, entries: Iterable[ProducerEntry]) -> None:
    packed = [_ENTRY.pack(*entry) for entry in entries]
    body = b"".join((_COUNT.pack(len(packed)), *packed))
    path.write_bytes(_START.pack(VERSION, crc32c.crc32c(body)) + body)


def read_snapshot(path: Path) -> list[ProducerEntry]:
    """Returns nothing if the file is missing or invalid."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return []
    if len(data) < _START.size + _COUNT.size:
        logger.warning("%s: %d bytes are no snapshot; the producers in it are forgotten", path, len(data))
        return []
    version, crc = _START.unpack_from(data)
    body = data[_START.size :]
    (count,) = _COUNT.unpack_from(body)
    if version != VERSION or crc != crc32c.crc32c(body) or len(body) != _COUNT.size + count * _ENTRY.size:
        logger.warning("%s: version, CRC or length is wrong; the producers in it are forgotten", path)
        return []
    return [ProducerEntry(*fields) for fields in _ENTRY.iter_unpack(body[_COUNT.size :])]
