"""The axis that drawn numbers share: where a value stands, in percent of the width, and which ticks say so."""

import math
from collections.abc import Sequence

_LOG_FROM = 60  # a scale whose ends are so many times apart is logarithmic
_FLOOR = 0.01
_TICKS_MAX = 9
_OF_CLOCKS = (0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 60, 300, 1e9)
_OF_TEN = tuple(figure * 10.0**power for power in range(-2, 12) for figure in (1, 2, 5))


class Scale:
    """Percent of the width for values; logarithmic when the smallest would vanish beside the largest.

    unit: in words; seconds have steps of clocks, all else those of ten.
    """

    def __init__(self, values: Sequence[float], *, unit: str = "seconds") -> None:
        self.top = max(max(values, default=1.0), 0.1)
        positive = [value for value in values if value > _FLOOR]
        self._steps = _OF_CLOCKS if unit == "seconds" else _OF_TEN
        self.log = bool(positive) and self.top / min(positive) > _LOG_FROM
        self.floor = 10 ** math.floor(math.log10(min(positive))) if self.log else 0.0
        self.words = f"{unit}, logarithmic" if self.log else unit
        if not self.log:
            step = self._step()
            self.top = math.ceil(self.top / step + 0.02) * step
        else:
            self.top *= 1.15

    def at(self, value: float) -> float:
        if self.log:
            share = math.log(max(value, self.floor) / self.floor) / math.log(self.top / self.floor)
        else:
            share = value / self.top
        return round(100 * min(max(share, 0.0), 1.0), 2)

    def ticks(self) -> list[tuple[float, str]]:
        if not self.log:
            step = self._step()
            return [(self.at(i * step), f"{i * step:g}") for i in range(round(self.top / step) + 1)]
        decades = range(round(math.log10(self.floor)), math.floor(math.log10(self.top)) + 1)
        return [(self.at(10.0**decade), f"{10.0**decade:g}") for decade in decades]

    def _step(self) -> float:
        return next(step for step in self._steps if self.top / step <= _TICKS_MAX)
