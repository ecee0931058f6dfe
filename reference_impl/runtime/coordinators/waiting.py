"""Answers that come later, from a coordinator's callbacks."""

import asyncio
from collections.abc import Callable
from typing import Any


def answer_once(future: "asyncio.Future[Any]", make: Callable[[], Any]) -> None:
    """The client may be gone, and its future cancelled."""
    if not future.done():
        future.set_result(make())
