"""The pages about several runs, nights and folders, where all that these say was written to break out of the page."""

import shutil
import threading
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.browser import Pipe
from harness.trends.store import FindingOfNight, Night, RunOfNight, Store
from harness.web.server import Server
from reports.campaign.beside import write_campaigns_beside
from reports.campaign.page import write_campaign_page
from reports.comparison.columns import GivenColumn, GivenRun
from reports.render import write_comparison
from reports.trends.page import write_trends
from tests.harness.trends.test_store import night
from tests.reports.campaign.made_up import made_up_campaign
from tests.reports.pages_in_a_browser import Opened
from tests.reports.test_page_in_a_browser import EVERYTHING, HOSTILE, hostile_run

pytestmark = pytest.mark.browser

_ACTED = """(() => { for (const each of document.querySelectorAll("*"))
  for (const event of ["mouseover", "focus", "click", "load", "error", "toggle", "input"])
    if (!each.closest("a, iframe, form"))
      each.dispatchEvent(new Event(event, {bubbles: true, cancelable: true})); })()"""
_SEEN = """(() => ({
  owned: typeof window.owned, frames: window.frames.length, shown: getComputedStyle(document.body).display,
  sources: document.querySelectorAll("[src], link, iframe, object, embed, base, img, meta[http-equiv]").length,
  protocols: [...new Set([...document.links].map((link) => link.protocol))],
  handlers: [...document.querySelectorAll("*")].flatMap((one) => [...one.attributes].map((a) => a.name))
    .filter((name) => name.startsWith("on")),
  text: document.documentElement.textContent,
}))()"""


def comparison(top: Path) -> Path:
    run = hostile_run(top / "runs")
    given = [
        GivenColumn(label=EVERYTHING, change=(EVERYTHING,), runs=[GivenRun(path=run)]),
        GivenColumn(label=HOSTILE[0], runs=[GivenRun(path=run), GivenRun(path=None, failure=EVERYTHING)]),
    ]
    return write_comparison(given, out=top / "out")[0]


def trends(top: Path) -> Path:
    def spoilt(row: Any, **kept: Any) -> Any:
        texts = {each.name: EVERYTHING for each in fields(row) if isinstance(getattr(row, each.name), str)}
        return replace(row, **{**texts, **kept})

    store = Store(top / "store")
    for number in (1, 2):
        made = night(number, "aa", verdict="violation")
        runs: list[RunOfNight] = [spoilt(run, verdict=run.verdict) for run in made.runs]
        findings: list[FindingOfNight] = [
            spoilt(one, fingerprint=HOSTILE[0], classification=one.classification) for one in made.findings
        ]
        store.append(Night(name=made.name, runs=runs, findings=findings))
    return write_trends(store, out=top)[0]


def beside(top: Path) -> Path:
    campaigns = [made_up_campaign(top / name, runs=8, text=EVERYTHING) for name in ("a", "b")]
    return write_campaigns_beside(campaigns, out=top / "out")[0]


@pytest.mark.parametrize("make", [comparison, trends, beside])
def test_nothing_runs_and_nothing_is_loaded(make: Any, tmp_path: Path, pipe: Pipe) -> None:
    page = make(tmp_path)
    before = len(pipe.events("Network.requestWillBeSent"))
    opened = Opened(pipe, page)
    assert_harmless(opened, {"file:"})
    requests = pipe.events("Network.requestWillBeSent")[before:]
    assert {each["request"]["url"].partition("#")[0] for each in requests} == {page.resolve().as_uri()}


def test_long_names_of_one_night_push_nothing_of_the_others_out_of_sight(tmp_path: Path, pipe: Pipe) -> None:
    store, long = Store(tmp_path), "W" * 3000
    for number in (1, 2):
        made = night(number, "aa")
        (run,), (finding,) = made.runs, made.findings
        hostile = replace(finding, fingerprint=long, check=long, cause=long, scenario=long)
        runs = [run, replace(run, scenario=long, system=long)]
        store.append(Night(name=made.name, runs=runs, findings=[finding, hostile]))
    opened = Opened(pipe, write_trends(store, out=tmp_path)[0])
    assert opened.ask("document.documentElement.scrollWidth <= innerWidth")
    for cells, count in ((".hist td", 4), (".fnd td:last-child", 2)):
        rights = opened.ask(f"[...document.querySelectorAll('{cells}')].map(e => e.getBoundingClientRect().right)")
        assert len(rights) == count
        assert max(rights) <= 1280, cells


def test_a_campaign_of_long_names_is_seen_at_once_and_its_page_is_no_longer_than_its_rows(
    tmp_path: Path, pipe: Pipe
) -> None:
    page = write_campaign_page(made_up_campaign(tmp_path / "long", runs=8, text="W" * 100_000))
    assert page.stat().st_size < 500_000
    opened = Opened(pipe, page)
    assert opened.ask("document.documentElement.scrollWidth <= innerWidth")
    wide = "[...document.querySelectorAll('.frame')].filter(e => e.scrollWidth > e.clientWidth + 1).length"
    assert opened.ask(wide) == 0


@pytest.fixture
def home(tmp_path: Path) -> Iterator[str]:
    """Of a server of folders whose names are hostile, too."""
    run = hostile_run(tmp_path)
    named = HOSTILE[6].replace("/", "")
    shutil.copytree(run, tmp_path / named)
    campaign = tmp_path / "campaigns" / named
    shutil.copytree(run, campaign / "runs" / named)
    (campaign / "campaign.json").write_text("{}")
    server = Server(tmp_path, address="127.0.0.1", port=0)
    thread = threading.Thread(target=lambda: server.serve_forever(poll_interval=0.01))
    thread.start()
    try:
        yield server.url
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_the_lists_of_serve_run_and_load_nothing_of_what_they_list(home: str, pipe: Pipe) -> None:
    before = len(pipe.events("Network.requestWillBeSent"))
    opened = Opened(pipe, home)
    assert_harmless(opened, {"http:"})
    places = opened.ask("[...document.links].map((link) => link.href)")
    assert any("/campaign/" in place for place in places)
    assert any("/live/" in place for place in places)
    searched = [f"{home}search?finding=lost-write", f"{home}search?finding=%3Cscript%3Ewindow.owned%3D1%3C/script%3E"]
    for place in [*(place for place in places if "/campaign/" in place or "/live/" in place), *searched]:
        assert_harmless(Opened(pipe, place), {"http:"})
    requests = pipe.events("Network.requestWillBeSent")[before:]
    assert all(each["request"]["url"].startswith(home) for each in requests)


def assert_harmless(opened: Opened, protocols: set[str]) -> None:
    opened.ask(_ACTED)
    seen = opened.ask(_SEEN)
    assert (seen["owned"], seen["frames"], seen["sources"], seen["handlers"]) == ("undefined", 0, 0, [])
    assert seen["shown"] != "none"
    assert set(seen["protocols"]) <= protocols
    assert not any(mark in seen["text"] for mark in ("\u202e", "\x1b", "\ud800"))
