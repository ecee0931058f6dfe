"""The decoding port of a real broker: one thread."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Found = TypeVar("Found")


class DecodingThread:
    """Implements runtime.decoding.Decoding. A second thread would mostly wait for the interpreter lock, and hold
    another batch's records in memory."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="decoding")

    async def run(self, look: Callable[[], Found]) -> Found:
        return await asyncio.get_running_loop().run_in_executor(self._thread, look)

    async def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)
