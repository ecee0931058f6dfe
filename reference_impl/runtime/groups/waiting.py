"""Answers that come later, from a coordinator's callbacks; and a limit that records of groups have."""

import asyncio
from collections.abc import Callable
from typing import Any

TEXT_BYTES_MAX = 2**15 - 1  # a text in a record of __consumer_offsets has its length in 16 bits
MADE_ID_BYTES = 37  # a hyphen and a UUID, which make a member's id of its client's or its instance's


def answer_once(future: "asyncio.Future[Any]", make: Callable[[], Any]) -> None:
    """The client may be gone, and its future cancelled."""
    if not future.done():
        future.set_result(make())


def too_long(*texts: str) -> bool:
    """Whether one of them does not fit into a record: flexible versions of requests have room for longer ones."""
    return any(len(text.encode()) + MADE_ID_BYTES > TEXT_BYTES_MAX for text in texts)
