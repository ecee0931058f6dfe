"""The topics in a consumer's subscription (ConsumerProtocolSubscription): all that a coordinator reads of it.

Everything else in it, and every assignment, passes through as bytes; so the cooperative protocol (KIP-429) is no other
than the eager one.
"""

import struct

_HEAD = struct.Struct(">hi")  # version, number of topics
_LENGTH = struct.Struct(">h")


def subscribed_topics(metadata: bytes) -> frozenset[str] | None:
    """None if the bytes are no subscription."""
    try:
        _, count = _HEAD.unpack_from(metadata)
        position = _HEAD.size
        if not 0 <= count <= len(metadata):
            return None
        topics = set()
        for _ in range(count):
            (length,) = _LENGTH.unpack_from(metadata, position)
            position += _LENGTH.size
            if length < 0 or position + length > len(metadata):
                return None
            topics.add(metadata[position : position + length].decode("utf-8"))
            position += length
        return frozenset(topics)
    except (struct.error, UnicodeDecodeError):
        return None
