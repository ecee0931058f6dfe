"""Chance is an argument. Every consumer of chance draws from a stream of its own, named, under the run's one seed.

Streams are independent: adding a consumer never changes what another one draws, so a seed keeps its meaning.
"""

import hashlib
import random


def stream(seed: int, name: str) -> random.Random:
    """The random stream `name` of run seed `seed`; the same pair always gives the same draws."""
    digest = hashlib.sha256(f"{seed}/{name}".encode()).digest()
    return random.Random(int.from_bytes(digest[:8], "big"))
