"""What the files of twins share."""

import pytest
from pyspark.sql import SparkSession

from harness.checks.judge import Judgement
from tests.harness.checks.histories.build import judge_stories
from tests.harness.checks.twins.twins import STORIES


@pytest.fixture(scope="session")
def judged_twins(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Judgement]:
    """All twins judged as one job, once for all files: nothing of a judgement can be changed."""
    return judge_stories(spark, tmp_path_factory.mktemp("twins"), STORIES)
