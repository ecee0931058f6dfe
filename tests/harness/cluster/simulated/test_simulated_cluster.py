"""A simulated cluster tells of its nodes what processes would: why one does not start, and when one does not end."""

import logging
from pathlib import Path

import pytest

from harness.cluster.simulated.cluster import SimulatedCluster
from harness.cluster.simulated.node_logs import nodes_log
from harness.errors import HarnessError
from harness.host.clock import Clock
from harness.ports.cluster import NodeId
from tests.harness.cluster.simulated.simulated_cluster import in_a_cluster

pytestmark = pytest.mark.cluster

BROKER = NodeId(1)


def test_why_a_node_does_not_start_is_in_its_log_and_in_the_error(tmp_path: Path) -> None:
    folder = tmp_path / "nodes" / "1"

    async def work(cluster: SimulatedCluster, clock: Clock) -> None:
        await cluster.kill(BROKER)
        (folder / "config" / "hosts").write_text("alone", encoding="utf-8")
        with pytest.raises(HarnessError, match="broker 1 cannot start: ConfigurationError"):
            await cluster.start_node(BROKER)

    in_a_cluster(tmp_path, work)

    assert "broker 1 cannot start: ConfigurationError" in (folder / "log").read_text()


def test_what_is_logged_and_is_no_nodes_is_the_harnesss(capsys: pytest.CaptureFixture[str]) -> None:
    with nodes_log():
        logging.getLogger("asyncio").error("Task exception was never retrieved")

    assert "ERROR asyncio: Task exception was never retrieved" in capsys.readouterr().err
