"""The order in which Jepsen walks its graphs, which decides the cycle it reports: that of a hash trie.

Jepsen keeps operations in hash tries (bifurcan) keyed by Murmur3 of the operation's index. A trie node lists its own
entries by five bits of the hash, then its children; so the order follows from the set alone, not from how it was made.
"""

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import TypeVar

_MASK = 0xFFFFFFFF
_BITS = 5
_T = TypeVar("_T")


def _rotated(number: int, by: int) -> int:
    return ((number << by) | (number >> (32 - by))) & _MASK


def _mixed(block: int, into: int) -> int:
    block = _rotated(block * 0xCC9E2D51 & _MASK, 15) * 0x1B873593 & _MASK
    return (_rotated(into ^ block, 13) * 5 + 0xE6546B64) & _MASK


@lru_cache(maxsize=1 << 16)
def murmur3(number: int) -> int:
    """Clojure's hash of a long, as a signed 32-bit integer."""
    if number == 0:
        return 0
    hashed = _mixed((number >> 32) & _MASK, _mixed(number & _MASK, 0)) ^ 8
    hashed = (hashed ^ (hashed >> 16)) * 0x85EBCA6B & _MASK
    hashed = (hashed ^ (hashed >> 13)) * 0xC2B2AE35 & _MASK
    hashed ^= hashed >> 16
    return hashed - (1 << 32) if hashed >> 31 else hashed


def _spread(signed: int) -> int:
    """What the trie makes of a hash before it uses its bits."""
    hashed = ((signed >> 32) ^ signed) & _MASK
    hashed ^= (hashed >> 20) ^ (hashed >> 12)
    return hashed ^ (hashed >> 7) ^ (hashed >> 4)


def _walk(items: list[tuple[int, _T]], shift: int) -> list[_T]:
    if shift > 32:  # the same hash throughout: as they came
        return [item for _, item in items]
    slots: dict[int, list[tuple[int, _T]]] = {}
    for entry in items:
        slots.setdefault((entry[0] >> shift) & 31, []).append(entry)
    ordered = sorted(slots.items())
    found = [entries[0][1] for _, entries in ordered if len(entries) == 1]
    for _, entries in ordered:
        if len(entries) > 1:
            found += _walk(entries, shift + _BITS)
    return found


def in_trie_order(items: Iterable[_T], hash_of: Callable[[_T], int]) -> list[_T]:
    return _walk([(_spread(hash_of(item)), item) for item in items], 0)


def operations_in_order(indices: Iterable[int]) -> list[int]:
    return in_trie_order(sorted(indices), murmur3)


def components_in_order(components: Iterable[frozenset[int]]) -> list[frozenset[int]]:
    """Sets of operations in a set of their own: hashed by the sum of their members' hashes, cut to 32 bits."""

    def hashed(component: frozenset[int]) -> int:
        total = sum(murmur3(index) for index in component) & _MASK
        return total - (1 << 32) if total >> 31 else total

    return in_trie_order(sorted(components, key=min), hashed)


def murmur3_digits(key: int) -> tuple[int, ...]:
    """What Clojure's own hash maps are ordered by: five bits of the hash at a time, entries and children alike."""
    hashed = murmur3(key) & _MASK
    return tuple((hashed >> shift) & 31 for shift in range(0, 35, _BITS))
