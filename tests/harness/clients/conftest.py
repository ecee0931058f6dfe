"""A cluster for the client libraries, each at work on a partition and a client link of its own."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from harness.clients.catalogue import CLIENTS
from harness.cluster.catalogue import system_of
from harness.cluster.local.cluster import LocalCluster
from harness.host.clock import SystemClock
from harness.ports.cluster import TopicDefinition
from harness.scenario.model import ClusterSpec
from tests.end_to_end.shell import Shell


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[LocalCluster]:
    """A partition and a client link for each library, all partitions led by broker 1."""
    (tmp_path / "run").mkdir()
    spec = ClusterSpec(brokers=(3, 1, 2))
    made = LocalCluster(
        run_path=tmp_path / "run", system=system_of(spec), client_links=len(CLIENTS), clock=SystemClock()
    )
    try:
        await made.start()
        assignment = ((1, 2, 3),) * len(CLIENTS)
        await made.create_topics(
            [TopicDefinition(name="orders", assignment=assignment, settings={"min.insync.replicas": "2"})]
        )
        yield made
    finally:
        await made.stop()
    assert Shell(directory=tmp_path.resolve()).processes() == []
