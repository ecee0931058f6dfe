"""What read_committed is given (KIP-98): up to the first record of an open transaction, less what was aborted."""

from collections.abc import Sequence
from dataclasses import dataclass

from tests.world.chronicle import Entry, Passed
from tests.world.replica import Replica
from tests.world.world import World


@dataclass(frozen=True, kw_only=True)
class Stability:
    """Below the high watermark: `stable`: the last stable offset; aborted: offsets of records that a marker aborts."""

    stable: int
    aborted: frozenset[int]


@dataclass(frozen=True, kw_only=True)
class Served:
    """next: the offset to go on from."""

    offsets: Sequence[int]
    entries: Sequence[Entry]
    next: int


def stability_of(replica: Replica) -> Stability:
    ends: dict[int, bool] = {}  # producer id -> how the next marker above ends its transaction
    stable, aborted = max(replica.high_watermark, replica.start), set()
    for offset in range(stable - 1, replica.start - 1, -1):
        entry = replica.log[offset - replica.start]
        if entry.producer is None:
            continue
        identity = entry.producer[0]
        if entry.marks is not None:
            ends[identity] = entry.marks
        elif identity not in ends:
            stable = offset
        elif not ends[identity]:
            aborted.add(offset)
    return Stability(stable=stable, aborted=frozenset(aborted))


def served(world: World, replica: Replica, first: int, limit: int, *, isolation: str) -> Served:
    """An answer to a fetch. Flaws: the last stable offset is passed; the list of the aborted ones is not there."""
    end, aborted = replica.high_watermark, frozenset[int]()
    if isolation == "read_committed":
        stability = stability_of(replica)
        if stability.stable >= end or not world.flawed("stable-offset-passed", 0.4):
            end = stability.stable
        elif first < end and limit > stability.stable:
            opened = replica.log[stability.stable - replica.start].value
            passed = Passed(time_ns=world.now, partition=replica.partition, value=opened)
            world.chronicle.passed.append(passed)
        mine = any(first <= offset < end for offset in stability.aborted)
        if not mine or not world.flawed("aborted-delivered", 0.4):
            aborted = stability.aborted
    end = min(end, limit)
    kept = [
        (first + place, entry)
        for place, entry in enumerate(replica.slice(first, end))
        if entry.marks is None and entry.value >= 0 and first + place not in aborted
    ]
    return Served(offsets=[offset for offset, _ in kept], entries=[entry for _, entry in kept], next=max(first, end))
