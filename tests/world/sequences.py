"""Sequence numbers of idempotent producers (KIP-98, KIP-360), as a leader holds a batch against its own log.

A batch that follows the last one of its producer is appended, one that is there is answered again, any other is
refused. A log that has nothing of a producer takes whatever it sends. The flaws are two: to take a batch that does not
follow, and not to know one that is there.
"""

from tests.world.chronicle import Sequenced
from tests.world.replica import Replica
from tests.world.world import World


def follows(world: World, replica: Replica, batch: Sequenced) -> int | bool:
    """The offset of a batch that is there; else whether it may be appended."""
    last: Sequenced | None = None
    for place in range(len(replica.log) - 1, -1, -1):
        found = replica.log[place].sequenced
        if found is None or found.process != batch.process:
            continue
        if last is None:
            last = found
        if found == batch:
            there = replica.start + place
            first = _first_of(replica, there, batch)
            return True if world.flawed("sequence-forgotten", 0.5) else first
        if found.epoch < batch.epoch or (found.epoch == batch.epoch and found.number < batch.number):
            break
    if last is None:
        return True
    newer = batch.epoch > last.epoch and batch.number == 0
    if newer or (batch.epoch == last.epoch and batch.number == last.number + 1):
        return True
    ahead = batch.epoch == last.epoch and batch.number > last.number + 1
    return ahead and world.flawed("sequence-unchecked", 0.8)


def _first_of(replica: Replica, offset: int, batch: Sequenced) -> int:
    while offset > replica.start and replica.log[offset - 1 - replica.start].sequenced == batch:
        offset -= 1
    return offset
