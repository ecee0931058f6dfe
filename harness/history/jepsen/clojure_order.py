"""The iteration order of Clojure's hash sets and hash maps.

Jepsen keeps one of several values at an offset, and lists keys, "in set order": the order of Clojure's hash of the
value, five bits at a time from the lowest. The same order here makes the same choice, in every run.
"""

from collections.abc import Hashable, Iterable, Sequence
from typing import Any, TypeVar

import numpy as np

from harness.history.jepsen.edn_reader import Keyword, Symbol

_MASK = 0xFFFFFFFF
_GOLDEN_RATIO = 0x9E3779B9
_BITS, _LEVELS = 5, 7  # five bits per level; of 32 bits the last level has two
# Clojure keeps maps of up to this many entries in insertion order.
ARRAY_MAP_MAX = 8

Item = TypeVar("Item", bound=Hashable)


def set_order(value: Any) -> int:
    """A sort key for the order of a Clojure hash set (equal for elements of the same hash)."""
    left, order = clojure_hash(value), 0
    for _ in range(_LEVELS):
        order = order << _BITS | left & 31
        left >>= _BITS
    return order


def set_orders(values: Sequence[Any]) -> list[int]:
    """`set_order` of each element; plain integers, which most histories have only, are computed in bulk."""
    if all(type(value) is int and -(1 << 63) <= value < 1 << 63 for value in values):
        return [int(order) for order in set_orders_of_numbers(np.array(values, np.int64).view(np.uint64))]
    return [set_order(value) for value in values]


def map_order(keys: Iterable[Item]) -> list[Item]:
    """Distinct keys in the order of a Clojure map after inserting them one after the other."""
    distinct = list(dict.fromkeys(keys))
    return distinct if len(distinct) <= ARRAY_MAP_MAX else sorted(distinct, key=set_order)


def clojure_hash(value: Any) -> int:
    """Clojure's `hash` as an unsigned 32-bit integer, for the types of keys and values."""
    match value:
        case None:
            return 0
        case bool():
            return 1231 if value else 1237
        case int() if -(1 << 63) <= value < 1 << 63:
            return _hash_long(value)
        case Keyword():
            return (_hash_symbol(value.namespace, value.name) + _GOLDEN_RATIO) & _MASK
        case Symbol():
            return _hash_symbol(value.namespace, value.name)
        case str():
            return _hash_int(_java_string_hash(value))
        case _:
            # Nobody uses these types as values of a Kafka history; any fixed order is fine.
            return _hash_int(_java_string_hash(repr(value)))


def signed(number: int) -> int:
    """A hash as Java has it: a signed 32-bit integer."""
    return number - (1 << 32) if number >> 31 else number


def _hash_symbol(namespace: str | None, name: str) -> int:
    return _hash_combine(_hash_characters(name), _java_string_hash(namespace or ""))


def _hash_combine(seed: int, other: int) -> int:
    return seed ^ (other + _GOLDEN_RATIO + (signed(seed) << 6) + (signed(seed) >> 2)) & _MASK


def _units(text: str) -> memoryview:
    """The UTF-16 units, which Java calls characters."""
    return memoryview(text.encode("utf-16-le")).cast("H")


def _java_string_hash(text: str) -> int:
    found = 0
    for unit in _units(text):
        found = (31 * found + unit) & _MASK
    return found


def _rotated(number: int, places: int) -> int:
    return (number << places | number >> 32 - places) & _MASK


def _mixed_key(key: int) -> int:
    return _rotated(key * 0xCC9E2D51 & _MASK, 15) * 0x1B873593 & _MASK


def _mixed(found: int, key: int) -> int:
    return (_rotated(found ^ _mixed_key(key), 13) * 5 + 0xE6546B64) & _MASK


def _finished(found: int, length: int) -> int:
    found ^= length
    found = (found ^ found >> 16) * 0x85EBCA6B & _MASK
    found = (found ^ found >> 13) * 0xC2B2AE35 & _MASK
    return found ^ found >> 16


def _hash_long(number: int) -> int:
    if number == 0:
        return 0
    return _finished(_mixed(_mixed(0, number & _MASK), number >> 32 & _MASK), 8)


def _hash_int(number: int) -> int:
    return _finished(_mixed(0, number), 4) if number else 0


def _hash_characters(text: str) -> int:
    units, found = _units(text), 0
    for place in range(1, len(units), 2):
        found = _mixed(found, units[place - 1] | units[place] << 16)
    if len(units) & 1:
        found ^= _mixed_key(units[-1])
    return _finished(found, 2 * len(units))


def set_orders_of_numbers(numbers: "np.ndarray[Any, np.dtype[np.uint64]]") -> "np.ndarray[Any, np.dtype[np.uint64]]":
    """`set_order` of integer columns. 64 bits hold every product of two 32-bit numbers; the mask removes the rest."""
    mask = np.uint64(_MASK)

    def rotated(column: Any, places: int) -> Any:
        return (column << np.uint64(places) | column >> np.uint64(32 - places)) & mask

    def times(column: Any, factor: int) -> Any:
        return column * np.uint64(factor) & mask

    def mixed(found: Any, key: Any) -> Any:
        key = times(rotated(times(key, 0xCC9E2D51), 15), 0x1B873593)
        return (times(rotated(found ^ key, 13), 5) + np.uint64(0xE6546B64)) & mask

    found = mixed(mixed(np.zeros_like(numbers), numbers & mask), numbers >> np.uint64(32)) ^ np.uint64(8)
    found = times(found ^ found >> np.uint64(16), 0x85EBCA6B)
    found = times(found ^ found >> np.uint64(13), 0xC2B2AE35)
    found = np.where(numbers == 0, np.uint64(0), found ^ found >> np.uint64(16))
    order = np.zeros_like(numbers)
    for level in range(_LEVELS):
        order = order << np.uint64(_BITS) | found >> np.uint64(_BITS * level) & np.uint64(31)
    return order
