"""A kill between two writes: the victim's disk stays as it stands when it is about to change it for the nth time."""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from faults.options import FirstOrLater
from faults.processes.down import DownFault
from harness.ports.capabilities import CanCrashAtWrites
from harness.ports.cluster import CanCrash, Cluster, Evidence
from harness.ports.faults import Struck, joined

_PATIENCE_S = 10.0  # a node writes its checkpoints every few seconds


@dataclass(frozen=True, kw_only=True)
class KillAtWrite(DownFault):
    """nth: of the changes that it makes to its disk from now on: writes, renames, removals, new files. torn: of a write
    half is there."""

    name = "kill-at-write"
    says = "SIGKILL when the victim is about to change its disk for the nth time, then a start"
    kind = "kill"
    needs = (CanCrash, CanCrashAtWrites)
    not_while = ("down",)
    weight = 0.0
    nth: FirstOrLater = 1
    torn: bool = False

    @classmethod
    def drawn(cls, chance: random.Random) -> Mapping[str, Any]:
        return {"nth": chance.choice((1, 2, 5, 20)), "torn": chance.choice((False, True))}

    async def begin(self, cluster: Cluster, struck: Struck) -> Evidence:
        assert isinstance(cluster, CanCrashAtWrites)
        return joined(
            [
                await cluster.kill_at_write(node, nth=self.nth, torn=self.torn, within_s=_PATIENCE_S)
                for node in struck.nodes
            ]
        )
