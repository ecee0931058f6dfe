"""The lists: runs, campaigns and comparisons below a folder, and the runs that have a finding. Each is bounded."""

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.errors import MISFITS, HarnessError
from harness.history.run_folder import RunFolder
from harness.history.summaries import RunSummary, summary
from harness.web.requests import can_be_asked_for

SHOWN_MAX = 200
SEARCHED_MAX = 2000
CAMPAIGNS = "campaigns"
_COMPARISON = "comparison"  # of a nightly
PAGES = ("comparison.html", "campaign.html", "trends.html")


@dataclass(frozen=True, kw_only=True)
class Listed:
    """A run; `place`: the names that lead to its folder from the top; `is_linked`: whether an address can name it."""

    place: Sequence[str]
    summary: RunSummary
    has_page: bool
    is_linked: bool


@dataclass(frozen=True, kw_only=True)
class Found:
    """A finding of a run; `count`: records concerned."""

    place: Sequence[str]
    run: str
    system: str
    finding: str
    check: str
    classification: str
    fingerprint: str
    count: int
    sentence: str
    has_page: bool


@dataclass(frozen=True, kw_only=True)
class Searched:
    """What a search came to. `unreadable`: runs that could not be searched; `more`: whether the limit was reached."""

    found: Sequence[Found]
    runs: int
    unreadable: int
    more: bool


def run_places(top: Path) -> Iterator[tuple[str, ...]]:
    """Of every run folder below: the runs of `top`, then those of its campaigns; newest first in each. No links."""
    yield from ((path.name,) for path in _run_folders(top))
    for campaign in campaign_folders(top):
        for path in _run_folders(campaign / "runs"):
            yield (CAMPAIGNS, campaign.name, "runs", path.name)


def runs_below(top: Path, place: Sequence[str] = (), *, start: int = 0) -> tuple[list[Listed], int]:
    """(at most SHOWN_MAX of the runs of one folder, from number `start`; how many there are)."""
    folders = _run_folders(top.joinpath(*place))
    chosen = folders[start : start + SHOWN_MAX]
    return [_listed((*place, path.name), path) for path in chosen], len(folders)


def _listed(place: Sequence[str], path: Path) -> Listed:
    linked = can_be_asked_for(place)
    return Listed(
        place=place, summary=summary(path), has_page=linked and _is_file(path / "report.html"), is_linked=linked
    )


def campaign_folders(top: Path) -> list[Path]:
    """Newest first; without those that no address can name."""
    folder = top / CAMPAIGNS
    times = {path: _changed(path / "campaign.json") for path in _folders(folder) if can_be_asked_for([path.name])}
    found = [path for path, time in times.items() if time is not None]
    return sorted(found, key=lambda path: times[path] or 0, reverse=True)


def pages_below(top: Path) -> list[tuple[str, ...]]:
    """Pages of several runs that lie in folders of `top`, and in those of its campaigns, which have a comparison in a
    folder below: comparisons, campaigns, trends."""
    of_campaigns = [each for path in campaign_folders(top) for each in (path, path / _COMPARISON)]
    folders = [top, *_folders(top), *(path for path in of_campaigns if not path.is_symlink())]
    places = [path.relative_to(top).parts for path in folders]
    return [
        (*place, name)
        for path, place in zip(folders, places, strict=True)
        for name in PAGES
        if can_be_asked_for(place) and _is_file(path / name)
    ]


def search(top: Path, wanted: str) -> Searched:
    """Findings whose fingerprint begins with the text, or whose check, class, cause or sentence has it in it."""
    text = wanted.strip().lower()
    found: list[Found] = []
    searched = unreadable = 0
    for place in run_places(top):
        if searched == SEARCHED_MAX or len(found) >= SHOWN_MAX:
            return Searched(found=found[:SHOWN_MAX], runs=searched, unreadable=unreadable, more=True)
        searched += 1
        try:
            found += _findings(top, place, text)
        except (HarnessError, OSError, *MISFITS):
            unreadable += 1
    return Searched(found=found, runs=searched, unreadable=unreadable, more=False)


def _findings(top: Path, place: Sequence[str], text: str) -> Iterator[Found]:
    folder = RunFolder(top.joinpath(*place))
    if not folder.has_table("findings"):
        return
    summarized = summary(folder.path)
    for row in folder.table("findings").to_pylist():
        words = (row["check"], row["classification"], row["cause_text"], row["sentence_text"], row["kind"])
        if not row["fingerprint"].startswith(text) and not any(text in (word or "").lower() for word in words):
            continue
        yield Found(
            place=place,
            run=summarized.id,
            system=summarized.system,
            finding=row["finding"],
            check=row["check"],
            classification=row["classification"],
            fingerprint=row["fingerprint"],
            count=row["count"],
            sentence=row["sentence_text"],
            has_page=can_be_asked_for(place) and _is_file(folder.path / "report.html"),
        )


def _folders(top: Path) -> list[Path]:
    """Newest names first; no links."""
    if top.is_symlink() or not top.is_dir():
        return []
    return sorted((path for path in top.iterdir() if path.is_dir() and not path.is_symlink()), reverse=True)


def _run_folders(top: Path) -> list[Path]:
    return [path for path in _folders(top) if os.path.lexists(path / "run.json") and not path.name.startswith(".")]


def _is_file(path: Path) -> bool:
    return _changed(path) is not None


def _changed(path: Path) -> float | None:
    """When a plain file was last written; None where there is none, or nobody may look."""
    try:
        found = path.lstat()
    except OSError:
        return None
    return found.st_mtime if stat.S_ISREG(found.st_mode) else None
