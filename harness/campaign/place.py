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

from harness.campaign.journal import NAME as JOURNAL
from harness.campaign.journal import state_of
from harness.campaign.plan import Plan, PlannedRun
from harness.errors import HarnessError, UsageError
from harness.history.files_below import FilesBelow

_LOCK = "lock"
_NAMES_MAX = 1000


@contextmanager
def campaign_folder(runs: Path, plan: Plan, *, facts: dict[str, Any]) -> Iterator[tuple[FilesBelow, bool]]:
    """The folder, locked, and whether a campaign goes on in it. facts: of campaign.json beside the plan. Raises
    HarnessError, UsageError where another process works in it."""
    path, goes_on = _find(runs / "campaigns", plan)
    files = FilesBelow(path)
    with _locked(path):
        if not goes_on:
            files.replace("campaign.json", json.dumps(facts | plan.as_json(), indent=2).encode() + b"\n")
        yield files, goes_on


def _find(campaigns: Path, plan: Plan) -> tuple[Path, bool]:
    """The newest folder of that name where it can go on there, else a new one."""
    try:
        campaigns.mkdir(parents=True, exist_ok=True)
        name = plan.name if plan.shard == (1, 1) else f"{plan.name}-shard-{plan.shard[0]}-of-{plan.shard[1]}"
        taken = None
        for number in range(1, _NAMES_MAX):
            path = campaigns / (name if number == 1 else f"{name}-{number}")
            if not path.is_dir():
                if taken is not None and _goes_on(taken, plan):
                    return taken, True
                path.mkdir(mode=0o700)
                return path, False
            taken = path
    except OSError as error:
        raise HarnessError(f"{campaigns}: no campaign can be kept there: {error.strerror}; see --runs") from error
    raise HarnessError(f"{campaigns}: no free name for campaign {plan.name}; clear it out")


def _goes_on(path: Path, plan: Plan) -> bool:
    files = FilesBelow(path)
    try:
        stored = json.loads(files.read_text("campaign.json"))
    except FileNotFoundError:
        return True  # killed before it was written: nothing was begun
    except ValueError as error:
        raise HarnessError(f"{path / 'campaign.json'}: no sound JSON ({error}); move the folder away") from error
    if not isinstance(stored, dict) or stored.get("digest") != plan.digest:
        return False
    try:
        return not state_of(files.read(JOURNAL), place=str(path / JOURNAL)).finished
    except FileNotFoundError:
        return True


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    descriptor = os.open(path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(f"{path}: this campaign is being run by another process; wait for it, or end it") from None
        yield
    finally:
        os.close(descriptor)


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
