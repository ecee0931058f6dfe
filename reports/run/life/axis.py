"""Time in the picture of a record's life: in order, each moment at least so far from the next, the rest by time."""

from collections.abc import Iterable
from itertools import pairwise

from reports.run.life.model import Tick

WIDTH, LEFT, RIGHT = 960.0, 148.0, 30.0
_APART = 30.0  # the least distance of two moments
_TICK = 44.0  # what a time takes


class Axis:
    """Seconds to units of the drawing, of the moments that are given and of those between them."""

    def __init__(self, moments: Iterable[float]) -> None:
        self.moments = sorted({round(moment, 3) for moment in moments})
        assert self.moments, "a record was sent"
        gaps = [later - one for one, later in pairwise(self.moments)]
        room = WIDTH - LEFT - RIGHT
        least = min(_APART, room / max(len(gaps), 1))
        spare, whole = room - least * len(gaps), sum(gaps) or 1.0
        places = [LEFT]
        for gap in gaps:
            places.append(places[-1] + least + spare * gap / whole)
        self._places = dict(zip(self.moments, places, strict=True))

    def x(self, seconds: float) -> float:
        """What lies before or after all of them is at the edge."""
        at = min(max(round(seconds, 3), self.moments[0]), self.moments[-1])
        if at in self._places:
            return round(self._places[at], 1)
        low = max(one for one in self.moments if one < at)
        high = min(one for one in self.moments if one > at)
        share = (at - low) / (high - low)
        return round(self._places[low] + share * (self._places[high] - self._places[low]), 1)

    def clipped(self, begin: float | None, end: float | None) -> tuple[float, float]:
        """The drawn part of an interval; None: it has no end, or none that is known."""
        first = self.moments[0] if begin is None else begin
        last = self.moments[-1] if end is None else end
        return self.x(first), self.x(last)

    def ticks(self) -> list[Tick]:
        """Each in the first of two rows where it touches no other; of three at one place the third goes without."""
        ends = [-1.0, -1.0]
        made = []
        for moment in self.moments:
            x = self.x(moment)
            row = next((number for number, end in enumerate(ends) if x - _TICK / 2 >= end), None)
            if row is not None:
                ends[row] = x + _TICK / 2
                made.append(Tick(x=x, text=f"{moment:.3f}", row=row))
        return made
