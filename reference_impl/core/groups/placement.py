"""Which partition of __consumer_offsets a group belongs to: the leader of it is the group's coordinator (R56)."""

_INT32_MIN = -(2**31)


def partition_of_group(group_id: str, count: int) -> int:
    """Kafka's Utils.abs(groupId.hashCode) % count."""
    assert count >= 1
    hashed = _java_hash(group_id)
    return (0 if hashed == _INT32_MIN else abs(hashed)) % count


def _java_hash(text: str) -> int:
    """java.lang.String.hashCode: over UTF-16 units, in 32 bits."""
    units = text.encode("utf-16-be", errors="surrogatepass")
    hashed = 0
    for place in range(0, len(units), 2):
        hashed = (31 * hashed + int.from_bytes(units[place : place + 2])) & 0xFFFFFFFF
    return hashed - 2**32 if hashed >= 2**31 else hashed
