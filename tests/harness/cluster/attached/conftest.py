"""Time jumps where somebody else's cluster is in memory."""

import asyncio
from collections.abc import Callable, Mapping

import pytest

from tests.jumping_time import JumpingLoop

JUMPING = ("test_own_topics", "test_own_names_there")


def pytest_asyncio_loop_factories(item: pytest.Item) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"jumping": JumpingLoop} if item.path.stem in JUMPING else {"real": asyncio.new_event_loop}
