"""A client that asks once: the broker gets what was given, key and value."""

from pathlib import Path

import pytest

from harness.cluster.simulated.cluster import SimulatedCluster
from harness.host.clock import Clock
from harness.ports.cluster import Send, TopicDefinition
from harness.ports.load import WorkloadSpec
from harness.worlds.one_try import OneTryClient
from tests.harness.cluster.simulated.simulated_cluster import in_a_cluster

pytestmark = pytest.mark.cluster


def test_a_compacted_topic_gets_the_key_that_it_needs(tmp_path: Path) -> None:
    answers: list[tuple[str, int | None, int | None]] = []

    async def work(cluster: SimulatedCluster, clock: Clock) -> None:
        await cluster.create_topics(
            [TopicDefinition(name="kept", assignment=((1,),), settings={"cleanup.policy": "compact"})]
        )
        client = OneTryClient(bootstrap=cluster.bootstrap(None), settings=WorkloadSpec(), clock=clock, repeats=True)
        for key in (b"k", None):
            (outcome,) = await client.send([Send(topic="kept", partition=0, value=b"v", key=key)])
            answers.append((outcome.status, outcome.code, outcome.offset))
        await client.close()

    in_a_cluster(tmp_path, work)

    assert answers == [("ok", 0, 0), ("fail", 87, None)]
