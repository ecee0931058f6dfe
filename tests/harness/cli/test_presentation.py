"""What the live display sets going is what the user asked for."""

from pathlib import Path

import pytest

from harness import compose
from harness.cli.presentation import Live, print_findings
from harness.cli.terminal import Terminal
from harness.errors import HarnessError
from harness.history.schema.texts import TEXT_MAX
from reports.evidence_model import FactTable
from reports.run.facts import aligned
from tests.reports.stories.build_run import build_run, finding


def test_the_checks_started_during_a_run_go_where_master_says_and_are_warmed_up_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[object] = []

    class JudgingSession:
        def __init__(self, *, master: str, folders: list[Path]) -> None:
            asked.extend([master, *folders])

        def warm_up(self) -> None:
            asked.append("warmed up")

    monkeypatch.setattr(compose, "JudgingSession", JudgingSession)
    live = Live(Terminal(), master="spark://somewhere:7077")
    live.healed(Path("run"))
    live.healed(Path("run"))

    assert asked == ["spark://somewhere:7077", Path("run"), "warmed up"]


@pytest.mark.parametrize(
    "spoilt",
    [
        {"evidence": "no JSON"},
        {"evidence": "[" * 100_000 + "]" * 100_000},
        {"evidence": '{"a":' * 900 + "[1]" + "}" * 900},
        {"evidence": "[1]"},
        {"evidence": '{"cause_chain": 5, "rules": "x"}'},
        {"evidence": '{"invoked_ns": 1' + "0" * 900 + "}"},
        {"check": None, "count": None},
        {"sentence_text": "A" * (TEXT_MAX + 1)},
    ],
    ids=("no-json", "deep", "deep-objects", "list", "other-shapes", "long-number", "null", "long-text"),
)
def test_findings_that_no_check_of_ours_wrote_are_one_line(tmp_path: Path, spoilt: dict[str, object]) -> None:
    run = build_run(tmp_path, findings=[finding(**spoilt)])
    with pytest.raises(HarnessError) as reported:
        print_findings(Terminal(), run, "F1")
    assert str(run) in str(reported.value)
    assert "\n" not in str(reported.value)


def test_very_many_columns_are_aligned_in_one_go() -> None:
    row = ["x" * 100] * 20_000
    assert aligned(FactTable(title="", heads=row, rows=[row]), width=100)[0].startswith("  xxxxx…  xxxxx…")
