"""Gives the collections of aiokafka whose order hangs on addresses an order of their own: that of arrival.

A set of objects without a hash of their own, or of tuples with None in them (before Python 3.12), is walked in the
order of their addresses, which differs from one process to the next. So would the broker that is asked next. The
library is as it is installed: two of its collections, and one of its answers, are replaced in one instance.
"""

from collections.abc import Iterator, MutableSet
from typing import Any, TypeVar

_Member = TypeVar("_Member")


class InOrder(MutableSet[_Member]):
    """A set that is walked in the order in which its members came."""

    def __init__(self) -> None:
        self._members: dict[_Member, None] = {}

    def __contains__(self, member: object) -> bool:
        return member in self._members

    def __iter__(self) -> Iterator[_Member]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)

    def add(self, value: _Member) -> None:
        self._members[value] = None

    def discard(self, value: _Member) -> None:
        self._members.pop(value, None)


def keep_order(client: Any, accumulator: Any = None) -> None:
    """`client`: an AIOKafkaClient before it is started. `accumulator`: of its producer."""
    cluster = client.cluster
    _hand_over(cluster, "_listeners")

    def brokers() -> list[Any]:
        known = cluster._brokers or cluster._bootstrap_brokers
        return sorted(known.values(), key=lambda broker: str(broker.nodeId))

    cluster.brokers = brokers
    if accumulator is not None:
        _hand_over(accumulator, "_pending_batches")


def _hand_over(owner: Any, name: str) -> None:
    kept: InOrder[Any] = InOrder()
    before = getattr(owner, name)
    assert len(before) <= 1, "what has no order yet cannot be given one"
    for member in before:
        kept.add(member)
    setattr(owner, name, kept)
