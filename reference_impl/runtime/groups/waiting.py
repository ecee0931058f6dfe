"""Answers that come later, from a coordinator's callbacks; and a limit that records of groups have."""

import asyncio
from collections.abc import Callable
from typing import Any

TEXT_BYTES_MAX = 2**15 - 1  # a text in a record of __consumer_offsets has its length in 16 bits


def answer_once(future: "asyncio.Future[Any]", make: Callable[[], Any]) -> None:
    """The client may be gone, and its future cancelled."""
    if not future.done():
        future.set_result(make())


def too_long(*texts: str | None) -> bool:
    """Flexible versions of requests have room for longer texts than can be stored."""
    return any(text is not None and len(text.encode()) > TEXT_BYTES_MAX for text in texts)
