"""A cluster on the test's own loop."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from reference_impl.runtime.in_process import InProcessCluster
from reference_impl.runtime.loopback import address, free_port


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[InProcessCluster]:
    """Three brokers and the coordination service on this test's loop."""
    addresses = {node: address(node) for node in (1, 2, 3)}
    everywhere = [address(9), *addresses.values()]
    made = InProcessCluster(
        tmp_path,
        addresses=addresses,
        coordination_address=address(9),
        ports=(free_port(*everywhere), free_port(*everywhere), free_port(*everywhere)),
    )
    try:
        await made.start()
        yield made
    finally:
        await made.stop()
