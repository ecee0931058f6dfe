"""The page of a campaign, as a real browser opens it from file://: it is clicked, filtered, drilled down and walked."""

import json
from pathlib import Path

import pytest

from benchmarks.browser import Pipe
from harness.host.printable import visible
from reports.campaign.beside import write_campaigns_beside
from reports.campaign.page import write_campaign_page
from tests.reports.campaign.made_up import made_up_campaign
from tests.reports.pages_in_a_browser import LOW_CONTRASTS, Opened
from tests.reports.test_page_in_a_browser import EVERYTHING, HOSTILE

pytestmark = pytest.mark.browser

RUNS = 60
_SHOWN = "[...document.querySelectorAll('SELECTOR')].filter((one) => one.checkVisibility())"
_TWO_FRAMES = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_campaign_page(made_up_campaign(tmp_path_factory.mktemp("campaign"), runs=RUNS))


@pytest.fixture(scope="module")
def beside(page: Path, hostile: Path) -> Path:
    """The two of them on one page."""
    return write_campaigns_beside([page.parent, hostile.parent], out=page.parent / "beside")[0]


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_campaign_page(made_up_campaign(tmp_path_factory.mktemp("campaign"), runs=12, text=EVERYTHING))


def numbers(opened: Opened, selector: str = "#runs tbody.one") -> list[str]:
    """Of the runs whose rows, or what else has a run's number, can be seen."""
    reported = opened.ask(f"{_SHOWN.replace('SELECTOR', selector)}.map((one) => one.dataset.run)")
    return [str(number) for number in reported]


def pick(opened: Opened, field: str, value: str) -> None:
    opened.ask(
        f"(() => {{ const field = document.querySelector('[data-pick={field}]'); field.value = {json.dumps(value)}; "
        "field.dispatchEvent(new Event('input', {bubbles: true})); })()"
    )


def press(opened: Opened, key: str) -> None:
    opened.ask(
        f"void document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {{key: '{key}', bubbles: true}}))"
    )


def test_a_click_on_a_run_in_the_grid_opens_its_row_and_what_it_says(page: Path, pipe: Pipe) -> None:
    opened = Opened(pipe, page)
    assert opened.ask("document.querySelector('#r14 .say').checkVisibility()") is False
    opened.ask("document.querySelector('#grid a.sq[data-run=\"14\"]').click()")
    opened.ask(_TWO_FRAMES)
    assert opened.ask("document.querySelector('#r14 .say').checkVisibility()") is True
    assert "12 records acknowledged" in opened.ask("document.querySelector('#r14 .say').textContent")
    assert opened.ask("document.querySelectorAll('#r14 .ops tbody tr').length") == 3
    assert opened.ask("document.activeElement === document.querySelector('#r14 .open')") is True
    assert opened.ask("document.querySelector('#r14 .open').getAttribute('aria-expanded')") == "true"
    opened.ask("document.querySelector('#r14 .open').click()")
    assert opened.ask("document.querySelector('#r14 .say').checkVisibility()") is False


def test_a_verdict_is_picked_everywhere_at_once_and_given_back(page: Path, pipe: Pipe) -> None:
    violated = [str(number) for number in range(7, RUNS, 7)]
    opened = Opened(pipe, page)
    assert len(numbers(opened)) == RUNS
    pick(opened, "verdict", "violation")
    assert numbers(opened) == violated
    clear = opened.ask("[...document.querySelectorAll('#grid a.sq:not(.dim)')].map((one) => one.dataset.run)")
    assert sorted(clear) == sorted(violated)
    assert opened.ask("document.querySelector('.pick output').textContent").startswith(f"{len(violated)} of {RUNS}")
    dim = opened.ask("[...new Set([...document.querySelectorAll('circle.dim')].map((one) => one.dataset.run))]")
    assert dim
    assert not set(dim) & set(violated)
    pick(opened, "verdict", "not_run")
    assert numbers(opened) == [str(RUNS)]
    assert opened.ask("document.querySelector('#groups .none').checkVisibility()") is True
    opened.ask("document.querySelector('.pick [type=reset]').click()")
    opened.ask(_TWO_FRAMES)
    assert len(numbers(opened)) == RUNS
    assert opened.ask("document.querySelectorAll('#grid .dim, circle.dim').length") == 0


def test_a_thousand_runs_are_filtered_and_drilled_down_as_well(
    tmp_path_factory: pytest.TempPathFactory, pipe: Pipe
) -> None:
    opened = Opened(pipe, write_campaign_page(made_up_campaign(tmp_path_factory.mktemp("campaign"), runs=1000)))
    assert len(numbers(opened)) == 1000
    pick(opened, "verdict", "violation")
    assert numbers(opened) == [str(number) for number in range(7, 1000, 7)]
    opened.ask("document.querySelector('#grid a.sq[data-run=\"7\"]').click()")
    opened.ask(_TWO_FRAMES)
    assert opened.ask("document.querySelector('#r7 .say').checkVisibility()") is True


