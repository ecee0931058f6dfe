"""What the anomalies of a run are, for its page: the very files of docs/anomalies, which ship with this package.

What an installed package's check found is explained by the page that was stored with its findings.
"""

from collections.abc import Iterable
from functools import cache

from harness.anomalies import ANOMALIES, Anomaly, page_text
from reports.markdown import html_of_markdown, sections
from reports.model import Explanation

# This very page shows that.
_LEFT_OUT = ("What the report shows, and what to do",)


def explanations(found: Iterable[Anomaly | None]) -> list[Explanation]:
    """One for each anomaly, in the order in which they come; None is what has no page."""
    return [explanation(anomaly) for anomaly in dict.fromkeys(found) if anomaly]


def source_of(anomaly: Anomaly) -> str:
    return f"docs/anomalies/{anomaly.page}.md" if anomaly in ANOMALIES else f"package {anomaly.package}"


def anchor_of(anomaly: Anomaly | None) -> str:
    return f"a-{anomaly.page}" if anomaly else ""


@cache
def explanation(anomaly: Anomaly) -> Explanation:
    parts = sections(page_text(anomaly.page) if anomaly in ANOMALIES else anomaly.markdown)
    return Explanation(
        anchor=f"a-{anomaly.page}",
        title=anomaly.title,
        sentence=anomaly.sentence,
        source=source_of(anomaly) + (" of the project" if anomaly in ANOMALIES else ""),
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
