"""Where a run happens: what it takes its cluster, its clients, its workers and its time from.

`processes.py` makes a world of processes and containers, in the harness's own loop; `simulated.py` one in which all of
it is one loop with a time of its own, and `apart.py` runs that in a process of its own.
"""

import asyncio
from dataclasses import dataclass, field

from harness.controller.workers.processes import Workers
from harness.host.clock import Clock
from harness.ports.cluster import ClientMaker, Cluster


@dataclass(frozen=True, kw_only=True)
class World:
    """make_client: of the harness's own clients, for probes and reads; workers have the workload's. cut_short: set when
    nothing more is to be done to the cluster, because what the run looks for was found."""

    cluster: Cluster
    workers: Workers
    make_client: ClientMaker
    clock: Clock
    cut_short: asyncio.Event = field(default_factory=asyncio.Event)