def test_a_system_and_a_fault_leave_their_runs_and_their_distributions(page: Path, pipe: Pipe) -> None:
    opened = Opened(pipe, page)
    pick(opened, "system", "kafka:4.3.1")
    assert numbers(opened) == [str(number) for number in range(5, RUNS + 1, 5)]
    pick(opened, "fault", "pause")
    left = opened.ask(
        "[...document.querySelectorAll('#runs tbody.one')].filter((one) => !one.hidden)"
        ".map((one) => [one.dataset.system, one.dataset.faults.split('|').includes('pause')])"
    )
    assert left
    assert all(row == ["kafka:4.3.1", True] for row in left)
    strips = opened.ask(
        f"{_SHOWN.replace('SELECTOR', '.dist .sp[data-fault]')}.map((one) => [one.dataset.fault, one.dataset.system])"
    )
    assert strips == [["pause", "kafka:4.3.1"]] * 3
    heads = f"{_SHOWN.replace('SELECTOR', '.dist .nm b')}.map((one) => one.textContent)"
    assert opened.ask(heads) == ["pause"] * 3


def test_text_is_looked_for_in_names_seeds_and_sentences(page: Path, pipe: Pipe) -> None:
    opened = Opened(pipe, page)
    pick(opened, "text", "REPLICATION-9")
    assert numbers(opened) == ["9"]
    pick(opened, "text", str(7919 * 23))
    assert numbers(opened) == ["23"]
    pick(opened, "text", "no such thing")
    assert numbers(opened) == []
    assert opened.ask("document.querySelector('#runs .none').checkVisibility()") is True


def test_a_group_is_drilled_down_to_its_runs(page: Path, pipe: Pipe) -> None:
    opened = Opened(pipe, page)
    opened.ask("document.querySelector('#G1 .row td').click()")
    assert opened.ask("document.querySelector('#G1 .when').checkVisibility()") is True
    marks = opened.ask("[...document.querySelectorAll('#G1 .when a')].map((one) => one.hash)")
    opened.ask("document.querySelector('#G1 [data-only]').click()")
    assert [f"#r{number}" for number in numbers(opened)] == marks
    assert opened.ask(f"{_SHOWN.replace('SELECTOR', '#groups tbody.one')}.map((one) => one.id)") == ["G1"]
    assert opened.ask("document.querySelector('#G1 [data-only]').getAttribute('aria-pressed')") == "true"
    opened.ask("document.querySelector('#G1 .when a').click()")
    opened.ask(_TWO_FRAMES)
    assert opened.ask(f"document.querySelector('{marks[0]} .say').checkVisibility()") is True
    opened.ask("document.querySelector('#G1 [data-only]').click()")
    assert len(numbers(opened)) == RUNS


def test_a_link_to_a_run_that_is_not_shown_shows_it(page: Path, pipe: Pipe) -> None:
    opened = Opened(pipe, page)
    pick(opened, "verdict", "violation")
    opened.ask("location.hash = '#r3'")
    opened.ask(_TWO_FRAMES)
    assert opened.ask("document.querySelector('#r3 .say').checkVisibility()") is True


def test_a_dot_of_a_distribution_leads_to_its_run(page: Path, pipe: Pipe) -> None:
    opened = Opened(pipe, page)
    number = opened.ask(
        "(() => { const dot = document.querySelector('.dist circle'); "
        "dot.dispatchEvent(new MouseEvent('click', {bubbles: true})); return dot.dataset.run; })()"
    )
    opened.ask(_TWO_FRAMES)
    assert opened.ask(f"document.querySelector('#r{number} .say').checkVisibility()") is True


def test_the_grid_is_one_stop_of_the_tab_key_and_arrows_walk_in_it(page: Path, pipe: Pipe) -> None:
    opened = Opened(pipe, page)
    order = opened.ask("[...document.querySelectorAll('#grid a.sq')].map((one) => one.dataset.run)")
    here = "document.activeElement.dataset.run"
    assert opened.ask("document.querySelectorAll('#grid a.sq[tabindex=\"0\"]').length") == 1
    opened.ask("document.querySelector('#grid a.sq[tabindex=\"0\"]').focus()")
    assert opened.ask(here) == order[0]
    press(opened, "ArrowRight")
    assert opened.ask(here) == order[1]
    assert f"run {order[1]} " in opened.ask("document.querySelector('.peek').textContent")
    press(opened, "ArrowLeft")
    press(opened, "ArrowDown")
    assert opened.ask(f"{here} !== {json.dumps(order[0])}") is True
    press(opened, "ArrowUp")
    assert opened.ask(here) == order[0]
    press(opened, "End")
    assert opened.ask(here) == order[-1]
    assert opened.ask("document.querySelectorAll('#grid a.sq[tabindex=\"0\"]').length") == 1


