"""A private folder whose name is short: a socket's path has at most 107 bytes."""

import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.harness.controller.control.commanded import Commanded, commanded


@pytest.fixture
def private() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:  # mode 0700
        yield Path(folder)


@pytest.fixture
async def world(private: Path) -> AsyncIterator[Commanded]:
    async with commanded(private) as made:
        yield made
