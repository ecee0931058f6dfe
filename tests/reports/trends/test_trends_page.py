"""The page of trends shows each night's verdicts, marks what changed, and says since when a finding is known."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.browser import Pipe
from harness.errors import UsageError
from harness.trends.store import Night, NotRun, Store
from reports.trends.page import build, write_trends
from tests.harness.trends.test_store import night
from tests.reports.pages_in_a_browser import Opened


def filled_store(path: Path) -> Store:
    store = Store(path)
    for number in range(1, 26):
        store.append(
            night(
                number,
                *(["aa"] if number in (1, 10, 20) else []),
                *(["bb"] if number == 25 else []),
                recovery_s=2.0 if number < 15 else 5.0,
                verdict="violation" if number in (1, 10, 20, 25) else "pass",
            )
        )
    return store


def test_findings_have_their_first_and_last_night_and_a_new_one_is_told_first(tmp_path: Path) -> None:
    page = build(filled_store(tmp_path))
    new, old = page.findings
    assert page.headline == "Last night, 20261125-020000-nightly: 1 violation; 1 violation never seen before."
    assert (new.fingerprint, new.is_new, new.is_gone) == ("bb", True, False)
    assert (old.first, old.last) == ("20261101-020000-nightly", "20261120-020000-nightly")
    assert (old.nights, old.lately, old.is_gone) == (3, "seen in 2 of the last 20 nights", True)


_BROKEN_WORDS = """[...document.querySelectorAll(".fnd td:first-child")].flatMap((cell) => {
  const text = cell.firstChild, range = document.createRange();
  return [...text.textContent.matchAll(/[a-z]+/g)].filter((word) => {
    range.setStart(text, word.index);
    range.setEnd(text, word.index + word[0].length);
    return range.getClientRects().length > 1;
  }).map((word) => word[0]);
})"""


@pytest.mark.browser
@pytest.mark.parametrize("width", [390, 1400])
def test_no_word_of_a_finding_is_broken_and_no_page_is_wider_than_its_window(
    tmp_path: Path, pipe: Pipe, width: int
) -> None:
    plain, store = night(1, "3045ad3fda59b98b"), Store(tmp_path)
    found = [replace(each, check="acknowledged-regression", classification="observation") for each in plain.findings]
    store.append(replace(plain, findings=found))
    page, _ = write_trends(store, out=tmp_path / "out")
    opened = Opened(pipe, page, width=width)
    assert opened.ask("document.querySelectorAll('.fnd td:first-child').length") == 1
    assert opened.ask(_BROKEN_WORDS) == []
    assert opened.ask("document.documentElement.scrollWidth <= innerWidth")


def test_a_change_is_marked_at_its_night_and_named(tmp_path: Path) -> None:
    curves = {curve.measure: curve for curve in build(filled_store(tmp_path)).curves[0].curves}
    ((_, reported),) = curves["Recovery, the longest after a fault"].changes
    assert reported == "20261115-020000-nightly: from 2 to 5 s"
    assert curves["Records acknowledged per second"].changes == []


def test_every_night_of_a_scenario_has_a_square(tmp_path: Path) -> None:
    (row,) = build(filled_store(tmp_path)).history
    assert [square.verdict for square in row.squares].count("violation") == 4
    assert len(row.squares) == 25


def test_what_a_night_did_not_run_has_its_square_with_the_reason(tmp_path: Path) -> None:
    store, made = filled_store(tmp_path), night(26)
    left_out = [
        NotRun(scenario="leader-crash", system="reference", count=2, reason="its time is over"),
        NotRun(scenario="zombie", system="reference (docker)", count=1, reason="no Docker engine answers"),
    ]
    store.append(replace(made, not_run=left_out))
    page = build(store)
    assert page.headline == "Last night, 20261126-020000-nightly: 1 pass; 3 not run."
    assert page.not_run == ["2 not run: its time is over", "1 not run: no Docker engine answers"]
    known, never = page.history
    assert (known.squares[-1].verdict, known.squares[-1].title) == (
        "pass",
        "20261126-020000-nightly: 1 pass, 2 not run: its time is over",
    )
    assert (never.scenario, never.squares[-1].verdict) == ("zombie", "")
    assert never.squares[-1].title == "20261126-020000-nightly: 1 not run: no Docker engine answers"
    assert never.squares[0].title.endswith(": not run")


def test_the_page_is_one_file_without_links_to_elsewhere_and_escapes_what_runs_say(tmp_path: Path) -> None:
    store = filled_store(tmp_path)
    (run,) = night(26).runs
    hostile = type(run)(**{**run.__dict__, "scenario": "<script>alert(1)</script>\u202e"})
    store.append(Night(name="20261126-020000-nightly", runs=[hostile], findings=[]))
    page, _ = write_trends(store, out=tmp_path)
    html = page.read_text(encoding="utf-8")
    assert "<script" not in html
    assert "&lt;script&gt;" in html
    assert "\u202e" not in html
    assert "http" not in html
    assert json.loads((tmp_path / "trends.json").read_text())["all_nights"] == 26


def test_a_page_is_no_longer_than_its_rows_however_long_their_texts_are(tmp_path: Path) -> None:
    store, long = filled_store(tmp_path), "y" * 100_000
    (run,), (finding,) = night(26).runs, night(26, "aa").findings
    runs = [replace(run, scenario=f"{number}{long}", system=long) for number in range(3)]
    findings = [replace(finding, fingerprint=f"{number}{long}", check=long, cause=long) for number in range(3)]
    store.append(Night(name="20261126-020000-nightly", runs=runs, findings=findings))
    store.append(Night(name="20261127-020000-nightly", runs=runs, findings=findings))
    page, _ = write_trends(store, out=tmp_path)
    for file in (page, tmp_path / "trends.json"):
        assert file.stat().st_size < 200_000
        assert long[:1000] not in file.read_text(encoding="utf-8")


def test_a_store_without_nights_says_how_one_gets_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no nights yet"):
        build(Store(tmp_path))
