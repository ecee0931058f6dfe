"""Waiting for a condition: the only place where tests let time pass.

A machine that is busy with other things is slow and not wrong: what is awaited may take PATIENCE_S, and how long it
took is no verdict.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

PATIENCE_S = 60.0
_LOOK_S = 0.05


def until(
    condition: Callable[[], Any], what: str | Callable[[], str] = "the condition", *, timeout_s: float = PATIENCE_S
) -> None:
    """what: a function where it tells what was seen at last."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() >= deadline:
            raise AssertionError(f"not seen within {timeout_s:g} s: {what if isinstance(what, str) else what()}")
        time.sleep(_LOOK_S)


async def comes_true(condition: Callable[[], Awaitable[Any]], what: str, *, timeout_s: float = PATIENCE_S) -> None:
    deadline = time.monotonic() + timeout_s
    while not await condition():
        assert time.monotonic() < deadline, f"not seen within {timeout_s:g} s: {what}"
        await asyncio.sleep(_LOOK_S)
