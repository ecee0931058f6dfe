"""The search for the smallest scenario that shows what is sought: every reduction is tried until none is left.

Reductions are tried several at once, so that Spark judges their runs together. What shows it still is kept: all of
those together if that shows it, else one after the other. A pass over all of them that keeps none ends the search.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from harness.campaign.shrinking.reductions import Reduction, reductions
from harness.scenario.model import Scenario
from harness.scenario.written import written_out

BATCH = 8
# For each scenario the seed with which it showed what is sought; None: it did not.
Tried = Callable[[Sequence[tuple[str, Scenario]]], Awaitable[Sequence[int | None]]]


async def smallest(
    start: Scenario,
    tried: Tried,
    *,
    goes_on: Callable[[], bool],
    reductions: Callable[[Scenario], list[Reduction]] = reductions,
) -> Scenario:
    """start: shows what is sought with its seed. Ends with what was found until then once `goes_on` is false."""
    search = _Search(start, tried, goes_on, reductions)
    while await search.a_pass():
        pass
    return search.now


class _Search:
    def __init__(
        self,
        start: Scenario,
        tried: Tried,
        goes_on: Callable[[], bool],
        reductions: Callable[[Scenario], list[Reduction]],
    ) -> None:
        self.now = start
        self._tried = tried
        self._goes_on = goes_on
        self._reductions = reductions
        self._known = {written_out(start)}  # what was tried

    async def a_pass(self) -> bool:
        """Whether anything was taken away."""
        before = self.now
        left = self._reductions(self.now)
        while left and self._goes_on():
            batch, left = self._next(left)
            if kept := await self._shown(batch):
                left = [*await self._take(kept), *left]
        return self._goes_on() and self.now != before

    def _next(self, left: Sequence[Reduction]) -> tuple[list[Reduction], list[Reduction]]:
        """(the next that make something new, those behind them)."""
        batch: list[Reduction] = []
        for number, reduction in enumerate(left):
            if len(batch) == BATCH:
                return batch, list(left[number:])
            smaller = reduction.apply(self.now)
            if smaller != self.now and (text := written_out(smaller)) not in self._known:
                self._known.add(text)
                batch.append(reduction)
        return batch, []

    async def _shown(self, batch: Sequence[Reduction]) -> list[tuple[Reduction, Scenario]]:
        """Those that still show it, and what they leave."""
        smaller = [(each.what, each.apply(self.now)) for each in batch]
        seeds = await self._tried(smaller) if smaller else []
        return [
            (reduction, replace(left, seed=seed))
            for reduction, (_, left), seed in zip(batch, smaller, seeds, strict=True)
            if seed is not None
        ]

    async def _take(self, kept: Sequence[tuple[Reduction, Scenario]]) -> list[Reduction]:
        """Takes all of them, or the first one. Returns those that are to be tried on what is left now."""
        together = await self._together([each for each, _ in kept]) if len(kept) > 1 else None
        self.now = together or kept[0][1]
        return [] if together else [each for each, _ in kept[1:]]

    async def _together(self, kept: Sequence[Reduction]) -> Scenario | None:
        left = self.now
        for each in kept:
            left = each.apply(left)
        text = written_out(left)
        if text in self._known:
            return None
        self._known.add(text)
        (seed,) = await self._tried([(" and ".join(each.what for each in kept), left)])
        return None if seed is None else replace(left, seed=seed)
