"""A cluster on the test's own event loop."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from reference_impl.runtime.decoding import Decoding
from reference_impl.runtime.disk_work import DiskWork
from reference_impl.runtime.in_process import InProcessCluster, wall_clock_ms
from reference_impl.runtime.threads import DecodingThread, DiskThreads
from tests.loopback import address, free_port


@asynccontextmanager
async def running_cluster(
    folder: Path,
    *,
    settings: dict[str, str] | None = None,
    clock_ms: Callable[[], int] = wall_clock_ms,
    decoding: Callable[[], Decoding] = DecodingThread,
    disk_work: Callable[[int], DiskWork] = lambda broker_id: DiskThreads(),
) -> AsyncIterator[InProcessCluster]:
    """Three brokers and the coordination service."""
    addresses = {node: address(node) for node in (1, 2, 3)}
    everywhere = [address(9), *addresses.values()]
    made = InProcessCluster(
        folder,
        addresses=addresses,
        coordination_address=address(9),
        ports=(free_port(*everywhere), free_port(*everywhere), free_port(*everywhere)),
        settings=settings,
        clock_ms=clock_ms,
        decoding=decoding,
        disk_work=disk_work,
    )
    try:
        await made.start()
        yield made
    finally:
        await made.stop()


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[InProcessCluster]:
    async with running_cluster(tmp_path) as made:
        yield made


class Clock:
    """Brokers' wall clock, as the test sets it."""

    def __init__(self) -> None:
        self.now_ms = wall_clock_ms()

    def __call__(self) -> int:
        return self.now_ms


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def tidy_cluster(tmp_path: Path, clock: Clock) -> AsyncIterator[InProcessCluster]:
    """A cluster that checks for expired segments permanently and removes their files at once."""
    settings = {
        "log.retention.check.interval.ms": "50",
        "log.initial.task.delay.ms": "0",
        "log.segment.delete.delay.ms": "0",
        "log.segment.bytes": "300",
        "producer.id.expiration.ms": "60000",
        "producer.id.expiration.check.interval.ms": "50",
        "log.flush.start.offset.checkpoint.interval.ms": "50",
    }
    async with running_cluster(tmp_path, settings=settings, clock_ms=clock) as made:
        yield made
