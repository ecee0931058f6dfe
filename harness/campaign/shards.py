"""Merges the campaigns of shards that ran apart: one folder with the runs of all, and one verdict.

What was kept of the runs is copied; the shards' folders stay as they are.
"""

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from harness.campaign.journal import NAME as JOURNAL
from harness.campaign.journal import JudgedLine, encoded, state_of
from harness.campaign.plan import Plan, PlannedRun, shard_of
from harness.campaign.rows import RunJudged
from harness.errors import HarnessError, UsageError
from harness.history.files_below import FilesBelow

_DECODER = msgspec.json.Decoder(dict[str, Any])


@dataclass(frozen=True, kw_only=True)
class Shard:
    """A campaign's folder as it was read. plan: the runs of this shard alone."""

    files: FilesBelow
    plan: Plan
    judged: Mapping[int, RunJudged]

    @property
    def whole(self) -> tuple[Any, ...]:
        """What shards of one campaign have in common."""
        return self.plan.name, self.plan.seed, self.plan.shard[1]


def read_shard(folder: Path) -> Shard:
    """Raises UsageError where it is no campaign's folder, HarnessError where its files are damaged."""
    files = FilesBelow(folder)
    try:
        stored = _DECODER.decode(files.read("campaign.json"))
        plan = plan_from(stored)
        state = state_of(files.read(JOURNAL), place=str(folder / JOURNAL))
    except FileNotFoundError as error:
        raise UsageError(f"{folder}: no campaign's folder ({error.filename} is missing)") from None
    except (msgspec.MsgspecError, KeyError, TypeError, ValueError) as error:
        raise HarnessError(f"{folder / 'campaign.json'}: not as a campaign leaves it: {error}") from error
    known = {run.number for run in plan.runs}
    if strange := sorted(set(state.judged) - known):
        raise HarnessError(f"{folder / JOURNAL}: judges runs {strange[:5]} that are not in campaign.json")
    return Shard(files=files, plan=plan, judged=state.judged)


def plan_from(stored: Mapping[str, Any]) -> Plan:
    """From campaign.json; the scenarios' texts are not in it. Raises what msgspec and Mapping raise."""
    fields = {name: value for name, value in stored.items() if name in Plan.__dataclass_fields__}
    fields["runs"] = [run | {"text": ""} for run in fields["runs"]]
    return msgspec.convert(fields, Plan)


def merged(shards: Sequence[Shard]) -> tuple[Plan, dict[int, RunJudged]]:
    """The whole campaign. Raises UsageError where they are not the shards of one, each once, and all of them."""
    first = shards[0]
    for shard in shards[1:]:
        if shard.whole != first.whole:
            raise UsageError(f"{shard.files.top} and {first.files.top} are not shards of one campaign")
    of = first.plan.shard[1]
    numbers = sorted(shard.plan.shard[0] for shard in shards)
    if numbers != list(range(1, of + 1)):
        raise UsageError(f"shards {numbers} of {of} were given; each is needed once")
    runs: tuple[PlannedRun, ...] = tuple(
        sorted((run for shard in shards for run in shard.plan.runs), key=lambda run: run.number)
    )
    for shard in shards:
        if shard_of(runs, *shard.plan.shard) != shard.plan.runs:
            raise UsageError(f"{shard.files.top} and {first.files.top} are shards of different plans")
    judged = {number: run for shard in shards for number, run in shard.judged.items()}
    return replace(first.plan, runs=runs, shard=(1, 1)), judged


def copy_kept(shards: Sequence[Shard], campaign: FilesBelow) -> None:
    """The run folders that the shards kept, and the schedules of all runs. Raises HarnessError."""
    for shard in shards:
        for part in ("runs", "plan"):
            if (shard.files.top / part).is_dir():
                try:
                    shutil.copytree(shard.files.top / part, campaign.top / part, symlinks=True, dirs_exist_ok=True)
                except (OSError, shutil.Error) as error:
                    raise HarnessError(f"{shard.files.top / part} cannot be copied: {error}") from error


def journal_of(judged: Mapping[int, RunJudged]) -> bytes:
    return encoded(JudgedLine(run=run) for _, run in sorted(judged.items()))


def facts_of(shards: Sequence[Shard]) -> dict[str, Any]:
    """Of campaign.json beside the plan: those of the first shard, and where all came from."""
    stored = json.loads(shards[0].files.read_text("campaign.json"))
    kept = {name: stored.get(name) for name in ("version", "command", "begun", "harness_version")}
    return kept | {"shards": [str(shard.files.top) for shard in shards]}
