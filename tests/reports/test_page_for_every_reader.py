"""A page is read in the light and in the dark, on a telephone, without its script, and can be taken along in parts."""

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.browser import Pipe
from reports.render import write_report
from tests.reports.pages_in_a_browser import LOW_CONTRASTS, Opened
from tests.reports.stories.judged_folder import quiet_run
from tests.reports.stories.unclean_story import loss_run
from tests.reports.stories.zombie_story import zombie_run
from tests.reports.test_other_runs import copy_of
from tests.reports.test_page_in_a_browser import hostile_run

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A page of each kind; the permitted loss has other runs beside it."""
    runs = tmp_path_factory.mktemp("runs")
    loss = loss_run(runs)
    copy_of(loss, "before-unclean-election", days=-1)
    copy_of(loss, "after-unclean-election", days=1, page=False)
    return {
        "loss": write_report(loss),
        "violation": write_report(loss_run(tmp_path_factory.mktemp("runs"), classification="violation")),
        "zombie": write_report(zombie_run(tmp_path_factory.mktemp("runs"))),
        "quiet": write_report(quiet_run(tmp_path_factory.mktemp("runs"))),
        "vacuous": write_report(quiet_run(tmp_path_factory.mktemp("runs"), verdict="vacuous", sentence="Vacuous: x.")),
        "hostile": write_report(hostile_run(tmp_path_factory.mktemp("runs"))),
    }


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("kind", ["loss", "violation", "quiet", "vacuous"])
def test_every_text_has_the_contrast_that_aa_asks_for(
    pages: dict[str, Path], pipe: Pipe, kind: str, scheme: str
) -> None:
    opened = Opened(pipe, pages[kind], scheme=scheme)
    opened.ask("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    opened.ask("document.querySelectorAll('.one:not(.isopen) .open, .unfold').forEach((one) => one.click())")
    assert opened.ask("document.querySelectorAll('*').length") > 200
    assert opened.ask(LOW_CONTRASTS) == {}


@pytest.mark.parametrize("width", [360, 800])
@pytest.mark.parametrize("kind", ["loss", "violation", "zombie", "quiet", "hostile"])
def test_the_page_never_scrolls_sideways(pages: dict[str, Path], pipe: Pipe, kind: str, width: int) -> None:
    opened = Opened(pipe, pages[kind], width=width)
    opened.ask("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    opened.ask("document.querySelectorAll('.one:not(.isopen) .open, .unfold').forEach((one) => one.click())")
    wide, window = opened.ask("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
    assert wide <= window <= width


def test_every_table_and_picture_says_what_it_is(pages: dict[str, Path], pipe: Pipe) -> None:
    opened = Opened(pipe, pages["loss"])
    assert opened.ask("[...document.querySelectorAll('table')].filter((one) => !one.caption).length") == 0
    assert (
        opened.ask("[...document.querySelectorAll('figure')].filter((one) => !one.querySelector('figcaption')).length")
        == 0
    )
    nameless = "svg:not([aria-hidden]):not([aria-label])"
    assert opened.ask(f"document.querySelectorAll('{nameless}').length") == 0
    assert opened.ask("[...document.querySelectorAll('thead th')].filter((one) => !one.textContent.trim()).length") == 0


def test_folded_rows_open_in_place_and_close_again(pages: dict[str, Path], pipe: Pipe) -> None:
    opened = Opened(pipe, pages["loss"])
    rows = "[...document.querySelectorAll('#F1 .log tbody th')].filter((one) => one.checkVisibility()).length"
    before = opened.ask(rows)
    opened.ask("document.querySelector('#F1 .log .unfold').click()")
    assert opened.ask(rows) == before + 27
    assert opened.ask("document.querySelector('#F1 .log .unfold').getAttribute('aria-expanded')") == "true"
    opened.ask("document.querySelector('#F1 .log .unfold').click()")
    assert opened.ask(rows) == before


def test_without_its_script_all_rows_are_there_and_nothing_offers_to_copy(pages: dict[str, Path], pipe: Pipe) -> None:
    opened = Opened(pipe, pages["loss"], script=False)
    hidden = "[...document.querySelectorAll('.inside, .drill')].filter((one) => !one.checkVisibility()).length"
    assert opened.ask(hidden) == 0
    assert opened.ask("[...document.querySelectorAll('.acts')].filter((one) => one.checkVisibility()).length") == 0


def _click(opened: Opened, selector: str) -> dict[str, Any]:
    """What a click on a button that copies came to; `kept`: what a clipboard was given."""
    found: dict[str, Any] = opened.ask(
        """(async () => {
          const button = document.querySelector(SELECTOR);
          const finding = button.closest(".one:not(.isopen)");
          if (finding) finding.querySelector(".open").click();
          button.click();
          const says = button.parentElement.querySelector("output");
          while (!says.textContent) await new Promise((done) => setTimeout(done));
          const field = document.activeElement;
          const selected = field && field.select ? field.value : String(getSelection());
          return {says: says.textContent, selected, kept: window.kept || ""};
        })()""".replace("SELECTOR", json.dumps(selector))
    )
    return found


_CLIPBOARD = """Object.defineProperty(navigator, "clipboard",
  {configurable: true, value: {writeText: async (text) => { window.kept = text; }}})"""
_NONE = """(() => { Object.defineProperty(navigator, "clipboard", {configurable: true, value: undefined});
  document.execCommand = () => false; })()"""


@pytest.mark.parametrize(
    ("selector", "begins"),
    [
        (".head [data-copy='md-F1']", "## 37 acknowledged records of orders-0"),
        ("#F2 [data-copy='md-F2']", "## unclean-election (permitted)"),
        ("#F1 [data-copy='lv-F1']", "260: p1-000180"),
        ("#F2 [data-link='F2']", "file:///"),
        ("#env [data-copy='cmd-1']", "kafka-chaos run unclean-election --seed 7"),
    ],
)
def test_what_is_copied_is_what_stands_there_and_without_a_clipboard_it_is_shown_selected(
    pages: dict[str, Path], pipe: Pipe, selector: str, begins: str
) -> None:
    opened = Opened(pipe, pages["loss"])
    opened.ask(f"void {_CLIPBOARD}")
    copied = _click(opened, selector)
    assert copied["says"] == "Copied."
    assert copied["kept"].startswith(begins)

    opened = Opened(pipe, pages["loss"])
    opened.ask(_NONE)
    shown = _click(opened, selector)
    assert shown["says"] == "Selected: copy it with Ctrl+C or Cmd+C."
    assert " ".join(shown["selected"].split()) == " ".join(copied["kept"].split())


def test_a_copied_link_opens_its_finding(pages: dict[str, Path], pipe: Pipe) -> None:
    opened = Opened(pipe, pages["loss"])
    opened.ask(f"void {_CLIPBOARD}")
    link = _click(opened, "#F2 [data-link='F2']")["kept"]
    assert link.endswith("report.html#F2")
    opened.ask("location.hash = '#F2'")
    opened.ask("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    assert opened.ask("document.getElementById('F2').classList.contains('isopen')") is True
