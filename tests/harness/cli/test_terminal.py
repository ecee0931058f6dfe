"""Whatever a run's names and values are, the screen, the log and the XML show them and obey none of them."""

import io
import json
import logging
import re
import sys
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.checks.evidence_tables import Sums
from harness.checks.judge import Judgement
from harness.checks.judged import Judged
from harness.cli import main as cli
from harness.cli import presentation
from harness.cli.check_many import verdict_line
from harness.cli.terminal import Terminal
from harness.cli.verification import Cell, Verified, write_junit
from harness.history.run_folder import RunFolder
from harness.host.printable import LogLines, printable, shortened
from harness.verdict import Verdict
from tests.harness.hostile import TERMINAL, TERMINAL_SHOWN
from tests.rows import row_of

Shown = pytest.CaptureFixture[str]


def a_run(folder: Path, **fields: object) -> Path:
    folder.mkdir(parents=True)
    entries = {"id": folder.name, "scenario": "leader-crash", "seed": 7, "schema_version": 1, "status": "complete"}
    (folder / "run.json").write_text(json.dumps(entries | fields))
    return folder


def ended(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(sys, "argv", ["kafka-chaos", *arguments])
    with pytest.raises(SystemExit) as exit_:
        cli.main()
    assert isinstance(exit_.value.code, int)
    return exit_.value.code


@pytest.mark.parametrize("columns", ["0", "-5", "x", "7", "99999999999"])
def test_all_is_said_however_wide_the_environment_says_the_screen_is(
    columns: str, monkeypatch: pytest.MonkeyPatch, capsys: Shown
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    Terminal().say("nothing was lost, and no promise was broken")
    assert capsys.readouterr().out == "nothing was lost, and no promise was broken\n"


@given(st.text(st.characters(exclude_categories=[])))
def test_any_text_is_one_line_that_no_terminal_obeys(text: str) -> None:
    shown = printable(text)

    assert len(shown.splitlines()) <= 1
    assert not re.search("[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]", shown)
    assert printable(shown) == shown
    ElementTree.fromstring(f"<a>{shown.replace('&', '').replace('<', '').replace(']]>', '')}</a>")


def test_a_line_says_what_it_was_given_and_takes_none_of_it_for_markup(capsys: Shown) -> None:
    Terminal().say(TERMINAL)
    Terminal(aside=True).say("PASS", style="green", then=f"  {TERMINAL}")

    printed = capsys.readouterr()
    assert printed.out == f"{TERMINAL_SHOWN}\n"
    assert printed.err == f"PASS  {TERMINAL_SHOWN}\n"


def test_what_the_encoding_of_the_terminal_lacks_is_shown_as_its_code(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", stream)

    Terminal().say("1→2")
    stream.flush()

    assert stream.buffer.getvalue() == b"1\\u21922\n"


def test_a_list_of_runs_shows_hostile_names_and_has_a_row_for_each(
    tmp_path: Path, capsys: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_run(tmp_path / "one", id="[/bold]", system="\x1b[31m")
    a_run(tmp_path / "two", id=":bug:\u202e")
    monkeypatch.setenv("COLUMNS", "200")

    assert ended(["list", "--runs", str(tmp_path)], monkeypatch) == 0

    out = capsys.readouterr().out
    assert out.count("[/bold]") == 1
    assert "\\u001b[31m" in out
    assert ":bug:\\u202e" in out
    assert "\x1b" not in out
    assert len(out.splitlines()) == 3


def test_the_list_as_json_is_json_whatever_the_names(
    tmp_path: Path, capsys: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_run(tmp_path / "one", scenario=TERMINAL)

    assert ended(["list", "--json", "--runs", str(tmp_path)], monkeypatch) == 0

    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line)["scenario"] == TERMINAL


@pytest.mark.parametrize(
    "arguments",
    [
        ["check", "PLACE"],
        ["run", "PLACE"],
        ["report", "PLACE"],
        ["show", "PLACE"],
        ["scenarios", "PLACE"],
        ["PLACE"],
        ["run", "unclean-election", "--set", "PLACE"],
        ["check", "x", "--format", "PLACE"],
    ],
)
def test_an_error_is_one_line_with_the_culprits_name_as_it_is_written(
    arguments: list[str], tmp_path: Path, capsys: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    hostile = "no\nPASS\x1b[2J[[topics]]\udcff"

    assert ended([each.replace("PLACE", hostile) for each in arguments], monkeypatch) == 2

    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert r"no\nPASS\u001b[2J[[topics]]\udcff" in printed.err.replace("\\\\", "\\").replace("\\x1b", "\\u001b")


def test_an_error_as_long_as_what_was_given_keeps_its_place_and_its_remedy(
    capsys: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ended(["run", "unclean-election", "--set", "y" * 100_000], monkeypatch) == 2
    assert len(capsys.readouterr().err) < 2100
    line = f"place: {'x' * 9000}; remedy"
    assert shortened(line).startswith("place: xx")
    assert shortened(line).endswith("xx; remedy")
    assert len(shortened(line)) < 2000


def test_help_keeps_what_stands_in_square_brackets(capsys: Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ended(["run", "--help"], monkeypatch) == 0

    assert "[attached]" in re.sub(r"\s+", " ", capsys.readouterr().out)


def test_a_verdict_names_hostile_topics_and_stays_as_many_lines_as_it_has(capsys: Shown, tmp_path: Path) -> None:
    finding = SimpleNamespace(classification="violation", sentence=f"lost in {TERMINAL}")
    judgement = Judgement(
        verdict=Verdict.VIOLATION,
        sentence=f"Violation: lost in {TERMINAL}",
        reasons=(),
        counts={},
        coverage=(),
        expectations=(),
        as_expected=False,
        expected="pass",
        accounting=row_of(Sums),
        findings=(("F1", finding),),  # type: ignore[arg-type]
        excuse_nothing=(f"0a  was accepted until {TERMINAL}",),
    )
    judged = Judged(folder=tmp_path / "a\x1b[1mb", judgement=judgement, page=None, page_error=TERMINAL)

    presentation.print_outcome(Terminal(), judged)
    Terminal().say(verdict_line(judged))

    out = capsys.readouterr().out
    assert len(out.splitlines()) == 6
    assert out.count(TERMINAL_SHOWN) == 5
    assert r"a\u001b[1mb" in out


def test_the_log_of_a_run_has_a_line_for_each_record(tmp_path: Path) -> None:
    path = tmp_path / "harness.log"
    handler = logging.FileHandler(path, encoding="utf-8")
    handler.setFormatter(LogLines())
    handler.handle(logging.LogRecord("kafka", logging.INFO, "", 0, "topic %s", (TERMINAL,), None))
    handler.close()

    (line,) = path.read_text(encoding="utf-8").splitlines()
    assert line.endswith(TERMINAL_SHOWN)


@pytest.mark.parametrize("commits", [{}, {"kafka-chaos": {"commit": "0123456789abcdef", "state": "modified"}}])
def test_the_last_line_of_a_run_says_what_it_came_from_and_how_to_do_it_again(
    commits: dict[str, object], capsys: Shown, tmp_path: Path
) -> None:
    folder = RunFolder(a_run(tmp_path / "a run", versions={"kafka-chaos": "1.2"}, commits=commits))

    presentation.print_origin(Terminal(), folder)

    commit = " (0123456789ab, modified)" if commits else ""
    again = f"kafka-chaos run '{folder.path}'"
    assert capsys.readouterr().out == f"Seed 7, kafka-chaos 1.2{commit}; again: {again}\n"


def test_junit_xml_is_xml_whatever_a_run_said(tmp_path: Path) -> None:
    cell = Cell(
        scenario=TERMINAL,
        number=1,
        seed=1,
        folder=TERMINAL,
        stated="pass",
        seen="violation",
        as_stated=False,
        duration_s=1.0,
        note=f"{TERMINAL}\ufffe",
    )

    write_junit(Verified(cells=[cell], left_out={}), tmp_path / "junit.xml")

    (case,) = ElementTree.parse(tmp_path / "junit.xml").getroot()
    assert case.get("name") == f"{TERMINAL_SHOWN} #1"
    assert str(case[0].get("message")).endswith(f"{TERMINAL_SHOWN}\\ufffe")
