"""Replicas' folders for tests: segments of batches built by Kafka's own record builder."""

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

from kafka.record import MemoryRecordsBuilder


def batch(base: int, values: Sequence[bytes], *, epoch: int = 0) -> bytes:
    builder = MemoryRecordsBuilder(magic=2, compression_type=0, batch_size=1 << 20)
    for value in values:
        builder.append(timestamp=1, key=None, value=value)
    builder.close()
    made = bytearray(builder.buffer())
    struct.pack_into(">q", made, 0, base)
    struct.pack_into(">i", made, 12, epoch)  # neither is under the checksum
    return bytes(made)


def replica_folder(data: Path, segments: Mapping[int, bytes], *, name: str = "orders-0") -> Path:
    folder = data / name
    folder.mkdir(parents=True)
    for base, content in segments.items():
        (folder / f"{base:020}.log").write_bytes(content)
    return folder
