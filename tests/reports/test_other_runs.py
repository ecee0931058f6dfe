"""Other runs of the same scenario are linked as they lie beside a run, and can neither act nor cost anything."""

import json
import os
import shutil
from html.parser import HTMLParser
from pathlib import Path

import pytest

from reports.render import write_report
from reports.run.page import build
from reports.run.replay.other_runs import EACH_WAY
from tests.reports.stories.judged_folder import quiet_run
from tests.reports.stories.unclean_story import loss_run


def copy_of(run: Path, name: str, *, days: int, scenario: str = "unclean-election", page: bool = True) -> Path:
    other = run.parent / name
    shutil.copytree(run, other)
    stored = json.loads((other / "run.json").read_text())
    for anchor in stored["anchors"]:
        anchor["wall_ns"] += days * 86_400 * 10**9
    (other / "run.json").write_text(json.dumps(stored | {"id": name, "scenario": scenario}))
    if page:
        (other / "report.html").write_text("a page")
    return other


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return loss_run(tmp_path / "runs")


def named(run: Path) -> tuple[list[str], list[str]]:
    page = build(run)
    assert page.problems == []
    return [one.name for one in page.other_runs.earlier], [one.name for one in page.other_runs.later]


def test_those_before_and_after_are_told_apart_by_when_they_began(run: Path) -> None:
    copy_of(run, "z-unclean-election", days=-1)
    copy_of(run, "a-unclean-election", days=1)
    assert named(run) == (["z-unclean-election"], ["a-unclean-election"])
    (earlier,) = build(run).other_runs.earlier
    assert (earlier.seed, earlier.verdict, earlier.href) == ("7", "pass", "../z-unclean-election/report.html")
    assert earlier.began == "2026-11-19 02:16:37 UTC"


def test_the_nearest_are_listed(run: Path) -> None:
    for day in range(1, EACH_WAY + 3):
        copy_of(run, f"after-{day}-unclean-election", days=day)
    assert named(run)[1] == [f"after-{day}-unclean-election" for day in range(1, EACH_WAY + 1)]


def test_another_scenario_and_what_cannot_be_read_are_left_out_and_a_run_without_a_page_is_no_link(run: Path) -> None:
    copy_of(run, "b-unclean-election-again", days=1, scenario="unclean-election-again")
    (copy_of(run, "c-unclean-election", days=1) / "run.json").write_text("{")
    (run.parent / "d-unclean-election").mkdir()
    copy_of(run, "e-unclean-election", days=1, page=False)
    (copy_of(run, "f-unclean-election", days=2) / "verdict.json").unlink()
    quiet_run(run.parent)
    assert named(run) == ([], ["e-unclean-election", "f-unclean-election"])
    without_page, not_judged = build(run).other_runs.later
    assert (without_page.href, not_judged.verdict) == ("", "not judged")


def test_no_link_is_followed(run: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    shutil.move(copy_of(run, "g-unclean-election", days=1), elsewhere)
    (run.parent / "g-unclean-election").symlink_to(elsewhere)
    (run.parent / "latest").symlink_to(run.name)
    other = copy_of(run, "h-unclean-election", days=1)
    (other / "run.json").unlink()
    (other / "run.json").symlink_to(elsewhere / "run.json")
    page = copy_of(run, "i-unclean-election", days=2)
    (page / "report.html").unlink()
    (page / "report.html").symlink_to(elsewhere / "report.html")
    os.mkfifo(copy_of(run, "j-unclean-election", days=3, page=False) / "report.html")
    assert named(run) == ([], ["i-unclean-election", "j-unclean-election"])
    assert [one.href for one in build(run).other_runs.later] == ["", ""]


def test_a_verdict_stays_whatever_lies_beside_it(run: Path) -> None:
    before = (run / "verdict.json").read_bytes()
    (copy_of(run, "k-unclean-election", days=1) / "verdict.json").write_text('{"verdict": "violation"}')
    html = write_report(run).read_text()
    assert (run / "verdict.json").read_bytes() == before
    assert "3 lost" in html or "37 lost, permitted" in html


class _Links(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.tags: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if name == "href"]


def test_a_hostile_name_is_a_path_and_never_markup_or_a_scheme(run: Path) -> None:
    name = "javascript:x\"><img src=x onerror=1>\u202e %2f'unclean-election"
    copy_of(run, name, days=1)
    parsed = _Links(write_report(run).read_text())
    assert "img" not in parsed.tags
    (link,) = [link for link in parsed.links if "onerror" in link]
    assert link.startswith("../javascript%3Ax%22%3E%3Cimg%20")
    assert "%2520" not in link
    assert "%25%32f" not in link


def test_a_system_of_another_shape_costs_only_its_own_row(run: Path) -> None:
    other = copy_of(run, "m-unclean-election", days=1)
    stored = json.loads((other / "run.json").read_text())
    stored["anchors"][0]["wall_ns"] = 2**63 - 1
    stored["environment"] = {"system": ["x"]}
    (other / "run.json").write_text(json.dumps(stored))
    copy_of(run, "n-unclean-election", days=2)
    assert named(run) == ([], ["n-unclean-election", "m-unclean-election"])
