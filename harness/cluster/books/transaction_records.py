"""Decodes a record of __transaction_state: a transactional id, its producer and the state of its transaction (KIP-98).

Ending a transaction is decided by the record in PrepareCommit or PrepareAbort. A record in CompleteCommit or
CompleteAbort follows once the markers are in all its partitions.
"""

from collections.abc import Mapping

from harness.cluster.books.record_fields import Fields, UndecodableError
from harness.history.schema.internal_rows import TransactionState
from harness.ports.coordinator_logs import TransactionRecord

_STATES: Mapping[int, TransactionState] = {
    0: "Empty",
    1: "Ongoing",
    2: "PrepareCommit",
    3: "PrepareAbort",
    4: "CompleteCommit",
    5: "CompleteAbort",
    6: "Dead",
    7: "PrepareEpochFence",
}
_NO_TIME = -1
UNKNOWN = TransactionRecord(transactional_id=None)


def decode(key: bytes | None, value: bytes | None) -> TransactionRecord:
    """Key version 0; value version 0, or 1, which is flexible (KIP-890)."""
    try:
        fields = Fields(key or b"", flexible=False)
        if fields.int16() != 0:
            return UNKNOWN
        transactional_id = fields.string()
        if value is None:
            return TransactionRecord(transactional_id=transactional_id, removed=True)
        return _value(transactional_id, value)
    except UndecodableError:
        return UNKNOWN


def _value(transactional_id: str, value: bytes) -> TransactionRecord:
    version = Fields(value, flexible=False).int16()
    if version > 1:
        return TransactionRecord(transactional_id=transactional_id)
    fields = Fields(value, 2, flexible=version == 1)
    producer_id, producer_epoch, timeout_ms = fields.int64(), fields.int16(), fields.int32()
    state = _STATES.get(fields.int8())

    def partitions() -> tuple[tuple[str, int], ...]:
        topic, numbers = fields.string(), fields.ids()
        fields.tagged()
        return tuple((topic, number) for number in numbers)

    places = tuple(place for topic in fields.array(partitions) for place in topic)
    fields.int64()  # when it was written
    begun_ms = fields.int64()
    return TransactionRecord(
        transactional_id=transactional_id,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        state=state,
        timeout_ms=timeout_ms,
        begun_wall_ms=None if begun_ms == _NO_TIME else begun_ms,
        partitions=places,
    )
