"""Every anomaly that the checks can find: its names in findings, its page, what it is.

The index of docs/anomalies says it, once; it ships with this package, with the pages. Reports link and explain findings
by it, and tests hold it against the pages and against the names that the checks give. A name is a check's, or
`check/kind` where one check finds things that differ so much that each has a page.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from typing import Literal, get_args

Family = Literal["log", "reads", "groups", "transactions", "cycles", "cluster", "application", "run"]
_PAGES = files("harness.anomalies") / "pages"
_ROW = re.compile(r"\| \[(?P<title>.+)\]\((?P<page>[a-z0-9-]+)\.md\) \| (?P<sentence>.+) \| (?P<names>`.+`) \|")


@dataclass(frozen=True, kw_only=True)
class Anomaly:
    """`page`: the file's stem; `names`: what findings call it; `sentence`: what it is.

    markdown: the page itself, of what an installed package's check finds; package: that package.
    """

    page: str
    names: tuple[str, ...]
    title: str
    family: Family
    sentence: str
    markdown: str = ""
    package: str = ""


def page_text(page: str) -> str:
    return (_PAGES / f"{page}.md").read_text(encoding="utf-8")


def _of_the_index() -> Iterator[Anomaly]:
    """A line of a table each; the tables, each below its heading, are the families in their order."""
    tables = re.split(r"^## .*$", page_text("README"), flags=re.MULTILINE)[1:]
    families: tuple[Family, ...] = get_args(Family)
    for family, table in zip(families, tables, strict=True):
        for row in _ROW.finditer(table):
            names = tuple(re.findall("`(.+?)`", row["names"]))
            yield Anomaly(page=row["page"], names=names, title=row["title"], family=family, sentence=row["sentence"])


ANOMALIES: tuple[Anomaly, ...] = tuple(_of_the_index())
BY_NAME: dict[str, Anomaly] = {name: anomaly for anomaly in ANOMALIES for name in anomaly.names}


def anomaly_of(check: str, kind: str = "") -> Anomaly | None:
    """The page of a finding: by check and kind where the kinds have pages of their own, else by check."""
    return BY_NAME.get(f"{check}/{kind}") or BY_NAME.get(check)
