"""Campaigns side by side: what only one of them found is said to be so, and every name is shown and none is run."""

import json
from pathlib import Path

import pytest

from harness.errors import HarnessError, UsageError
from harness.host.printable import visible
from reports.campaign.beside import write_campaigns_beside
from reports.campaign.page import write_campaign_page
from tests.reports.campaign.made_up import made_up_campaign
from tests.reports.test_page_in_a_browser import EVERYTHING, OWN


def test_verdicts_and_groups_are_counted_for_each_and_what_one_has_alone_comes_first(tmp_path: Path) -> None:
    first = made_up_campaign(tmp_path / "a", runs=60)
    second = made_up_campaign(tmp_path / "b", runs=80, groups=7)
    page, headline = write_campaigns_beside([first, second], out=tmp_path / "out")
    html = page.read_text(encoding="utf-8")

    assert headline == "5 different violations: 1 only in B, 4 in both."
    assert headline in html
    assert html.index("fp6") < html.index("fp0")
    stored = json.loads((tmp_path / "out" / "campaigns.json").read_text(encoding="utf-8"))
    assert [(each["letter"], each["runs"], each["counts"]["violation"]) for each in stored["campaigns"]] == [
        ("A", 60, 8),
        ("B", 80, 11),
    ]
    assert "fp6" not in stored["campaigns"][0]["groups"]


def test_distributions_stand_below_each_other_and_lead_to_the_runs_of_the_right_campaign(tmp_path: Path) -> None:
    first = made_up_campaign(tmp_path / "a", runs=60)
    second = made_up_campaign(tmp_path / "b", runs=60)
    write_campaign_page(second)
    html = write_campaigns_beside([first, second], out=tmp_path / "out")[0].read_text(encoding="utf-8")

    assert html.index("reference · A") < html.index("reference · B")
    assert 'href="../b/campaign.html#r' in html
    assert 'href="../a/' not in html


def test_what_a_campaign_calls_itself_is_shown_and_not_run(tmp_path: Path) -> None:
    hostile = made_up_campaign(tmp_path / "a", runs=12, text=EVERYTHING)
    html = write_campaigns_beside([hostile, hostile], out=tmp_path / "out")[0].read_text(encoding="utf-8")

    assert f"<script>{OWN}" not in html
    assert html.count("<script>") == 1
    assert "<img" not in html
    assert visible("\u202egnp.exe") in html
    assert "\u202e" not in html


def test_too_few_and_too_many_campaigns_are_refused(tmp_path: Path) -> None:
    folder = made_up_campaign(tmp_path / "a", runs=8)
    for count in (0, 1, 7):
        with pytest.raises(UsageError, match="give two campaigns to compare, or up to 6"):
            write_campaigns_beside([folder] * count, out=tmp_path / "out")


def test_a_page_that_cannot_be_written_is_one_line_with_a_remedy(tmp_path: Path) -> None:
    folder = made_up_campaign(tmp_path / "a", runs=8)
    (tmp_path / "out").write_text("a file", encoding="utf-8")
    with pytest.raises(HarnessError, match="give another folder with --out"):
        write_campaigns_beside([folder, folder], out=tmp_path / "out")
