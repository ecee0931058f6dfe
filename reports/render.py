"""One HTML file from one page model: self-contained, escaped, working from file:// with no network.

Everything that comes from a run is data: the template escapes it, and characters that could reorder or hide text
(control and bidirectional marks) are shown as their code. Values longer than 120 characters are cut in the page.
"""

import re
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from harness.errors import HarnessError
from reports.model import Page
from reports.page import build
from reports.run_data import count_of

_HIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff]")


def shown(value: object) -> object:
    """Text as it may stand in the page; markup of ours passes unchanged."""
    if isinstance(value, Markup) or not isinstance(value, str):
        return value
    return _HIDDEN.sub(lambda match: f"\\u{ord(match.group()):04x}", value)


def html_of(page: Page) -> str:
    environment = Environment(
        loader=PackageLoader("reports", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["count"] = count_of
    sources = environment.loader
    assert sources is not None, "the loader was given above"
    style, script = (Markup(sources.get_source(environment, name)[0]) for name in ("style.css", "page.js"))
    return environment.get_template("page.html.j2").render(page=page, style=style, script=script)


def write_report(run: Path) -> Path:
    """RUN/report.html, replaced as a whole. Raises HarnessError; the verdict is on disk already and stays."""
    page = build(run)
    path = run / "report.html"
    unfinished = path.with_suffix(".unfinished")
    try:
        unfinished.write_text(html_of(page), encoding="utf-8")
        unfinished.replace(path)
    except OSError as error:
        raise HarnessError(f"{path}: {error.strerror}; the verdict is in {run / 'verdict.json'}") from error
    return path
