"""A benchmark that needs more than a run does says so before it measures, and no violation is claimed."""

import pytest

from benchmarks import needed


def test_a_package_that_is_missing_is_one_line_and_exit_4(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(SystemExit) as ended:
        needed.need("duckdb")
    assert ended.value.code == 4
    assert capsys.readouterr().err.endswith("this benchmark needs duckdb: pip install duckdb\n")


def test_what_is_there_is_not_talked_about(capsys: pytest.CaptureFixture[str]) -> None:
    needed.need("confluent_kafka")
    assert capsys.readouterr() == ("", "")
