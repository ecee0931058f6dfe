"""What an operation of Jepsen's Kafka workload sent and polled: the groups of records in the :value of its event.

A group is the records of one key in one micro-operation. What has another form is an error with its place.
"""

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

from harness.errors import HarnessError, UsageError
from harness.history.jepsen.clojure_order import map_order
from harness.history.jepsen.edn_reader import Keyword, written
from harness.history.jepsen.imported import KIND_STRAY_POLL, KIND_STRAY_SEND
from harness.history.schema.schemas import KIND_POLL, KIND_SEND

NO_OFFSET = -(1 << 62)  # smaller than any valid offset
Pairs: TypeAlias = Sequence[tuple[int, Any]]  # (offset or NO_OFFSET, value)
Group: TypeAlias = tuple[int, int, Any, Pairs]  # kind, place of the micro-operation, key, pairs

WITH_RECORDS = ("txn", "send", "poll")
SENDS = (KIND_SEND, KIND_STRAY_SEND)
REMEDY = "Jepsen's Kafka histories are wanted (jepsen.tests.kafka)"
_SEND, _POLL = Keyword("send"), Keyword("poll")
_BIG = 1 << 62


def groups_of(place: str, function: str, value: Any) -> Iterator[Group]:
    """The groups of an operation's :value. function: one of WITH_RECORDS."""
    for micro_operation, micro in enumerate(elements_of(place, value, ":value")):
        name, *rest = elements_of(place, micro, "a micro-operation") or [None]
        if name == _SEND and len(rest) == 2:
            pair = rest[1] if isinstance(rest[1], list) else [None, rest[1]]
            offset, sent = (*pair, None, None)[:2]
            kind = KIND_SEND if function != "poll" else KIND_STRAY_SEND
            yield kind, micro_operation, rest[0], ((_offset(place, offset), sent),)
        elif name == _POLL and len(rest) <= 1:
            kind = KIND_POLL if function != "send" else KIND_STRAY_POLL
            yield from _polled(place, kind, micro_operation, rest[0] if rest else None)
        else:
            raise UsageError(f"{place}: {written(micro)[:60]} is neither a [:send k v] nor a [:poll]: {REMEDY}")


def _polled(place: str, kind: int, micro_operation: int, polled: Any) -> Iterator[Group]:
    if polled is None:
        return
    if not isinstance(polled, dict):
        raise UsageError(f"{place}: {written(polled)[:60]} is no map of what a poll read: {REMEDY}")
    for key in map_order(polled):
        pairs = elements_of(place, polled[key], "the pairs of a poll")
        for pair in pairs:
            if not isinstance(pair, list) or len(pair) != 2:
                raise UsageError(f"{place}: {written(pair)[:60]} is no [offset value] of a poll: {REMEDY}")
        yield kind, micro_operation, key, [(_offset(place, offset), value) for offset, value in pairs]


def _offset(place: str, offset: Any) -> int:
    return NO_OFFSET if offset is None or offset is False else whole(place, offset, "an offset")


def whole(place: str, value: Any, what: str) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and -_BIG < value < _BIG:
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        raise HarnessError(f"{place}: {what} is {written(value)[:60]}, more than 62 bits: {REMEDY}")
    raise UsageError(f"{place}: {what} is {written(value)[:60]}, not a whole number: {REMEDY}")


def elements_of(place: str, value: Any, what: str) -> Sequence[Any]:
    if value is None:
        return ()
    if isinstance(value, (list, tuple)):
        return value
    raise UsageError(f"{place}: {what} is {written(value)[:60]}, not a vector: {REMEDY}")
