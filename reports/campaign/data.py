"""A campaign's folder as its page needs it: runs, groups, situations and measures, each in the words of the page."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Run:
    """where: the system, with what else distinguishes runs; conditions: world and client.

    profile: of a drawn schedule, or "".

    as_stated: it came to no pass, and its scenario says so.
    """

    number: int
    scenario: str
    where: str
    conditions: str
    seed: int
    profile: str
    folder: str
    verdict: str
    as_stated: bool
    sentence: str
    began: str
    took_s: float | None
    operations: int
    acknowledged: int


@dataclass(frozen=True, kw_only=True)
class Group:
    """runs: how many have it; look: the run to look at; smallest: faults in its smallest schedule."""

    fingerprint: str
    check: str
    classification: str
    cause: str
    count: int
    runs: int
    faults: Sequence[str]
    first: int
    last: int
    look: int
    smallest: int
    flaky: bool
    accepted: str


@dataclass(frozen=True, kw_only=True)
class Reached:
    """A situation: its columns in words, how often, in how many runs, and the first of them."""

    cells: tuple[str, ...]
    times: int
    runs: int
    first: int


@dataclass(frozen=True, kw_only=True)
class MeasureOfRun:
    """See measures.py: what one fault of one run did."""

    run: int
    system: str
    fault: str
    recovery_s: float | None
    recovery_open: bool
    gap_s: float | None
    gap_open: bool
    throughput: float | None


@dataclass(frozen=True, kw_only=True)
class CampaignData:
    """runs_with: fingerprint -> run number -> findings."""

    path: Path
    name: str
    seed: str
    begun: str
    harness: str
    command: str
    verdict: str
    exit_code: str
    sentence: str
    job: str  # what the CI's job came to that this is the night of; empty: it was none's
    runs: Sequence[Run]
    groups: Sequence[Group]
    runs_with: Mapping[str, Mapping[int, int]]
    situation_columns: Sequence[str]
    situations: Sequence[Reached]
    measures: Sequence[MeasureOfRun]

    @cached_property
    def by_number(self) -> Mapping[int, Run]:
        return {run.number: run for run in self.runs}

    @cached_property
    def first_and_last(self) -> tuple[int, int]:
        """Numbers of runs; those of a shard have gaps between them."""
        numbers = [run.number for run in self.runs]
        return min(numbers, default=1), max(numbers, default=1)

    def folder_of(self, run: Run) -> Path | None:
        """Of a run that was kept, as a place below the campaign's folder."""
        place = Path(run.folder)
        if not run.folder or place.is_absolute() or ".." in place.parts:
            return None
        try:
            found = (self.path / place).resolve()
            return self.path / place if found.is_relative_to(self.path.resolve()) and found.is_dir() else None
        except (OSError, ValueError):
            return None  # no name that a file can have
