"""The threads of a real broker: some for its disk, so that the event loop never waits for it, and one that decodes."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Result = TypeVar("Result")
THREADS = 8  # as Kafka's num.io.threads; the disk merges writes that wait at the same time


class DiskThreads:
    """Implements runtime.disk_work.DiskWork."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="disk")

    async def run(self, work: Callable[[], Result]) -> Result:
        done = asyncio.get_running_loop().run_in_executor(self._threads, work)
        try:
            return await asyncio.shield(done)
        except asyncio.CancelledError:
            await asyncio.wait([done])
            raise

    async def close(self) -> None:
        self._threads.shutdown(wait=True)


class DecodingThread:
    """Implements runtime.decoding.Decoding. A second thread would mostly wait for the interpreter lock, and hold
    another batch's records in memory."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="decoding")

    async def run(self, look: Callable[[], Result]) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._thread, look)

    async def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)
