"""Waiting for a condition: the only place where tests let time pass."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

_LOOK_S = 0.05


def until(condition: Callable[[], Any], what: str = "the condition", *, timeout_s: float = 40.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"not seen within {timeout_s:g} s: {what}"
        time.sleep(_LOOK_S)


async def comes_true(condition: Callable[[], Awaitable[Any]], what: str, *, timeout_s: float = 40.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not await condition():
        assert time.monotonic() < deadline, f"not seen within {timeout_s:g} s: {what}"
        await asyncio.sleep(_LOOK_S)
