"""A disk that fails: from its nth write on it refuses each with EIO. A broker that cannot write ends; then its disk is
mended, with all that was written, and it is started."""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from faults.options import FirstOrLater
from faults.processes.down import DownFault
from harness.ports.capabilities import CanFailWrites
from harness.ports.cluster import CanCrash, Cluster, Evidence
from harness.ports.faults import Struck, joined

_PATIENCE_S = 10.0  # a node writes its checkpoints every few seconds


@dataclass(frozen=True, kw_only=True)
class FailAtWrite(DownFault):
    """nth: of the changes that it makes to its disk from now on: writes, renames, removals, new files."""

    name = "fail-at-write"
    says = "the victim's disk refuses its nth change, and each after it (EIO), until it has ended; then a start"
    kind = "kill"
    needs = (CanCrash, CanFailWrites)
    not_while = ("down",)
    weight = 0.0
    nth: FirstOrLater = 1

    @classmethod
    def drawn(cls, chance: random.Random) -> Mapping[str, Any]:
        return {"nth": chance.choice((1, 2, 5, 20))}

    async def begin(self, cluster: Cluster, struck: Struck) -> Evidence:
        assert isinstance(cluster, CanFailWrites)
        return joined([await cluster.fail_at_write(node, nth=self.nth, within_s=_PATIENCE_S) for node in struck.nodes])
