"""Earlier and later runs of the same scenario, as they lie beside this one when its page is made.

Each is read from its own run.json and verdict.json, which may be somebody else's: through no link, and one that cannot
be read costs only itself. Nothing of this run is read or written for it.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from harness.errors import HarnessError, UsageError
from harness.history.files_below import FilesBelow
from harness.history.schema.texts import read_run, read_verdict
from reports.model import OtherRun, OtherRuns, Tone
from reports.run_data import RunData, utc

EACH_WAY = 5
_LOOKED_AT_EACH_WAY = 40  # of the folders that are named after the scenario
_TONES: dict[str, Tone] = {"pass": "pass", "violation": "viol"}


def other_runs(data: RunData) -> OtherRuns:
    path = data.path.resolve()
    own = (_began_ns(data.run), path.name)
    found = sorted(_beside(path, str(data.run.get("scenario") or data.scenario.name)), key=lambda one: one[0])
    return OtherRuns(
        earlier=[run for began, run in found if began < own][-EACH_WAY:],
        later=[run for began, run in found if began > own][:EACH_WAY],
    )


def _beside(path: Path, scenario: str) -> Iterator[tuple[tuple[int, str], OtherRun]]:
    try:
        with os.scandir(path.parent) as entries:
            names = sorted(
                entry.name for entry in entries if scenario in entry.name and entry.is_dir(follow_symlinks=False)
            )
    except OSError:
        return  # the folder may not be listed, or is gone: then there is nothing to link
    before = [name for name in names if name < path.name][-_LOOKED_AT_EACH_WAY:]
    after = [name for name in names if name > path.name][:_LOOKED_AT_EACH_WAY]
    for name in (*before, *after):
        try:
            other = _read(path.parent / name, scenario)
        except (HarnessError, UsageError, FileNotFoundError):
            continue
        if other is not None:
            yield other


def _read(path: Path, scenario: str) -> tuple[tuple[int, str], OtherRun] | None:
    """None for a run of another scenario."""
    files = FilesBelow(path, is_real=True)
    run = read_run(path / "run.json", opened=lambda: files.open("run.json"))
    if run.get("scenario") != scenario:
        return None
    try:
        verdict = read_verdict(path / "verdict.json", opened=lambda: files.open("verdict.json"))["verdict"]
    except (HarnessError, FileNotFoundError):
        verdict = "not judged"
    began = _began_ns(run)
    return (began, path.name), OtherRun(
        name=path.name,
        href=_page_of(files, path.name),
        began=_when(began),
        seed=str(run.get("seed")),
        system=str((run.get("environment") or {}).get("system") or ""),
        verdict=verdict,
        tone=_TONES.get(verdict, "neutral"),
    )


def _began_ns(run: Any) -> int:
    anchors = run.get("anchors") or ()
    return int(anchors[0]["wall_ns"]) if anchors else 0


def _when(wall_ns: int) -> str:
    try:
        return utc(wall_ns // 1_000_000_000) if wall_ns else ""
    except (ValueError, OverflowError, OSError):
        return ""  # no year that a calendar has


def _page_of(files: FilesBelow, name: str) -> str:
    try:
        files.open("report.html").close()
    except (HarnessError, UsageError, FileNotFoundError):
        return ""
    return f"../{quote(name, errors='surrogateescape')}/report.html"
