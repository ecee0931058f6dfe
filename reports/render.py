"""One HTML file from one page model: self-contained, escaped, working from file:// with no network.

Everything that comes from a run is data: the template escapes it, and characters that could reorder or hide text
(control and bidirectional marks) are shown as their code. Values longer than 120 characters are cut in the page.
"""

import json
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from harness.errors import HarnessError, UsageError
from harness.history.files_below import FilesBelow
from harness.history.run_folder import RunFolder
from harness.host.printable import visible
from reports.campaign.model import CampaignPage, CampaignsPage
from reports.comparison.columns import GivenColumn
from reports.comparison.model import ComparisonPage
from reports.comparison.page import Comparison
from reports.model import Page
from reports.run.page import build
from reports.run_data import count_of

STYLES = ("style.css", "more.css")
_SOURCES = PackageLoader("reports", "templates")
_KEY_BREAK = re.compile(r"(?<=\w)([.=])(?=\w)")
_KEY_LENGTH = 24


def shown(value: object) -> object:
    """Text as it may stand in the page; markup of ours passes unchanged."""
    if isinstance(value, Markup) or not isinstance(value, str):
        return value
    return visible(value)


def breakable(text: str) -> Markup:
    """Kafka's longest keys may break after a dot or an equals sign; all of it is escaped."""
    words = str(escape(shown(text))).split(" ")
    return Markup(" ".join(_KEY_BREAK.sub(r"\1<wbr>", word) if len(word) > _KEY_LENGTH else word for word in words))


def html_of(
    page: Page | ComparisonPage | CampaignPage | CampaignsPage,
    *,
    template: str = "page.html.j2",
    styles: Sequence[str] = STYLES,
    script: str = "page.js",
) -> str:
    return filled(template, styles=styles, scripts=(script,), page=page)


def filled(template: str, *, styles: Sequence[str] = STYLES, scripts: Sequence[str] = (), **values: object) -> str:
    """The template with these values, which it escapes; `style` and `script` are the texts of the files named."""
    environment = _environment()
    style, script = (
        Markup("").join(Markup(_SOURCES.get_source(environment, name)[0]) for name in names)
        for names in (styles, scripts)
    )
    return environment.get_template(template).render(style=style, script=script, **values)


@cache
def _environment() -> Environment:
    """One for all pages of a process: each of its templates is compiled once."""
    made = Environment(
        loader=_SOURCES,
        autoescape=True,
        undefined=StrictUndefined,
        finalize=shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["count"] = count_of
    made.filters["breakable"] = breakable
    return made


def write_report(run: Path) -> Path:
    """RUN/report.html, replaced as a whole. Raises HarnessError; the verdict is on disk already and stays."""
    page = build(run)
    _write(RunFolder(run).files, "report.html", html_of(page), otherwise=f"the verdict is in {run / 'verdict.json'}")
    return run / "report.html"


def write_comparison(given: Sequence[GivenColumn], *, out: Path) -> tuple[Path, Comparison]:
    """OUT/comparison.html and OUT/comparison.json, each replaced as a whole: (the page, its headline).

    Raises UsageError for runs that cannot be compared, HarnessError where nothing can be read or written.
    """
    comparison = Comparison(given, out=out)
    text = json.dumps(comparison.as_json(), indent=1, ensure_ascii=True) + "\n"
    html = html_of(comparison.page(), template="comparison.html.j2", styles=(*STYLES, "comparison.css"))
    remedy = "give another folder with --out"
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise HarnessError(f"{out}: {error.strerror}; {remedy}") from error
    files = FilesBelow(out)
    _write(files, "comparison.json", text, otherwise=remedy)
    _write(files, "comparison.html", html, otherwise=remedy)
    return out / "comparison.html", comparison


def write_page(folder: Path, name: str, html: str, *, otherwise: str) -> Path:
    """FOLDER/NAME, replaced as a whole. otherwise: what a user has all the same, or can do, where it cannot be."""
    _write(FilesBelow(folder), name, html, otherwise=otherwise)
    return folder / name


def _write(files: FilesBelow, name: str, text: str, *, otherwise: str) -> None:
    try:
        files.replace(name, text.encode())
    except UsageError:
        raise
    except HarnessError as error:
        raise HarnessError(f"{error}; {otherwise}") from error
