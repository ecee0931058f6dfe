"""Transaction markers: control batches of one record that says how a producer's transaction ended in a partition.

The record's key has a version and a type (0 aborts, 1 commits), its value a version and the coordinator's epoch.
"""

import struct
from typing import NamedTuple

from reference_impl.wire.compression import UnreadableRecords
from reference_impl.wire.key_values import KeyValue, Producer, key_value_batch, records_of
from reference_impl.wire.record_batches import Buffer, read_header

_KEY = struct.Struct(">hh")
_VALUE = struct.Struct(">hi")
_VERSION = 0
_ABORT, _COMMIT = 0, 1


class Marker(NamedTuple):
    is_commit: bool
    coordinator_epoch: int


def marker_batch(producer_id: int, producer_epoch: int, marker: Marker, timestamp_ms: int) -> bytearray:
    """Returns one batch with base offset 0 and no leader epoch: the log stamps both."""
    record = KeyValue(
        _KEY.pack(_VERSION, _COMMIT if marker.is_commit else _ABORT), _VALUE.pack(_VERSION, marker.coordinator_epoch)
    )
    return key_value_batch([record], timestamp_ms, Producer(producer_id, producer_epoch, is_control=True))


def read_marker(batch: Buffer) -> Marker | None:
    """Returns None for a control batch of another kind, which ends no transaction; what cannot be read is none."""
    header = read_header(batch, 0)
    try:
        record = next(records_of(bytes(batch), header), None)
    except UnreadableRecords:
        return None
    if not header.is_control or record is None or len(record.key or b"") < _KEY.size:
        return None
    kind = _KEY.unpack_from(record.key or b"")[1]
    if kind not in (_ABORT, _COMMIT) or len(record.value or b"") < _VALUE.size:
        return None
    return Marker(is_commit=kind == _COMMIT, coordinator_epoch=_VALUE.unpack_from(record.value or b"")[1])
