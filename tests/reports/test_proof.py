"""`kafka-chaos show RUN FINDING` proves a finding in a terminal: bounded, within its width, and all of it on demand."""

import json
from pathlib import Path
from typing import Any

import pytest

from harness.errors import UsageError
from reports.run.proof import WIDTH, proof_of
from tests.reports.stories.build_run import build_run, finding
from tests.reports.stories.judged_folder import FIRST_LOST, LOST
from tests.reports.stories.unclean_story import loss_run

CYCLE = {
    "cycle": "G1c",
    "promised": True,
    "search_seconds": 0.25,
    "steps": [
        {"relation": "write-read", "source": "transaction 3", "target": "transaction 4", "value": 4 << 40},
        {"relation": "write-read", "source": "transaction 4", "target": "transaction 3", "value": 5 << 40 | 7},
    ],
}


def proof(run: Path, name: str, **options: Any) -> str:
    return "\n".join(proof_of(run, name, **options))


def test_a_loss_is_proved_rule_by_rule_and_side_by_side(tmp_path: Path) -> None:
    lines = proof_of(loss_run(tmp_path), "f1")
    text = "\n".join(lines)
    assert lines[0] == "F1  Lost write: permitted"
    heads = [line for line in lines if line and not line.startswith((" ", "=", "F"))]
    for head in (
        "Rule by rule",
        "What happened (=> decides it)",
        "The logs of orders-0, side by side",
        "Values",
    ):
        assert any(line.startswith(head) for line in heads), head
    assert "  applies   " in text
    assert "  does not  It was acknowledged with acks=1" in text
    decisive = [line for line in lines if line.startswith("=>")]
    assert len(decisive) == 1
    assert "elected uncleanly" in decisive[0]
    assert "What would have prevented it: With unclean.leader.election.enable=false" in text
    assert "docs/anomalies/lost-write.md" in text
    assert lines[-1].endswith("fingerprint lost-write-0f3a")


def test_columns_line_up(tmp_path: Path) -> None:
    lines = proof_of(loss_run(tmp_path), "F1")
    head = next(number for number, line in enumerate(lines) if "offset  acknowledged" in line)
    place = lines[head].index("acknowledged")
    rows = [line for line in lines[head + 1 : head + 8] if not line.startswith("  --")]
    assert all(line[place - 2 : place] == "  " and line[place] != " " for line in rows)


@pytest.mark.parametrize("width", [60, WIDTH, 200])
def test_no_line_is_wider_than_the_terminal(tmp_path: Path, width: int) -> None:
    run = loss_run(tmp_path)
    for name in ("F1", "F2", "F3"):
        assert max(len(line) for line in proof_of(run, name, width=width, everything=True)) <= width


def test_it_is_bounded_and_all_is_there_on_demand(tmp_path: Path) -> None:
    run = loss_run(tmp_path)
    short, whole = proof(run, "F1"), proof(run, "F1", everything=True)
    assert "more offsets like these" in short
    assert "more; --all prints them" in short
    assert "more offsets like these" not in whole
    assert "--all" not in whole
    for offset in range(FIRST_LOST, FIRST_LOST + LOST):
        assert f"  !  {offset} " in whole
    assert len(short.splitlines()) < 140


def test_evidence_of_any_family_is_printed_as_tables(tmp_path: Path) -> None:
    nowhere: dict[str, Any] = {
        "topic": None,
        "partition": None,
        "offsets": [],
        "offset_first": None,
        "offset_last": None,
    }
    reported = finding(check="cycle", kind="G1c-ww", values=[], evidence=json.dumps(CYCLE), **nowhere)
    lines = proof_of(build_run(tmp_path, findings=[reported]), "F1")
    text = "\n".join(lines)
    assert "F1  Circular information flow (G1c): permitted" in text
    assert "  promised        yes" in lines
    assert "  search seconds  0.25" in lines
    steps = lines.index("Steps")
    assert lines[steps + 1] == "  relation    source         target         value"
    assert lines[steps + 3] == "  write-read  transaction 4  transaction 3  p5-000007"
    assert "docs/anomalies/g1c.md" in text


def test_findings_of_the_same_kind_are_named(tmp_path: Path) -> None:
    rows = [finding(finding=f"F{number}") for number in range(1, 13)]
    text = proof(build_run(tmp_path, findings=rows), "F2")
    assert "Findings of this kind in this run: 12. The others: F1, F3, F4, F5, F6, F7, F8, F9 and 3 more." in text


def test_a_value_cannot_move_the_cursor(tmp_path: Path) -> None:
    number = 1 << 62
    hostile = finding(values=[number], offsets=[10], sentence_text="lost \x1b[2J")
    text = proof(build_run(tmp_path, findings=[hostile], names={number: "\x1b[31mred\u202e"}), "F1")
    assert "\x1b" not in text
    assert "\u202e" not in text


def test_a_finding_that_is_not_there_is_a_usage_error(tmp_path: Path) -> None:
    run = build_run(tmp_path)
    with pytest.raises(UsageError, match="no finding 'F9'; there are: F1"):
        proof_of(run, "F9")
    (run / "verdict.json").unlink()
    with pytest.raises(UsageError, match="not judged yet"):
        proof_of(run, "F1")
