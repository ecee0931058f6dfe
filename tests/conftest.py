"""What every test may ask for. One Spark session serves a whole pytest run; it starts when the first test wants it."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator["SparkSession"]:
    from harness.checks.session import spark_session

    with spark_session(master="local[2]", stderr_path=tmp_path_factory.mktemp("spark") / "stderr") as session:
        session.conf.set("spark.sql.shuffle.partitions", "2")
        yield session
