"""The order in which Jepsen walks its graphs, which decides the cycle it reports: that of a hash trie.

Jepsen keeps operations in hash tries (bifurcan) keyed by Murmur3 of the operation's index. A trie node lists its own
entries by five bits of the hash, then its children; so the order follows from the set alone, not from how it was made.
"""

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import TypeVar

from harness.history.jepsen.clojure_order import clojure_hash, signed

_MASK = 0xFFFFFFFF
_BITS = 5
_T = TypeVar("_T")


@lru_cache(maxsize=1 << 16)
def signed_hash(number: int) -> int:
    """Clojure's hash of a long, as Java has it: a signed 32-bit integer."""
    return signed(clojure_hash(number))


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
    return in_trie_order(sorted(indices), signed_hash)


def components_in_order(components: Iterable[frozenset[int]]) -> list[frozenset[int]]:
    """Sets of operations in a set of their own: hashed by the sum of their members' hashes, cut to 32 bits."""

    def hashed(component: frozenset[int]) -> int:
        return signed(sum(signed_hash(index) for index in component) & _MASK)

    return in_trie_order(sorted(components, key=min), hashed)
