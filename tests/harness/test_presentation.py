"""What the live display sets going is what the user asked for."""

from pathlib import Path

import pytest

from harness import compose
from harness.presentation import Live
from harness.terminal import Terminal


def test_the_checks_started_during_a_run_go_where_master_says_and_are_warmed_up_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[object] = []

    class Bench:
        def __init__(self, *, master: str, folders: list[Path]) -> None:
            asked.extend([master, *folders])

        def warm_up(self) -> None:
            asked.append("warmed up")

    monkeypatch.setattr(compose, "Bench", Bench)
    live = Live(Terminal(), master="spark://somewhere:7077")
    live.healed(Path("run"))
    live.healed(Path("run"))

    assert asked == ["spark://somewhere:7077", Path("run"), "warmed up"]
