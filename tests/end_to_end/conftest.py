"""Where the commands of these tests are started."""

from pathlib import Path

import pytest

from tests.end_to_end.shell import Shell


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    """For tests that share one run."""
    return Shell(directory=tmp_path_factory.mktemp("end_to_end").resolve())


@pytest.fixture
def fresh_shell(tmp_path: Path) -> Shell:
    return Shell(directory=tmp_path.resolve())
