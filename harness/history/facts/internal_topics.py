"""Kafka's internal topics that coordinators keep their state in, and which of their partitions a name belongs to.

A group's offsets and generations are in one partition of __consumer_offsets, a transactional id's state is in one of
__transaction_state. The leader of that partition is the coordinator.
"""

GROUP_OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTIONS_TOPIC = "__transaction_state"
COORDINATORS_TOPICS = (GROUP_OFFSETS_TOPIC, TRANSACTIONS_TOPIC)
CLOCKS_APART_NS = 100_000_000  # the brokers' clocks, which their logs have the times of, and the run's, at most
_INT32_MIN = -(2**31)


def partition_of(name: str, count: int) -> int:
    """The partition, of `count`, of a group or a transactional id: Kafka's Utils.abs(name.hashCode) % count."""
    hashed = java_hash(name)
    return (0 if hashed == _INT32_MIN else abs(hashed)) % count


def java_hash(text: str) -> int:
    """java.lang.String.hashCode: over UTF-16 units, with 32 bits."""
    units = text.encode("utf-16-be", errors="surrogatepass")
    hashed = 0
    for place in range(0, len(units), 2):
        hashed = (31 * hashed + int.from_bytes(units[place : place + 2])) & 0xFFFFFFFF
    return hashed - 2**32 if hashed >= 2**31 else hashed
