"""What the nights of a store show of a run's findings, kept in the run's folder, so that its page can say it.

The page of a run is made of its folder alone. So a night that is appended leaves `nights.json` in the folders of its
runs, and their pages are made once more. A run that no store knows has no such file; its page says nothing of nights.
"""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import msgspec

from harness.ci.campaign_rows import CampaignResults
from harness.errors import HarnessError, UsageError
from harness.history.run_folder import RunFolder
from harness.trends.store import SeenLately, Store, seen_in

NIGHTS = "nights.json"
_BYTES_MAX = 4 << 20  # of nights.json; a fingerprint takes some 200


def write_to_runs(store: Store, runs: Iterable[Path], *, render: Callable[[Path], tuple[Path | None, str]]) -> str:
    """Says of how many runs the pages now say when their findings were seen, and why a page of others does not.

    runs: folders; one without findings that the store knows stays as it is. render: makes the page of a run, and
    answers with it, or with None and the reason. A run that cannot be read costs only its own page. Raises HarnessError
    for the store.
    """
    nights, unfit = store.readable()
    seen, written, failed = seen_in(nights), 0, [str(error) for error in unfit]
    for path in runs:
        try:
            if not _tell(RunFolder(path), seen):
                continue
        except HarnessError as error:
            failed.append(str(error))
            continue
        page, why_none = render(path)
        if page is None:
            failed.append(f"{path}: {why_none}")
        else:
            written += 1
    words = f"{written} {'page' if written == 1 else 'pages'} of runs say in which nights their findings were seen"
    return "; ".join([words, *(f"not so {each}" for each in failed)])


def _tell(folder: RunFolder, seen: Mapping[str, SeenLately]) -> bool:
    """Whether the store knows any of its findings."""
    if not folder.has_table("findings"):
        return False
    known = sorted(set(folder.table("findings").column("fingerprint").to_pylist()) & seen.keys())
    if known:
        folder.files.replace(NIGHTS, msgspec.json.encode({each: seen[each] for each in known}))
    return bool(known)


def kept_runs(campaign: CampaignResults) -> list[Path]:
    """The folders of its runs that are there and were judged, none outside the campaign's. Raises HarnessError."""
    return [campaign.files.top / run.folder for run in campaign.runs if campaign.was_judged(run)]


def nights_of(folder: RunFolder) -> dict[str, SeenLately]:
    """Fingerprint -> when it was seen; none for a run that no store knows. Raises HarnessError, UsageError."""
    path = folder.path / NIGHTS
    try:
        with folder.files.open(NIGHTS) as file:
            content = file.read(_BYTES_MAX + 1)
    except FileNotFoundError:
        return {}
    if len(content) > _BYTES_MAX:
        raise UsageError(f"{path}: more than {_BYTES_MAX >> 20} MB; remove it, it only holds facts of nights")
    try:
        return msgspec.json.decode(content, type=dict[str, SeenLately])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise HarnessError(f"{path}: not what nights leave ({error}); remove it") from error
