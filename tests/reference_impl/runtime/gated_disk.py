"""A disk that does its work when the test allows it."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

Result = TypeVar("Result")


class GatedDisk:
    """Implements runtime.disk_work.DiskWork, on the loop's own thread. Open until `shut`."""

    def __init__(self) -> None:
        self.waiting: deque[asyncio.Future[None]] = deque()
        self._shut = False

    def shut(self) -> None:
        self._shut = True

    def open(self) -> None:
        self._shut = False
        while self.waiting:
            self.let_one_pass()

    def let_one_pass(self) -> None:
        gate = self.waiting.popleft()
        if not gate.done():
            gate.set_result(None)

    async def somebody_waits(self) -> None:
        while not self.waiting:
            await asyncio.sleep(0)

    async def run(self, work: Callable[[], Result]) -> Result:
        if self._shut:
            gate: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
            self.waiting.append(gate)
            await gate
        return work()

    async def close(self) -> None:
        self.open()
