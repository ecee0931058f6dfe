"""What a campaign is going to run: each run has a number and a key, so that a later start of the plan goes on."""

import dataclasses
import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from harness.history.accepted import Accepted
from harness.history.files_below import can_lie_below
from harness.host.printable import printable

NAME_BYTES_MAX = 200  # shards and later starts add to it
Keep = Literal["findings", "all"]
DEFAULT_JOBS = 1
DEFAULT_RUN_LIMIT_S = 900.0


@dataclass(frozen=True, kw_only=True)
class PlannedRun:
    """One run. number: from 1, of the whole campaign, whatever the shard.

    text: the scenario written out; "" for a drawn schedule, which is drawn when its turn comes. drawn: its number among
    the schedules of its profile, system and seed, from 0; None for a scenario that is listed. known_key: of a run that
    was read from a campaign's folder, which does not say its text; else "". not_here: why it is never begun on this
    machine; "" where it can be.
    """

    number: int
    scenario: str
    text: str
    system: str
    world: str
    client: str
    seed: int
    profile: str = ""
    drawn: int | None = None
    known_key: str = ""
    not_here: str = ""

    @property
    def key(self) -> str:
        """Names the run within its plan; a plan gives a run the same key on every machine."""
        return self.known_key or self.digest

    @property
    def digest(self) -> str:
        """Of all that is said here; of a run that was read from a folder another one than before it was written."""
        parts = [self.scenario, self.text, self.system, self.world, self.client, self.seed, self.profile, self.drawn]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """time_s, run_budget: when no further run is begun; None: no such bound. inconclusive_share: how many of the judged
    runs may be inconclusive, from 0 to 1. run_limit_s: a run that takes longer is ended and counts as an error.
    stated_is_pass: a verdict that the run's scenario states counts as a pass, whatever it is. accepted: what
    accepted_file holds, once it was read (`accepting`)."""

    name: str
    seed: int
    runs: tuple[PlannedRun, ...]
    jobs: int = DEFAULT_JOBS
    time_s: float | None = None
    run_budget: int | None = None
    inconclusive_share: float = 0.1
    keep: Keep = "findings"
    accepted_file: Path | None = None
    accepted: tuple[Accepted, ...] = ()
    until_found: bool = False
    stated_is_pass: bool = False
    run_limit_s: float = DEFAULT_RUN_LIMIT_S
    shard: tuple[int, int] = (1, 1)

    @property
    def digest(self) -> str:
        """Of the runs alone: a campaign may go on with another budget and other jobs, and not with other runs."""
        text = json.dumps([self.name, self.seed, list(self.shard), [run.digest for run in self.runs]])
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    def as_json(self) -> dict[str, Any]:
        """Without the scenarios' texts, which lie beside it."""
        fields = dataclasses.asdict(self)
        for run, planned in zip(fields["runs"], self.runs, strict=True):
            del run["text"]
            run["known_key"] = planned.key
        del fields["accepted_file"]
        return fields | {"accepted": [each.as_table() for each in self.accepted], "digest": self.digest}


def wrong_name(name: str) -> str:
    """Why a campaign cannot have this name, which its folder gets; "": it can."""
    if not can_lie_below(name) or "/" in name or name.startswith(".") or name != printable(name):
        return (
            f"{name[:80]!r} is no name of a campaign: it is a folder's, without '/', control characters or a dot first"
        )
    if len(os.fsencode(name)) > NAME_BYTES_MAX:
        return f"a name of more than {NAME_BYTES_MAX} bytes"
    return ""


def shard_of(runs: Sequence[PlannedRun], shard: int, of: int) -> tuple[PlannedRun, ...]:
    """The runs of shard `shard`, from 1, of `of`: every run is in exactly one."""
    assert 1 <= shard <= of, (shard, of)
    return tuple(run for run in runs if (run.number - 1) % of == shard - 1)
