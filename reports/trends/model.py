"""What the page of trends shows; text is plain, drawing is in a box 100 wide and 100 high."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Night:
    """runs: how many it had."""

    name: str
    runs: int
    verdict: str


@dataclass(frozen=True, kw_only=True)
class Square:
    """The runs of a scenario on a system in one night; verdict "": it was not run."""

    verdict: str
    title: str


@dataclass(frozen=True, kw_only=True)
class HistoryRow:
    scenario: str
    system: str
    squares: Sequence[Square]


@dataclass(frozen=True, kw_only=True)
class Curve:
    """A measure over nights. dots: (x, y, title); changes: (x, sentence)."""

    measure: str
    latest: str
    lowest: str
    highest: str
    dots: Sequence[tuple[float, float, str]]
    changes: Sequence[tuple[float, str]]

    @property
    def line(self) -> str:
        return " ".join(f"{x:g},{y:g}" for x, y, _ in self.dots)


@dataclass(frozen=True, kw_only=True)
class Curves:
    scenario: str
    system: str
    curves: Sequence[Curve]


@dataclass(frozen=True, kw_only=True)
class FindingTrend:
    """where: scenarios and systems; lately: in how many of the last nights."""

    fingerprint: str
    check: str
    classification: str
    cause: str
    where: str
    nights: int
    first: str
    last: str
    lately: str
    is_new: bool
    is_gone: bool


@dataclass(frozen=True, kw_only=True)
class TrendsPage:
    """nights: those that are drawn, oldest first; all_nights: how many the store has. *_hidden: how many have no row.
    unreadable: why other nights are not among them. not_run: why runs of the last night were not made."""

    nights: Sequence[Night]
    all_nights: int
    headline: str
    not_run: Sequence[str]
    history: Sequence[HistoryRow]
    curves: Sequence[Curves]
    history_hidden: int
    findings: Sequence[FindingTrend]
    findings_hidden: int
    unreadable: Sequence[str]
    method: str
