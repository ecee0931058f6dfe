"""Merges the campaigns of shards that ran apart: one folder with the runs of all, and one verdict.

They may come from somebody else: names are checked, no link is followed, and what was kept of the runs is copied into a
new folder, of each shard that of its own runs alone. The shards' folders stay as they are.
"""

import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from harness.campaign.journal import NAME as JOURNAL
from harness.campaign.journal import Finished, JudgedLine, encoded, read_state
from harness.campaign.plan import Plan, PlannedRun, shard_of, wrong_name
from harness.campaign.rows import RunJudged
from harness.errors import HarnessError, UsageError
from harness.history.files_below import NESTING_MAX, FilesBelow, can_lie_below, copy_contents
from harness.history.schema.texts import json_below
from harness.host.printable import printable
from harness.verdict import Verdict

_LATEST = "latest"  # RUNS/latest of a run's own folder: the only link that a campaign leaves
_PARTS = ("runs", "plan")


@dataclass(frozen=True, kw_only=True)
class Shard:
    """A campaign's folder as it was read. plan: the runs of this shard alone; stored: its campaign.json."""

    files: FilesBelow
    plan: Plan
    judged: Mapping[int, RunJudged]
    stored: Mapping[str, Any]

    @property
    def whole(self) -> tuple[Any, ...]:
        """What shards of one campaign have in common."""
        plan = self.plan
        return plan.name, plan.seed, plan.shard[1], plan.accepted, plan.inconclusive_share, plan.stated_is_pass


def read_shard(folder: Path, *, names_accepted: bool = False) -> Shard:
    """names_accepted: accepted findings are named by the user, those of the folder count for nothing.

    Raises UsageError where it is no campaign's folder, HarnessError where its files are damaged.
    """
    files = FilesBelow(folder)
    try:
        stored = json_below(files, "campaign.json")
        state = read_state(files)
    except FileNotFoundError as error:
        raise UsageError(f"{folder}: no campaign's folder ({error.filename} is missing)") from None
    if names_accepted:
        stored["accepted"] = None
    elif isinstance(stored.get("accepted"), str):  # as an older kafka-chaos wrote it: a path of the machine it ran on
        raise UsageError(f"{folder}: which findings were accepted lies outside of it; name the file with --accepted")
    try:
        plan = plan_from(stored)
        _refuse_unfit(plan)
    except (msgspec.MsgspecError, KeyError, TypeError, ValueError) as error:
        raise HarnessError(f"{folder / 'campaign.json'}: not as a campaign leaves it: {error}") from error
    try:
        _refuse_unfit_verdicts(plan, state.judged)
    except ValueError as error:
        raise HarnessError(f"{folder / JOURNAL}: not as this campaign leaves it: {error}") from error
    return Shard(files=files, plan=plan, judged=state.judged, stored=stored)


def _refuse_unfit(plan: Plan) -> None:
    """Raises ValueError."""
    if wrong := wrong_name(plan.name):
        raise ValueError(wrong)
    shard, of = plan.shard
    if not 1 <= shard <= of:
        raise ValueError(f"shard {shard} of {of}")


def _refuse_unfit_verdicts(plan: Plan, judged: Mapping[int, RunJudged]) -> None:
    """Raises ValueError."""
    known = {run.number for run in plan.runs}
    if strange := sorted(set(judged) - known):
        raise ValueError(f"runs {strange[:5]} have a verdict and are not planned")
    words = [verdict.value for verdict in Verdict]
    for number, run in judged.items():
        if run.verdict not in words:
            raise ValueError(f"run {number} has the verdict {run.verdict[:20]!r}, none of {', '.join(words)}")
        _, _, below = run.folder.partition("runs/")
        own = below.partition("/")[0].lstrip("0") == str(number) and run.folder == f"runs/{below}"
        if run.folder and not (own and can_lie_below(run.folder) and run.folder == printable(run.folder)):
            raise ValueError(f"run {number} has its folder in {run.folder[:80]!r}, which is not its own")


