"""Chance is an argument. Every consumer of chance draws from a stream of its own, named, under the run's one seed.

Streams are independent: adding a consumer never changes what another one draws, so a seed keeps its meaning.
"""

import hashlib
import random
from collections.abc import Mapping, Sequence
from typing import TypeVar


def stream(seed: int, name: str) -> random.Random:
    """The random stream `name` of run seed `seed`; the same pair always gives the same draws."""
    digest = hashlib.sha256(f"{seed}/{name}".encode()).digest()
    return random.Random(int.from_bytes(digest[:8], "big"))


Chosen = TypeVar("Chosen")


def weighed(chance: random.Random, weights: Mapping[Chosen, float]) -> Chosen:
    """One of the keys. There must be one with a weight above 0."""
    return chance.choices(list(weights), list(weights.values()))[0]


def half(chance: random.Random, of: Sequence[Chosen], *, least: int) -> list[Chosen]:
    """A random half, at least so many of them, in their order: what a run of a swarm does not leave out."""
    kept = {one for one in range(len(of)) if chance.random() < 0.5}
    missing = [one for one in range(len(of)) if one not in kept]
    kept |= set(chance.sample(missing, min(len(missing), max(0, least - len(kept)))))
    return [of[one] for one in sorted(kept)]
