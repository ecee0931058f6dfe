"""What may be held together is the user's to say."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from harness.cli.main import app
from harness.history.schema.cluster_rows import STEPS
from harness.host import memory
from reports.run_data import RunData
from tests.reports.stories.build_run import build_run


@pytest.mark.slow
def test_more_memory_is_a_matter_of_an_option(tmp_path: Path) -> None:
    run = build_run(tmp_path)
    steps = pq.read_table(run / "tables" / "steps.parquet")
    many_steps = steps.take(pa.array(np.zeros(700_000, np.int64)))
    pq.write_table(many_steps, run / "tables" / "steps.parquet", compression="zstd")

    refused = CliRunner().invoke(app, ["report", str(run), "--memory-mb", "512"])

    assert "steps.parquet: its 700000 rows would take about" in str(refused.exception)
    assert "512 MB are allowed: give --memory-mb 5" in str(refused.exception)
    assert memory.allow(memory.DEFAULT_MB) == memory.allowed_mb()
    assert len(RunData(run).rows(STEPS)) == 700_000
