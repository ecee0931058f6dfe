"""The campaign page as frozen data: runs by verdict, groups of findings, situations, and distributions of measures.

Texts are plain; the template escapes them. Positions are percent of a drawn width, times are seconds. The same folder
gives the same page, byte for byte. Counts are of all runs; what is listed is bounded, and says what it leaves out.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from reports.model import Answer, Badge


@dataclass(frozen=True, kw_only=True)
class VerdictCount:
    """verdict: as the tables call it, for filters; name: for people; share: percent of all planned runs."""

    verdict: str
    name: str
    count: int
    share: float


@dataclass(frozen=True, kw_only=True)
class Square:
    """A run in the grid. anchor: of its row in the list below; calm: its scenario states what it came to."""

    number: int
    anchor: str
    verdict: str
    calm: bool
    title: str


@dataclass(frozen=True, kw_only=True)
class GridCell:
    """tally: verdicts with counts, in words; hidden: runs that have no square."""

    squares: Sequence[Square]
    tally: str
    hidden: int


@dataclass(frozen=True, kw_only=True)
class GridRow:
    name: str
    cells: Sequence[GridCell]


@dataclass(frozen=True, kw_only=True)
class Grid:
    """rows_are: what a row is, "Scenario" or "Profile"."""

    rows_are: str
    columns: Sequence[str]
    rows: Sequence[GridRow]
    hidden_rows: int


@dataclass(frozen=True, kw_only=True)
class RunLink:
    """href: "#r17", the run's row in the page, or "" where it has none."""

    text: str
    href: str


@dataclass(frozen=True, kw_only=True)
class MeasuredFault:
    fault: str
    recovery: str
    gap: str
    throughput: str


@dataclass(frozen=True, kw_only=True)
class RunRow:
    """page: the run's own page, relative to this one, or "" where it was not kept; groups: of its findings."""

    number: int
    anchor: str
    verdict: str
    verdict_name: str
    as_stated: bool
    scenario: str
    system: str
    conditions: str  # world, client, profile
    seed: str
    faults: Sequence[str]
    groups: Sequence[RunLink]
    sentence: str
    began: str
    took: str
    load: str
    page: str
    folder: str
    command: str
    measured: Sequence[MeasuredFault]


@dataclass(frozen=True, kw_only=True)
class Tick:
    """A run in which a group was found, on the axis of all runs."""

    at: float
    title: str
    href: str


@dataclass(frozen=True, kw_only=True)
class GroupRow:
    """Findings of one fingerprint. look: the run to look at; accepted: the reason and until when, or ""."""

    anchor: str
    fingerprint: str
    badge: Badge
    check: str
    cause: str
    findings: int
    runs: int
    often: str
    faults: Sequence[str]
    first: RunLink
    last: RunLink
    look: RunLink
    look_page: str
    smallest: str
    flaky: bool
    accepted: str
    ticks: Sequence[Tick]
    hidden: int


@dataclass(frozen=True, kw_only=True)
class SituationRow:
    """Cells of the situation's columns; times: how often it was reached, in `runs` runs."""

    cells: Sequence[str]
    times: int
    runs: int
    share: float  # percent of the most frequent
    first: RunLink


@dataclass(frozen=True, kw_only=True)
class Situations:
    columns: Sequence[str]
    rows: Sequence[SituationRow]
    hidden: int
    reached: int
    never: Sequence[Sequence[str]]
    never_total: int
    out_of: str  # of what the never reached ones were counted


@dataclass(frozen=True, kw_only=True)
class Dot:
    run: int
    at: float
    y: float
    title: str
    open: bool  # it never ended: at least so long


@dataclass(frozen=True, kw_only=True)
class Distribution:
    """One measure of one fault on one system. quartiles: low, median, high; whiskers: of nine tenths in the middle."""

    fault: str
    system: str
    first: bool  # of its fault: bears the heading
    count: int
    dots: Sequence[Dot]
    low: float
    lower: float
    median: float
    upper: float
    high: float
    text: str
    spread: str
    extreme: RunLink
    open: int


@dataclass(frozen=True, kw_only=True)
class Measure:
    """All distributions of one measure, on one axis."""

    key: str
    title: str
    meaning: str
    scale: str
    ticks: Sequence[tuple[float, str]]
    rows: Sequence[Distribution]
    hidden: int


@dataclass(frozen=True, kw_only=True)
class CampaignPage:
    title: str
    name: str
    badge: Badge
    sentence: str
    lead: str
    answers: Sequence[Answer]
    facts: Sequence[tuple[str, str]]
    counts: Sequence[VerdictCount]
    planned: int
    first_and_last: tuple[int, int]
    grid: Grid | None
    groups: Sequence[GroupRow]
    groups_total: int
    situations: Situations | None
    measures: Sequence[Measure]
    runs: Sequence[RunRow]
    runs_hidden: str
    systems: Sequence[str]
    faults: Sequence[str]
    commands: Sequence[tuple[str, str]]
    files: Sequence[tuple[str, str]]
    terms: Sequence[tuple[str, str, str]]
    problems: Sequence[tuple[str, str]]
    footer: str


# ---- side by side ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Head:
    letter: str
    name: str
    href: str  # its own page, relative to this one, or ""
    badge: Badge
    sentence: str
    facts: Sequence[tuple[str, str]]


@dataclass(frozen=True, kw_only=True)
class GroupBeside:
    """cells: for each campaign "3 of 199 runs" or "–". only: the letters of those that have it, "" if all have."""

    badge: Badge
    check: str
    cause: str
    fingerprint: str
    cells: Sequence[str]
    only: str


@dataclass(frozen=True, kw_only=True)
class CampaignsPage:
    title: str
    headline: str
    heads: Sequence[Head]
    verdicts: Sequence[tuple[str, str, Sequence[str]]]  # (verdict, its name, a cell for each campaign)
    groups: Sequence[GroupBeside]
    groups_hidden: int
    measures: Sequence[Measure]
    footer: str
