"""A campaign's folder, RUNS/campaigns/NAME: one process works in it at a time, and the same plan goes on in it.

A finished campaign, or one of another plan, keeps its folder: the next one of that name is NAME-2.
"""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from harness.campaign.journal import read_state
from harness.campaign.plan import Plan, PlannedRun, wrong_name
from harness.errors import HarnessError, UsageError
from harness.history.files_below import FilesBelow
from harness.history.schema.texts import json_below

_LOCK = "lock"
_NAMES_MAX = 1000


@contextmanager
def campaign_folder(
    runs: Path, plan: Plan, *, facts: dict[str, Any], anew: bool = False
) -> Iterator[tuple[FilesBelow, bool]]:
    """The folder, locked, and whether a campaign goes on in it. facts: of campaign.json beside the plan; anew: it never
    does. Raises HarnessError, UsageError where another process works in it."""
    if wrong := wrong_name(plan.name):
        raise UsageError(wrong)
    path, is_its_own = _find(runs, plan, anew=anew)
    files = FilesBelow(path)
    with _locked(files):
        goes_on = is_its_own and (path / "campaign.json").is_file()
        if not goes_on:
            files.replace("campaign.json", json.dumps(facts | plan.as_json(), indent=2).encode() + b"\n")
        yield files, goes_on


def _find(runs: Path, plan: Plan, *, anew: bool) -> tuple[Path, bool]:
    """The newest folder of that name where it can go on there, or was about to begin, else a new one; which it is."""
    campaigns = runs / "campaigns"
    try:
        runs.mkdir(parents=True, exist_ok=True)
        FilesBelow(runs).make_folder("campaigns")
        name = plan.name if plan.shard == (1, 1) else f"{plan.name}-shard-{plan.shard[0]}-of-{plan.shard[1]}"
        taken = None
        for number in range(1, _NAMES_MAX):
            path = campaigns / (name if number == 1 else f"{name}-{number}")
            if not os.path.lexists(path):
                if not anew and taken is not None and _goes_on(taken, plan):
                    return taken, True
                path.mkdir(mode=0o700)
                return path, False
            taken = path
    except OSError as error:
        raise HarnessError(f"{campaigns}: no campaign can be kept there: {error.strerror}; see --runs") from error
    raise HarnessError(f"{campaigns}: no free name for campaign {plan.name}; clear it out")


def _goes_on(path: Path, plan: Plan) -> bool:
    """Whether it is the folder of this very plan, begun and not finished: anything else is left as it is."""
    if path.is_symlink() or not path.is_dir():
        return False
    files = FilesBelow(path)
    try:
        stored = json_below(files, "campaign.json")
    except FileNotFoundError:
        return not set(os.listdir(path)) - {_LOCK}  # killed, or out of room, before it was written: nothing was begun
    if stored.get("digest") != plan.digest:
        return False
    try:
        return not read_state(files).finished
    except FileNotFoundError:
        return True


@contextmanager
def _locked(files: FilesBelow) -> Iterator[None]:
    with files.append(_LOCK) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(
                f"{files.top}: this campaign is being run by another process; wait for it, or end it"
            ) from None
        yield


def scenario_file(files: FilesBelow, run: PlannedRun, text: str) -> Path:
    """The run's scenario as a file of its own, named after it; written once, so that a drawn one stays what it was."""
    folder = f"plan/{run.number:04d}"
    name = f"{folder}/{run.scenario.replace('/', '-')}.toml"
    if not (files.top / name).is_file():
        for part in ("plan", folder):
            files.make_folder(part)
        files.replace(name, text.encode())
    return files.top / name


def drawn_before(files: FilesBelow, run: PlannedRun) -> bool:
    """Whether the schedule was drawn by an earlier start of this campaign."""
    return (files.top / f"plan/{run.number:04d}/{run.scenario}.toml").is_file()
