"""`compare` of campaigns that were run before: their folders are found, and one page puts them side by side."""

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

from harness.errors import HarnessError, UsageError
from reports.campaign.beside import write_campaigns_beside

_PLAN = "campaign.json"


def campaigns_of(references: Sequence[str], runs: Path) -> list[Path]:
    """The campaigns' folders, paths or names below RUNS/campaigns; none where runs are named.

    Raises UsageError for a mixture of both.
    """
    found = [_campaign(reference, runs) for reference in references]
    if not any(found):
        return []
    for reference, folder in zip(references, found, strict=True):
        if folder is None:
            raise UsageError(f"{reference}: no campaign; compare campaigns with campaigns, and runs with runs")
    return [folder for folder in found if folder is not None]


def _campaign(reference: str, runs: Path) -> Path | None:
    places = (Path(reference), runs / "campaigns" / reference)
    return next((place for place in places if os.path.isfile(place / _PLAN)), None)


def compare_campaigns(
    folders: Sequence[Path], *, runs: Path, out: Path | None, unfit: list[HarnessError]
) -> tuple[Path, str]:
    """(the page, what it opens with). unfit: gets what is wrong with those that are left out. The same campaigns in the
    same order have the same folder below `runs`."""
    if out is None:
        mark = hashlib.sha256(repr([str(folder.resolve()) for folder in folders]).encode()).hexdigest()[:6]
        out = runs / f"comparison-{folders[0].resolve().name}-{mark}"
        if out.is_symlink():
            raise UsageError(f"{out} is a symbolic link: remove it, or say by --out where the page goes")
    return write_campaigns_beside(folders, out=out, unfit=unfit)
