"""The life of one record as frozen data: what was seen of it, and the picture of that, in units of the drawing."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

# holds: the record is there. maybe: it came, went or was replaced somewhere in between. other: another record has its
# place.
BarStyle = Literal["holds", "maybe", "other"]
DotStyle = Literal["sent", "told", "read", "seen", "absent", "other", "cut"]


@dataclass(frozen=True, kw_only=True)
class Bar:
    x: float
    width: float
    style: BarStyle
    title: str


@dataclass(frozen=True, kw_only=True)
class Band:
    """A time in which a broker was dead, down or paused."""

    x: float
    width: float
    text: str


@dataclass(frozen=True, kw_only=True)
class Dot:
    """row: 0 its label stands above the lane's line, 1 below it; label: empty where there is no room for one."""

    x: float
    style: DotStyle
    title: str
    label: str
    row: int
    anchor: Literal["start", "middle", "end"]


@dataclass(frozen=True, kw_only=True)
class LifeLane:
    label: str
    note: str
    colour: int
    bars: Sequence[Bar]
    bands: Sequence[Band]
    dots: Sequence[Dot]


@dataclass(frozen=True, kw_only=True)
class Tick:
    x: float
    text: str
    row: int


@dataclass(frozen=True, kw_only=True)
class Guide:
    """A step of the chain of causes, by its number there."""

    x: float
    number: int
    title: str
    decisive: bool


@dataclass(frozen=True, kw_only=True)
class LifeRow:
    """What happened to it, in words, and what that is known from."""

    time: str
    where: str
    what: str
    source: str


@dataclass(frozen=True, kw_only=True)
class Life:
    title: str
    caption: str
    lanes: Sequence[LifeLane]
    ticks: Sequence[Tick]
    guides: Sequence[Guide]
    rows: Sequence[LifeRow]
