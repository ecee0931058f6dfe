"""The health check between two runs on one cluster: what the last run left is taken away, and the cluster is looked at
until it is as after a start, or the time is over.

A topic of the harness's own stays for as long as the cluster: every broker has a replica of it, and a record that is
written to it with acks=all, read back and found on every disk shows that all of them can be written. While it is there,
brokers also go on writing their checkpoints, from which the topics before vanish.
"""

import asyncio
from pathlib import Path

from harness import compose
from harness.campaign.shared.rules import HEALTH_TOPIC
from harness.clients.catalogue import OWN
from harness.clock import Clock
from harness.cluster.local.cluster import LocalCluster
from harness.cluster.local.remains import Remains, written_everywhere
from harness.controller.probes import Probes
from harness.errors import HarnessError, in_a_line
from harness.history.journals.journal import ProcessNumbers
from harness.ports.cluster import TopicDefinition
from harness.scenario.model import WorkloadSpec

HEALTHY_WITHIN_S = 30.0
_LOOK_AGAIN_S = 0.2
_PROBE_S = 5.0
_FAILURES = (HarnessError, OSError, TimeoutError)


class Health:
    """Of one running cluster. folder: where the probes' journals go."""

    def __init__(self, cluster: LocalCluster, *, folder: Path, clock: Clock) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._cluster = cluster
        self._checks = 0
        self._probes = Probes(
            make_client=compose.CLIENTS[OWN],
            bootstrap=cluster.bootstrap,
            settings=WorkloadSpec(),
            folder=folder,
            clock=clock,
            numbers=ProcessNumbers(first=0, step=1),
        )

    async def begin(self) -> None:
        """Creates the topic. Raises HarnessError."""
        brokers = tuple(int(broker) for broker in self._cluster.brokers)
        topic = TopicDefinition(
            name=HEALTH_TOPIC, partitions=None, replication_factor=None, assignment=(brokers,), settings={}
        )
        await self._cluster.create_topics([topic])

    async def check(self, *, within_s: float = HEALTHY_WITHIN_S) -> str:
        """Takes away what a run has left; why the cluster is not as after a start `within_s` later, "" if it is."""
        seen = "nothing was seen of it"
        try:
            async with asyncio.timeout(within_s):
                while True:
                    try:
                        if not (seen := await self._look()):
                            return ""
                    except _FAILURES as error:
                        seen = in_a_line(error)
                    await asyncio.sleep(_LOOK_AGAIN_S)
        except TimeoutError:
            return f"not as after a start within {within_s:g} s: {seen}"

    async def as_started(self) -> bool:
        """Whether the controller is the broker that it is after a start."""
        first = self._cluster.first_controller
        if first is None:
            return True
        await self._cluster.live_partition_states([HEALTH_TOPIC])
        return await self._cluster.controller() == first

    async def _look(self) -> str:
        remains = Remains(self._cluster, keep={HEALTH_TOPIC})
        try:
            await remains.clear()
            return await remains.seen() or await self._round_trip()
        finally:
            remains.close()

    async def _round_trip(self) -> str:
        self._checks += 1
        value = f"health-{self._checks}"
        (sent,) = await self._probes.produce(HEALTH_TOPIC, 0, [value], acks="all", timeout_s=_PROBE_S)
        if sent.status != "ok":
            return f"a record was not acknowledged: {sent.error}"
        read = await self._probes.read(HEALTH_TOPIC, 0, timeout_s=_PROBE_S)
        if value not in read.texts:
            return f"a record that was acknowledged was not read: {read.error or 'it is not there'}"
        return written_everywhere(self._cluster, HEALTH_TOPIC, read.end_offset or 0)