def test_without_its_script_everything_is_there_and_nothing_offers_to_filter(page: Path, pipe: Pipe) -> None:
    opened = Opened(pipe, page, script=False)
    assert opened.ask("[...document.querySelectorAll('.say')].filter((one) => !one.checkVisibility()).length") == 0
    assert opened.ask("document.querySelectorAll('.say').length") > RUNS
    offers = ".pick, .acts, .peek"
    assert opened.ask(f"{_SHOWN.replace('SELECTOR', offers)}.length") == 0


@pytest.mark.parametrize("width", [800, 1280])
def test_how_often_a_group_was_seen_is_one_line(page: Path, pipe: Pipe, width: int) -> None:
    opened = Opened(pipe, page, width=width)
    lines = opened.ask(
        "[...document.querySelectorAll('#groups .row small')].map((one) => "
        "{ const all = document.createRange(); all.selectNodeContents(one); return all.getClientRects().length })"
    )
    assert lines
    assert set(lines) == {1}


@pytest.mark.parametrize("width", [360, 800])
@pytest.mark.parametrize("kind", ["page", "hostile", "beside"])
def test_the_page_never_scrolls_sideways(request: pytest.FixtureRequest, pipe: Pipe, kind: str, width: int) -> None:
    opened = Opened(pipe, request.getfixturevalue(kind), width=width)
    opened.ask("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    opened.ask("[...document.querySelectorAll('.one:not(.isopen) .open')].slice(0, 9).forEach((one) => one.click())")
    wide, window = opened.ask("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
    assert wide <= window <= width


@pytest.mark.parametrize("kind", ["page", "beside"])
def test_nothing_to_read_or_press_is_out_of_a_phone_s_sight(
    request: pytest.FixtureRequest, pipe: Pipe, kind: str
) -> None:
    opened = Opened(pipe, request.getfixturevalue(kind), width=390)
    opened.ask("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    beyond = "(one) => one.checkVisibility() && one.getBoundingClientRect().right > innerWidth"
    wanted = "main a, main button, main select, main input, main td, nav a"
    assert opened.ask(f"[...document.querySelectorAll('{wanted}')].filter({beyond}).map((one) => one.outerHTML)") == []


@pytest.mark.parametrize("kind", ["page", "beside"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_has_the_contrast_that_aa_asks_for(
    request: pytest.FixtureRequest, pipe: Pipe, scheme: str, kind: str
) -> None:
    opened = Opened(pipe, request.getfixturevalue(kind), scheme=scheme)
    opened.ask("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    opened.ask("[...document.querySelectorAll('.one:not(.isopen) .open')].slice(0, 9).forEach((one) => one.click())")
    assert opened.ask("document.querySelectorAll('*').length") > 1000
    assert opened.ask(LOW_CONTRASTS) == {}


def test_every_table_and_picture_says_what_it_is(page: Path, pipe: Pipe) -> None:
    opened = Opened(pipe, page)
    assert opened.ask("[...document.querySelectorAll('table')].filter((one) => !one.caption).length") == 0
    assert opened.ask("document.querySelectorAll('svg:not([aria-hidden]):not([aria-label])').length") == 0
    assert opened.ask("[...document.querySelectorAll('thead th')].filter((one) => !one.textContent.trim()).length") == 0
    assert opened.ask("[...document.querySelectorAll('a.sq')].filter((one) => !one.ariaLabel).length") == 0


def test_nothing_that_a_campaign_says_runs_in_the_browser_and_all_of_it_is_shown(hostile: Path, pipe: Pipe) -> None:
    before = len(pipe.events("Network.requestWillBeSent"))
    opened = Opened(pipe, hostile)
    opened.ask(
        """(() => { for (const each of document.querySelectorAll("*"))
          for (const event of ["mouseover", "focus", "click", "load", "error", "toggle", "input"])
            each.dispatchEvent(new Event(event, {bubbles: true, cancelable: true})); })()"""
    )
    opened.ask(_TWO_FRAMES)
    requests = pipe.events("Network.requestWillBeSent")[before:]
    assert {each["request"]["url"].partition("#")[0] for each in requests} == {hostile.resolve().as_uri()}
    assert opened.ask("typeof window.owned") == "undefined"
    assert opened.ask("document.querySelectorAll('.problem').length") == 0
    assert opened.ask("[document.scripts.length, window.frames.length]") == [1, 0]
    assert opened.ask("document.querySelectorAll('[src], link, iframe, object, embed, base, img').length") == 0
    assert opened.ask("[...new Set([...document.links].map((link) => link.protocol))]") == ["file:"]
    handlers = "[...document.querySelectorAll('*')].flatMap((one) => [...one.attributes].map((a) => a.name))"
    assert opened.ask(f"{handlers}.filter((name) => name.startsWith('on'))") == []
    text = " ".join(str(opened.ask("document.documentElement.textContent")).split())
    for each in HOSTILE[:-1]:
        assert " ".join(visible(each).split()) in text, each
