"""A disk with room for a few bytes, for tests of what is written little by little."""

import errno
import os
from collections.abc import Callable


def with_little_room(room_bytes: int) -> Callable[[int, bytes], int]:
    """In place of `os.write`: each call writes that much, or finds none."""
    written = os.write

    def write(descriptor: int, data: bytes) -> int:
        if not room_bytes:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return written(descriptor, data[:room_bytes])

    return write
