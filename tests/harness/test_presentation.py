"""What the live display sets going is what the user asked for."""

import pytest
from rich.console import Console

from harness import compose
from harness.presentation import Live


def test_the_checks_started_during_a_run_go_where_master_says(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    class Bench:
        def __init__(self, *, master: str = "local[2]") -> None:
            asked.append(master)

    monkeypatch.setattr(compose, "Bench", Bench)
    live = Live(Console(), master="spark://somewhere:7077")
    live.healed()
    live.healed()

    assert asked == ["spark://somewhere:7077"]
