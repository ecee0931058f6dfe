"""A record's value in three forms: bytes on the wire, text in journals and reports, an integer in the tables.

The workload's values are `p3-000123`, padded with dots to the configured length: producer 3, sequence 123, and as an
integer `3 << 40 | 123`. Any other text (a probe's `r0`, a foreign history's value) gets an integer from 2**62 upward,
in order of first occurrence; the table `value_names` stores the mapping.

A processor's output is named after its input: `orders-0-17/12.3` is the output for offset 17 of orders/0, the third
record of process 12. A record processed again, after an abort, has another value for the same input.
"""

import re
from collections.abc import Iterable, Mapping

SEQUENCE_BITS = 40
NAMED_FROM = 1 << 62
PRODUCER_MAX = (NAMED_FROM >> SEQUENCE_BITS) - 1
SHOWN_MAX = 120
_SEQUENCE_MASK = (1 << SEQUENCE_BITS) - 1
# Six digits or more: other paddings would be a second text for the same integer.
_OWN = re.compile(rb"p(0|[1-9][0-9]{0,6})-([0-9]{6}|[1-9][0-9]{6,12})\.*")


def number(producer: int, sequence: int) -> int:
    assert 0 <= producer <= PRODUCER_MAX, producer
    assert 0 <= sequence <= _SEQUENCE_MASK, sequence
    return producer << SEQUENCE_BITS | sequence


def encode(producer: int, sequence: int, value_bytes: int = 0) -> bytes:
    """The bytes that a producer of the workload sends."""
    return (b"p%d-%06d" % (producer, sequence)).ljust(value_bytes, b".")


def decode(value: bytes) -> int | None:
    """The integer of a value of the workload; None for any other value."""
    match = _OWN.fullmatch(value)
    if match is None:
        return None
    producer, sequence = int(match[1]), int(match[2])
    if producer > PRODUCER_MAX or sequence > _SEQUENCE_MASK:
        return None
    return producer << SEQUENCE_BITS | sequence


def encode_output(topic: str, partition: int, offset: int, *, process: int, count: int) -> bytes:
    """A processor's output for the input record at an offset: its `count`-th record."""
    return f"{topic}-{partition}-{offset}/{process}.{count}".encode()


def text_of_bytes(value: bytes) -> str:
    """The text of a foreign value; bytes that are not UTF-8 are escaped."""
    return value.decode("utf-8", errors="backslashreplace")


def text(value: int, names: Mapping[int, str] | None = None) -> str:
    """The text of an integer value, without padding; `names` is the table `value_names`."""
    if names and value in names:
        return names[value]
    return f"p{value >> SEQUENCE_BITS}-{value & _SEQUENCE_MASK:06d}"


def shown(value: int, names: Mapping[int, str]) -> str:
    """The text for people, cut where it is long; whole it is in the run folder."""
    whole = text(value, names)
    return whole if len(whole) <= SHOWN_MAX else f"{whole[:SHOWN_MAX]}… ({len(whole)} characters)"


class ValueNames:
    """Assigns integers to foreign texts. The same text has the same integer everywhere in a run."""

    def __init__(self, known: Iterable[tuple[int, str]] = ()) -> None:
        self._numbers = {name: value for value, name in known}

    def number_of_text(self, name: str) -> int:
        return self._numbers.setdefault(name, NAMED_FROM + len(self._numbers))

    def number(self, value: bytes) -> int:
        own = decode(value)
        return own if own is not None else self.number_of_text(text_of_bytes(value))

    def items(self) -> list[tuple[int, str]]:
        """(value, text) in order of assignment."""
        return [(value, name) for name, value in self._numbers.items()]
