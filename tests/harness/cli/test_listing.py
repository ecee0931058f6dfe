"""The list of runs fits where it is read: 80 columns of a terminal, or a pipe, where nothing is cut."""

import json
from pathlib import Path

from typer.testing import CliRunner

from harness.cli.listing import table
from harness.cli.main import app

ROW = {
    "run": "20260101-000000-leader-crash-acks-all",
    "time (UTC)": "01 Jan 00:00",
    "system": "kafka:4.3.1",
    "verdict": "inconclusive",
    "violations": "0",
    "permitted": "5",
}
LONG = ROW | {"run": "20260101-000000-flaw-high-watermark-truncation-follower", "verdict": "violation"}


def test_in_a_pipe_every_column_is_there_and_nothing_is_cut() -> None:
    heads, first, second = table([ROW, LONG], width=0)
    assert heads.split() == ["run", "time", "(UTC)", "system", "verdict", "violations", "permitted"]
    assert first.split() == [*ROW["run"].split(), "01", "Jan", "00:00", "kafka:4.3.1", "inconclusive", "0", "5"]
    assert LONG["run"] in second


def test_at_80_columns_the_less_needed_columns_go_first_and_a_name_is_never_cut() -> None:
    for rows, heads in (([ROW], "run time (UTC) system verdict"), ([LONG], "run system verdict")):
        lines = table(rows, width=80)
        assert lines[0].split() == heads.split()
        assert all(len(line) <= 80 for line in lines)
        assert rows[0]["run"] in lines[1]


def test_at_60_columns_run_and_verdict_remain_on_a_line_or_on_two() -> None:
    assert [line.split() for line in table([ROW], width=60)] == [["run", "verdict"], [ROW["run"], "inconclusive"]]
    assert table([LONG], width=60) == ["run", "  verdict", LONG["run"], "  violation"]


def test_violations_that_are_known_are_told_apart(tmp_path: Path) -> None:
    known = {"finding": "F1", "fingerprint": "0a", "reason": "known", "until": "2999-12-31"}
    verdict = {"verdict": "pass", "exit_code": 0, "sentence": "Pass.", "counts": {"violation": 2, "permitted": 0}}
    for name, set_aside in (("a", [known]), ("b", [])):
        (tmp_path / name).mkdir()
        (tmp_path / name / "run.json").write_text("{}")
        (tmp_path / name / "verdict.json").write_text(json.dumps({**verdict, "set_aside": set_aside}))
    _, second, first = CliRunner().invoke(app, ["list", "--runs", str(tmp_path)]).stdout.splitlines()
    assert first.split()[-4:] == ["2", "(1", "known)", "0"]
    assert second.split()[-2:] == ["2", "0"]
    as_json = CliRunner().invoke(app, ["list", "--json", "--runs", str(tmp_path)])
    rows = [json.loads(line) for line in as_json.stdout.splitlines()]
    assert [(row["violations"], row["set_aside"]) for row in rows] == [(2, 0), (2, 1)]