def plan_from(stored: Mapping[str, Any]) -> Plan:
    """From campaign.json; the scenarios' texts are not in it. Raises what msgspec and Mapping raise."""
    known = Plan.__dataclass_fields__.keys() - {"accepted_file"}
    fields = {name: value for name, value in stored.items() if name in known}
    fields["runs"] = [run | {"text": ""} for run in fields["runs"]]
    fields["accepted"] = fields.get("accepted") or ()
    return msgspec.convert(fields, Plan)


def merged(shards: Sequence[Shard]) -> tuple[Plan, dict[int, RunJudged]]:
    """The whole campaign. Raises UsageError where they are not the shards of one, each once, and all of them."""
    first = shards[0]
    for shard in shards[1:]:
        if shard.whole != first.whole:
            raise UsageError(
                f"{shard.files.top} and {first.files.top} are not shards of one campaign: name, seed, number of "
                "shards, accepted findings or what counts as a pass differ"
            )
    of = first.plan.shard[1]
    numbers = sorted(shard.plan.shard[0] for shard in shards)
    if len(numbers) != of or numbers != list(range(1, of + 1)):
        raise UsageError(f"shards {numbers} of {of} were given; each is needed once")
    runs: tuple[PlannedRun, ...] = tuple(
        sorted((run for shard in shards for run in shard.plan.runs), key=lambda run: run.number)
    )
    whole = [run.number for run in runs] == list(range(1, len(runs) + 1))
    for shard in shards:
        if not whole or shard_of(runs, *shard.plan.shard) != shard.plan.runs:
            raise UsageError(f"{shard.files.top} and {first.files.top} are shards of different plans")
    judged = {number: run for shard in shards for number, run in shard.judged.items()}
    return replace(first.plan, runs=runs, shard=(1, 1)), judged


def refuse_links(shards: Sequence[Shard]) -> None:
    """Before anything is made of them. Raises UsageError for anything but folders and plain files in what is copied."""
    for shard in shards:
        for _ in _kept(shard):
            pass


def copy_kept(shards: Sequence[Shard], campaign: FilesBelow) -> None:
    """What each shard kept of its own runs, and their schedules. Raises HarnessError."""
    for part in _PARTS:
        campaign.make_folder(part)
    for shard in shards:
        for name, is_folder in _kept(shard):
            if is_folder:
                campaign.make_folder(name)
            else:
                with shard.files.open(name) as source, campaign.replacing(name) as target:
                    try:
                        copy_contents(source.fileno(), target.fileno())
                    except OSError as error:
                        raise HarnessError(f"{shard.files.top / name} cannot be copied: {error.strerror}") from error


def _kept(shard: Shard) -> Iterator[tuple[str, bool]]:
    """(name, whether it is a folder), a folder before what is in it; of the shard's own runs alone."""
    for part in _PARTS:
        if not shard.files.has_folder(part):
            continue
        for run in shard.plan.runs:
            top = f"{part}/{run.number:04d}"
            if shard.files.has_folder(top):
                yield from _below(shard.files, top, lambda name, top=top: name == f"{top}/{_LATEST}")  # type: ignore[misc]


def _below(files: FilesBelow, top: str, leave_out: Callable[[str], bool]) -> Iterator[tuple[str, bool]]:
    waiting = [top]
    while waiting:
        folder = waiting.pop()
        if folder.count("/") > NESTING_MAX:
            raise HarnessError(f"{files.top / top}: folders nested more than {NESTING_MAX} deep")
        yield folder, True
        for base, mode in files.entries(folder):
            name = f"{folder}/{base}"
            if stat.S_ISLNK(mode) and leave_out(name):
                continue
            if stat.S_ISDIR(mode):
                waiting.append(name)
            elif files.has_file(name):  # refuses what is none
                yield name, False


def journal_of(judged: Mapping[int, RunJudged], *, at: str) -> bytes:
    """Of a campaign that is finished: nothing goes on where others' runs were merged."""
    return encoded([*(JudgedLine(run=run) for _, run in sorted(judged.items())), Finished(at=at)])


def facts_of(shards: Sequence[Shard]) -> dict[str, Any]:
    """Of campaign.json beside the plan: those of the first shard, and where all came from."""
    kept = {name: shards[0].stored.get(name) for name in ("version", "command", "begun", "harness_version")}
    return kept | {"shards": [str(shard.files.top) for shard in shards]}
