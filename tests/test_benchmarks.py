"""A benchmark is run by hand and seldom: each can at least be begun, whatever was renamed or deleted since."""

import importlib
from pathlib import Path

import pytest

BENCHMARKS = sorted(path.stem for path in (Path(__file__).parents[1] / "benchmarks").glob("*.py"))


@pytest.mark.parametrize("name", BENCHMARKS)
def test_everything_that_a_benchmark_imports_is_there(name: str) -> None:
    assert importlib.import_module(f"benchmarks.{name}").__doc__
