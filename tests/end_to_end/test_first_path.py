"""The first thing a user does: run a scenario that loses records, and read which ones, from terminal and page."""

import hashlib
import html
import json
import re
import subprocess
from itertools import takewhile
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.end_to_end.recomputed import lost_records
from tests.end_to_end.shell import Shell


@pytest.fixture(scope="module")
def ended(shell: Shell) -> subprocess.CompletedProcess[str]:
    return shell.run("run", "unclean-election")


@pytest.fixture(scope="module")
def folder(shell: Shell, ended: subprocess.CompletedProcess[str]) -> Path:
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return shell.folder


def text_of(value: int) -> str:
    return f"p{value >> 40}-{value & (1 << 40) - 1:06d}"


def test_the_run_passes_and_says_what_was_lost_and_why_it_may_be(
    ended: subprocess.CompletedProcess[str], folder: Path
) -> None:
    verdict = json.loads((folder / "verdict.json").read_text())

    assert ended.stdout.count("PASS") == 1
    assert "lost" in verdict["sentence"]
    assert verdict["sentence"] in ended.stdout
    assert verdict["verdict"] == "pass"
    assert verdict["counts"]["violation"] == 0
    assert "F1 permitted: " in ended.stdout
    assert "elected uncleanly" in ended.stdout
    assert str(folder / "report.html") in ended.stdout


def test_the_page_states_the_verdict_and_is_one_file(folder: Path) -> None:
    page = (folder / "report.html").read_text(encoding="utf-8")

    assert "PASS" in page
    assert f"<h1>{len(lost_records(folder))} acknowledged records of orders-0 were lost in an unclean election" in page
    finding = pq.read_table(folder / "tables" / "findings.parquet").to_pylist()[0]
    assert re.sub(r"(\d)-(\d)", r"\1–\2", finding["sentence_text"]) in html.unescape(page), "ranges have a dash there"
    assert "<script src" not in page
    assert '<link rel="stylesheet"' not in page


def test_the_lost_records_are_acknowledged_minus_finally_read_record_for_record(folder: Path) -> None:
    lost = lost_records(folder)
    rows = pq.read_table(folder / "tables" / "evidence_lost_records.parquet").to_pylist()

    assert lost
    assert len(rows) == len(lost)
    assert {(f"{row['topic']}-{row['partition']}", row["offset"], row["value"]) for row in rows} == lost


def test_the_page_names_every_lost_record(folder: Path) -> None:
    page = (folder / "report.html").read_text(encoding="utf-8")

    assert [text_of(value) for _, _, value in sorted(lost_records(folder)) if text_of(value) not in page] == []


def test_showing_the_finding_lists_every_lost_record(shell: Shell, folder: Path) -> None:
    ended = shell.run("show", "latest", "F1", "--all")

    assert ended.returncode == 0
    lines = ended.stdout.partition("The lost records\n")[2].splitlines()
    listed = [line.split()[:2] for line in takewhile(bool, lines[1:])]
    assert listed == [[str(offset), text_of(value)] for _, offset, value in sorted(lost_records(folder))]


def test_the_list_has_the_run_once_with_its_verdict(shell: Shell, folder: Path) -> None:
    ended = shell.run("list", "--json")

    (row,) = [json.loads(line) for line in ended.stdout.splitlines()]
    assert (row["id"], row["scenario"], row["verdict"]) == (folder.name, "unclean-election", "pass")
    assert row["violations"] == 0
    assert row["permitted"] >= 1


def test_the_page_is_the_same_to_the_byte_when_written_again(shell: Shell, folder: Path) -> None:
    before = hashlib.sha256((folder / "report.html").read_bytes()).hexdigest()
    (folder / "report.html").unlink()

    ended = shell.run("report", folder.name)

    assert (ended.returncode, ended.stdout.strip()) == (0, str(folder / "report.html"))
    assert hashlib.sha256((folder / "report.html").read_bytes()).hexdigest() == before


def test_checking_the_stored_run_again_comes_to_the_same(shell: Shell, folder: Path) -> None:
    verdict = (folder / "verdict.json").read_text()
    findings = pq.read_table(folder / "tables" / "findings.parquet").to_pylist()

    ended = shell.run("check", str(folder))

    assert ended.returncode == 0, ended.stderr
    assert json.loads((folder / "verdict.json").read_text()) == json.loads(verdict)
    assert pq.read_table(folder / "tables" / "findings.parquet").to_pylist() == findings


def test_the_run_leaves_no_process(shell: Shell, folder: Path) -> None:
    assert shell.processes() == []


def test_without_its_fault_the_scenario_proves_nothing_and_says_so(fresh_shell: Shell) -> None:
    ended = fresh_shell.run("run", "unclean-election", "--set", "steps=[]", "--set", 'workload.duration="3 s"')

    assert ended.returncode == 3, ended.stdout + ended.stderr
    assert ended.stdout.count("VACUOUS") == 1
    assert "unclean_elections" in ended.stdout + (fresh_shell.folder / "verdict.json").read_text()
    assert fresh_shell.processes() == []
