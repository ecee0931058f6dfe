"""Batches as a real client makes them."""

from collections.abc import Callable, Sequence

import pytest
from kafka.record import MemoryRecordsBuilder

from reference_impl.wire.record_batches import stamp

MakeBatch = Callable[..., bytes]


@pytest.fixture(scope="session")
def make_batch() -> MakeBatch:
    def make(
        base_offset: int = 0,
        *values: bytes,
        epoch: int = 0,
        timestamp: int = 1000,
        timestamps: Sequence[int] = (),
        compression: int = 0,
    ) -> bytes:
        """`timestamps`: one for each value, instead of one for all."""
        builder = MemoryRecordsBuilder(magic=2, compression_type=compression, batch_size=1 << 20)
        written = values or (b"value",)
        for value, time in zip(written, timestamps or [timestamp] * len(written), strict=True):
            builder.append(timestamp=time, key=None, value=value)
        builder.close()
        batch = bytearray(builder.buffer())
        stamp(batch, 0, base_offset, epoch)
        return bytes(batch)

    return make
