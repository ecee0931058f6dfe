"""What every test may ask for. One Spark session serves a whole pytest run; it starts when the first test wants it."""

import os
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Where time is cheap: pytest --hypothesis-profile nightly
settings.register_profile("nightly", max_examples=1_000, deadline=None)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator["SparkSession"]:
    from harness.checks.session import spark_session

    with spark_session(master="local[2]", stderr_path=tmp_path_factory.mktemp("spark") / "stderr") as session:
        session.conf.set("spark.sql.shuffle.partitions", "2")
        yield session


@pytest.fixture
def open_umask() -> Iterator[None]:
    """A user whose files are everybody's, unless the program says otherwise."""
    before = os.umask(0)
    yield
    os.umask(before)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What this machine lacks, in one line each, with what would bring it."""
    reasons = Counter(
        report.longrepr[2].removeprefix("Skipped: ") if isinstance(report.longrepr, tuple) else str(report.longrepr)
        for report in terminalreporter.stats.get("skipped", [])
    )
    for reason, count in reasons.items():
        terminalreporter.write_line(f"{count} skipped: {reason}")
