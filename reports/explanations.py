"""What the anomalies of a run are, for its page: the very files of docs/anomalies, which ship with this package."""

from collections.abc import Iterable
from functools import cache
from importlib.resources import files

from harness.anomalies import Anomaly, anomaly_of
from reports.markdown import html_of_markdown, sections
from reports.model import Explanation

_FILES = files("reports") / "anomalies"
# This very page shows that.
_LEFT_OUT = ("What the report shows, and what to do",)


def page_text(page: str) -> str:
    return (_FILES / f"{page}.md").read_text(encoding="utf-8")


def explanations(found: Iterable[tuple[str, str]]) -> list[Explanation]:
    """One for each anomaly among (check, kind) pairs, in the order in which they come."""
    known = dict.fromkeys(anomaly for check, kind in found for anomaly in [anomaly_of(check, kind)] if anomaly)
    return [explanation(anomaly) for anomaly in known]


def anchor_of(check: str, kind: str) -> str:
    anomaly = anomaly_of(check, kind)
    return f"a-{anomaly.page}" if anomaly else ""


@cache
def explanation(anomaly: Anomaly) -> Explanation:
    parts = sections(page_text(anomaly.page))
    return Explanation(
        anchor=f"a-{anomaly.page}",
        title=anomaly.title,
        sentence=anomaly.sentence,
        source=f"docs/anomalies/{anomaly.page}.md",
        parts=[
            (heading, html_of_markdown(_without_names(text) if not heading else text))
            for heading, text in parts
            if heading not in _LEFT_OUT
        ],
    )


def _without_names(text: str) -> str:
    """The opening without the line of names that a finding's row shows already."""
    first, _, rest = text.partition("\n\n")
    return rest if first.startswith("`") else text
