"""Real time as edges: an ok operation precedes every operation invoked after its completion.

All such pairs are quadratic. For components and shortest ways a chain of moments carries them in linear size: an
operation leads to the moment of its completion, a moment to the next one and to the operations invoked until then.
Jepsen's own reduction, whose edges its answers show, is built only inside components.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Operation:
    """`end` is null when nothing can be known to follow it: it failed, or nobody knows whether it happened."""

    name: int
    begin: int
    end: int | None


_INVOKED, _COMPLETED = 0, 1  # at the same moment an invocation comes first: nothing is proved


def _events(operations: Sequence[Operation]) -> list[tuple[int, int, int]]:
    events = [(operation.begin, _INVOKED, place) for place, operation in enumerate(operations)]
    events += [
        (operation.end, _COMPLETED, place) for place, operation in enumerate(operations) if operation.end is not None
    ]
    events.sort()
    return events


def moments(operations: Sequence[Operation]) -> list[list[int]]:
    """Successors by real time alone: of the operations 0..n-1, then of the moments n, n+1, ..."""
    count = len(operations)
    successors: list[list[int]] = [[] for _ in range(count)]
    now = -1  # the last moment that a later invocation follows
    open_moment = -1  # gathers completions until an operation is invoked
    for _, what, place in _events(operations):
        if what == _COMPLETED:
            if open_moment < 0:
                open_moment = len(successors)
                successors.append([])
            successors[place].append(open_moment)
            continue
        if open_moment >= 0:
            if now >= 0:
                successors[now].append(open_moment)
            now, open_moment = open_moment, -1
        if now >= 0:
            successors[now].append(place)
    return successors


def reduced(operations: Sequence[Operation]) -> dict[int, list[int]]:
    """Jepsen's edges: a completed operation is linked until one that it precedes has completed too."""
    waiting: dict[int, None] = {}
    preceding: list[list[int]] = [[] for _ in operations]
    successors: dict[int, list[int]] = {}
    for _, what, place in _events(operations):
        if what == _INVOKED:
            preceding[place] = list(waiting)
            for before in waiting:
                successors.setdefault(operations[before].name, []).append(operations[place].name)
        else:
            for before in preceding[place]:
                waiting.pop(before, None)
            waiting[place] = None
    return successors


def begins_of(operations: Sequence[Operation]) -> Mapping[int, int]:
    return {operation.name: operation.begin for operation in operations}
