"""The comparison page as frozen data: columns are systems or variants, each with as many runs as it was repeated.

Texts are plain; the template escapes them. Positions are percent of a drawn width, times are seconds. The same run
folders in the same order give the same page, byte for byte.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from reports.model import Badge, Chart, Lane, LegendEntry, Tone

Kind = Literal["differs", "within", "same", "unknown"]


@dataclass(frozen=True, kw_only=True)
class Head:
    """A column's card at the top. letter: A, B, ... stands for the column where there is no room for its name."""

    letter: str
    label: str
    change: str  # what was changed in the scenario for it, in words of --set
    badges: Sequence[Badge]
    figures: Sequence[tuple[str, str]]  # (what, how much)
    note: str  # why there is nothing to show, or what was left out


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One sentence. topic: what it is about, in a few words; context: what it needs to stand alone, or "".

    note: how far apart, against what spread. kind "unknown": too few runs to say.
    """

    kind: Kind
    topic: str
    context: str
    sentence: str
    note: str
    anchor: str  # the section of the page that shows its numbers


@dataclass(frozen=True, kw_only=True)
class VerdictCell:
    tone: Tone
    verdict: str
    note: str  # what is missing or wrong, or ""
    stated: bool  # the outcome is the one the scenario states
    counted: bool  # its numbers are in the medians
    href: str  # its report, relative to the page, or ""
    title: str


@dataclass(frozen=True, kw_only=True)
class VerdictRow:
    letter: str
    label: str
    stated: str
    cells: Sequence[VerdictCell]


@dataclass(frozen=True, kw_only=True)
class Cell:
    """The median of the repeats, and their range where they are not all the same."""

    text: str
    spread: str
    tone: Literal["", "perm", "viol", "zero"]


@dataclass(frozen=True, kw_only=True)
class Row:
    """indent: a part of the row above. mark: how the columns compare."""

    name: str
    cells: Sequence[Cell]
    mark: Kind | Literal[""]
    indent: int = 0
    tone: Tone | Literal[""] = ""
    group: str = ""  # a heading above this row


@dataclass(frozen=True, kw_only=True)
class Dot:
    at: float
    title: str
    hollow: bool  # its run came to no conclusion: not in the median
    open: bool  # it never ended: at least so long


@dataclass(frozen=True, kw_only=True)
class Strip:
    """All repeats of one column on a common axis."""

    letter: str
    label: str
    dots: Sequence[Dot]
    median: float | None
    low: float
    high: float
    text: str
    spread: str
    title: str


@dataclass(frozen=True, kw_only=True)
class StripGroup:
    """One measure of one fault, all columns below each other. fault: a heading when it is the fault's first."""

    fault: str
    measure: str
    strips: Sequence[Strip]
    mark: Kind | Literal[""]


@dataclass(frozen=True, kw_only=True)
class Strips:
    groups: Sequence[StripGroup]
    ticks: Sequence[tuple[float, str]]
    scale: str  # in words


@dataclass(frozen=True, kw_only=True)
class LatencyRow:
    """Median over repeats of three percentiles on a common logarithmic axis."""

    letter: str
    label: str
    phase: str  # on the first row of a phase
    p50: float | None
    p99: float | None
    p999: float | None
    text: str
    title: str


@dataclass(frozen=True, kw_only=True)
class Latencies:
    rows: Sequence[LatencyRow]
    ticks: Sequence[tuple[float, str]]


@dataclass(frozen=True, kw_only=True)
class LaneBlock:
    """Lanes of the same thing, one column above the other. folded: of all other repeats."""

    title: str
    lanes: Sequence[tuple[str, Lane]]  # (column's letter, lane)
    folded: Sequence[tuple[str, Lane]]


@dataclass(frozen=True, kw_only=True)
class ChartRow:
    letter: str
    chart: Chart


@dataclass(frozen=True, kw_only=True)
class History:
    begin: float
    duration: float
    aligned: str  # what second 0 is
    chosen: Sequence[tuple[str, str]]  # (letter, which repeat is shown)
    blocks: Sequence[LaneBlock]
    charts: Sequence[ChartRow]
    ticks: Sequence[float]
    zooms: Sequence[tuple[str, float, float]]
    legend: Sequence[LegendEntry]


@dataclass(frozen=True, kw_only=True)
class Environment:
    """What differs alone: (name, a value for each column)."""

    settings: Sequence[tuple[str, Sequence[str]]]
    machine: Sequence[tuple[str, Sequence[str]]]
    same: str  # what is the same, counted


@dataclass(frozen=True, kw_only=True)
class RunLink:
    letter: str
    repeat: int
    name: str
    href: str
    verdict: str
    counted: bool


@dataclass(frozen=True, kw_only=True)
class ComparisonPage:
    title: str
    scenario: str
    seed: str
    headline: str
    lead: str
    story: str
    warnings: Sequence[str]
    facts: Sequence[tuple[str, str]]
    heads: Sequence[Head]
    differences: Sequence[Difference]
    verdicts: Sequence[VerdictRow]
    repeats: int
    accounting: Sequence[Row]
    anomalies: Sequence[Row]
    strips: Strips | None
    phases: Sequence[Row]
    latencies: Latencies | None
    history: History | None
    environment: Environment | None
    runs: Sequence[RunLink]
    commands: Sequence[tuple[str, str]]
    terms: Sequence[tuple[str, str, str]]
    problems: Sequence[tuple[str, str]]
    footer: str
