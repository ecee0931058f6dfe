"""Makes a schedule explicit: faults drawn by chance become timed ones, so that a replay is an ordinary run."""

import random
from collections.abc import Sequence
from dataclasses import replace

from harness.scenario.model import FaultSpec


def written_out(
    faults: Sequence[FaultSpec], *, begin_s: float = 0.0, duration_s: float, chance: random.Random
) -> tuple[FaultSpec, ...]:
    """Timed and triggered faults stay unchanged; `every = D` becomes several timed faults, on average D apart.

    Drawn faults begin after `begin_s` and end before `duration_s`, both in seconds since the load began. Intervals of
    one drawn fault never overlap: the next begins after the previous one has ended.
    """
    explicit: list[FaultSpec] = []
    for fault in faults:
        if fault.every_s is None:
            explicit.append(fault)
            continue
        lasting_s = fault.for_s if fault.for_s is not None else fault.every_s / 2
        at_s = begin_s + chance.uniform(0, fault.every_s)
        while at_s + lasting_s < duration_s:
            explicit.append(replace(fault, every_s=None, at_s=round(at_s, 3), for_s=lasting_s))
            at_s += lasting_s + chance.uniform(0, 2 * max(fault.every_s - lasting_s, 0.1))
    return tuple(sorted(explicit, key=lambda fault: fault.at_s if fault.at_s is not None else 0.0))
