"""Campaigns side by side: their verdicts, the groups of findings that only some of them have, and their distributions.

Works from the campaigns' folders alone. A group that only one campaign has may be chance: the counts beside it say how
many runs the other had to find it in.
"""

import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from harness.errors import HarnessError, UsageError
from harness.history.files_below import FilesBelow
from harness.host import memory
from reports.campaign.data import CampaignData, Group
from reports.campaign.distributions import Value, measures
from reports.campaign.grid import NAMES, WORST_FIRST
from reports.campaign.groups import BADGES, CLASSES
from reports.campaign.model import CampaignsPage, GroupBeside, Head, RunLink
from reports.campaign.page import PAGE, badge_of
from reports.campaign.reading import read_campaign
from reports.model import Badge
from reports.render import STYLES, html_of, write_page
from reports.run_data import count_of

CAMPAIGNS_MAX = 6
GROUPS_MAX = 300
OUT_PAGE, OUT_JSON = "campaigns.html", "campaigns.json"
_LETTERS = "ABCDEF"


@dataclass(frozen=True, kw_only=True)
class Column:
    letter: str
    data: CampaignData
    href: str

    @property
    def done(self) -> int:
        return sum(run.verdict != "not_run" for run in self.data.runs)


def write_campaigns_beside(
    folders: Sequence[Path], *, out: Path, unfit: list[HarnessError] | None = None
) -> tuple[Path, str]:
    """OUT/campaigns.html and OUT/campaigns.json, each replaced as a whole: (the page, its headline).

    unfit: gets what is wrong with campaigns that are left out, if two are left. Raises UsageError for fewer than two
    campaigns or too many, HarnessError where one is unsound or nothing can be written.
    """
    if not 2 <= len(folders) <= CAMPAIGNS_MAX:
        raise UsageError(f"give two campaigns to compare, or up to {CAMPAIGNS_MAX}")
    columns, held, wrong = [], memory.Together(), []
    for letter, folder in zip(_LETTERS, folders, strict=False):
        try:
            columns.append(_column(letter, folder, out, held))
        except HarnessError as error:
            wrong.append(error)
    if wrong and (unfit is None or len(columns) < 2):
        raise wrong[0]
    if unfit is not None:
        unfit += wrong
    page = build(columns)
    html = html_of(page, template="campaigns.html.j2", styles=(*STYLES, "comparison.css", "campaign.css"))
    remedy = "give another folder with --out"
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise HarnessError(f"{out}: {error.strerror}; {remedy}") from error
    text = json.dumps(as_json(columns), indent=1, ensure_ascii=True) + "\n"
    FilesBelow(out).replace(OUT_JSON, text.encode())
    return write_page(out, OUT_PAGE, html, otherwise=remedy), page.headline


def _column(letter: str, folder: Path, out: Path, held: memory.Together) -> Column:
    data = read_campaign(folder, held=held)
    href = ""
    if (folder / PAGE).is_file():
        href = quote(Path(os.path.relpath(folder.resolve() / PAGE, out.resolve())).as_posix())
    return Column(letter=letter, data=data, href=href)


def build(columns: Sequence[Column]) -> CampaignsPage:
    groups = groups_beside(columns)
    names = " / ".join(column.data.name for column in columns)
    by_letter = {column.letter: column for column in columns}

    def link(each: Value) -> RunLink:
        column = by_letter[each.system[-1]]
        return RunLink(text=f"run {each.run}", href=f"{column.href}#r{each.run}" if column.href else "")

    return CampaignsPage(
        title=f"{names} (kafka-chaos campaigns)",
        headline=headline(columns, groups),
        heads=[_head(column) for column in columns],
        verdicts=_verdicts(columns),
        groups=groups[:GROUPS_MAX],
        groups_hidden=max(0, len(groups) - GROUPS_MAX),
        measures=measures([(column.letter, column.data) for column in columns], link),
        footer=f"kafka-chaos, {len(columns)} campaigns side by side",
    )


def _head(column: Column) -> Head:
    data = column.data
    facts = [
        ("Runs done", count_of(column.done)),
        ("Seed", data.seed),
        ("Begun", data.begun),
        ("Harness", data.harness),
    ]
    return Head(
        letter=column.letter,
        name=data.name,
        href=column.href,
        badge=badge_of(data),
        sentence=data.sentence,
        facts=[(name, value) for name, value in facts if value],
    )


def _verdicts(columns: Sequence[Column]) -> list[tuple[str, str, Sequence[str]]]:
    counts = [Counter(run.verdict for run in column.data.runs) for column in columns]
    rows: list[tuple[str, str, Sequence[str]]] = []
    for verdict in WORST_FIRST:
        if any(own[verdict] for own in counts):
            cells = [
                f"{count_of(own[verdict])} ({100 * own[verdict] / max(len(column.data.runs), 1):.1f} %)"
                for own, column in zip(counts, columns, strict=True)
            ]
            rows.append((verdict, NAMES[verdict], cells))
    return rows


def groups_beside(columns: Sequence[Column]) -> list[GroupBeside]:
    """Violations first; in a class, those that not all campaigns have."""
    own = [{group.fingerprint: group for group in column.data.groups} for column in columns]
    every: dict[str, Group] = {}
    for groups in own:
        every = groups | every
    made = []
    for fingerprint, group in every.items():
        has = [column.letter for column, groups in zip(columns, own, strict=True) if fingerprint in groups]
        cells = [
            f"{count_of(groups[fingerprint].runs)} of {count_of(column.done)} runs" if fingerprint in groups else "–"
            for column, groups in zip(columns, own, strict=True)
        ]
        tone, words = BADGES[group.classification]
        only = "" if len(has) == len(columns) else ", ".join(has)
        order = (CLASSES.index(group.classification), not only, -group.runs, fingerprint)
        row = GroupBeside(
            badge=Badge(tone=tone, text=words),
            check=group.check,
            cause=group.cause,
            fingerprint=fingerprint,
            cells=cells,
            only=only,
        )
        made.append((order, row))
    return [row for _, row in sorted(made, key=lambda each: each[0])]


def headline(columns: Sequence[Column], groups: Sequence[GroupBeside]) -> str:
    violated = [group for group in groups if group.badge.tone == "viol"]
    parts = []
    for column in columns:
        count = sum(group.only == column.letter for group in violated)
        if count:
            parts.append(f"{count_of(count)} only in {column.letter}")
    shared = sum(not group.only for group in violated)
    if shared:
        parts.append(f"{count_of(shared)} in {'both' if len(columns) == 2 else 'all'}")
    if not violated:
        return "No campaign found a violation."
    return f"{count_of(len(violated))} different violations: {', '.join(parts) or 'each in some'}."


def as_json(columns: Sequence[Column]) -> Mapping[str, Any]:
    return {
        "version": 1,
        "campaigns": [
            {
                "letter": column.letter,
                "name": column.data.name,
                "verdict": column.data.verdict,
                "runs": len(column.data.runs),
                "counts": dict(Counter(run.verdict for run in column.data.runs)),
                "groups": {group.fingerprint: group.runs for group in column.data.groups},
            }
            for column in columns
        ],
    }
