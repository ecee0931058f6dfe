"""Which partition of a coordinators' topic a group or a transactional id belongs to: its leader coordinates it (R56,
R71)."""

_INT32_MIN = -(2**31)


def coordinating_partition(name: str, count: int) -> int:
    """Kafka's Utils.abs(name.hashCode) % count."""
    assert count >= 1
    hashed = _java_hash(name)
    return (0 if hashed == _INT32_MIN else abs(hashed)) % count


def _java_hash(text: str) -> int:
    """java.lang.String.hashCode: over UTF-16 units, in 32 bits."""
    units = text.encode("utf-16-be", errors="surrogatepass")
    hashed = 0
    for place in range(0, len(units), 2):
        hashed = (31 * hashed + int.from_bytes(units[place : place + 2])) & 0xFFFFFFFF
    return hashed - 2**32 if hashed >= 2**31 else hashed
