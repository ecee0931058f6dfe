"""Periodic tasks of a broker."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

logger = logging.getLogger(__name__)


def every(
    interval_ms: float, action: Callable[[], Awaitable[None] | None], *, first_after_ms: float | None = None
) -> asyncio.Task[None]:
    """Runs an action periodically; a failure is logged, and the action runs again next time."""

    async def run() -> None:
        wait_ms = interval_ms if first_after_ms is None else first_after_ms
        while True:
            await asyncio.sleep(wait_ms / 1000)
            wait_ms = interval_ms
            try:
                done = action()
                if done is not None:
                    await done
            except Exception:
                logger.exception("timer %s failed", getattr(action, "__name__", action))

    return asyncio.ensure_future(run())
