"""Runs actions one after the other, in order of arrival."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any


class Turns:
    """Each action runs to its end, even if its caller was cancelled or its connection was closed."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._tasks: set[asyncio.Task[Any]] = set()

    async def take(self, action: Callable[[], Awaitable[Any]]) -> Any:
        async def in_turn() -> Any:
            async with self._lock:
                return await action()

        task = asyncio.ensure_future(in_turn())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return await asyncio.shield(task)

    async def end(self) -> None:
        """Cancels the running action at its next await."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
