"""Situations: which combinations of circumstances were exercised, how often, and which never were.

A situation is a row of typed columns. Never reached are those combinations of two columns' values that were each seen
alone and not together; of all columns together, nearly everything is never reached, which says nothing to anybody.
"""

from collections.abc import Mapping, Sequence
from itertools import combinations, product

from reports.campaign.data import CampaignData, Reached
from reports.campaign.model import SituationRow, Situations
from reports.campaign.rows import run_link

LISTED_MAX = 300
NEVER_MAX = 200
_SELDOM = LISTED_MAX // 2


def situations(data: CampaignData, anchors: Mapping[int, str]) -> Situations | None:
    """None where none were counted."""
    if not data.situations:
        return None
    reached = sorted(data.situations, key=lambda each: (-each.times, each.cells))
    shown = reached if len(reached) <= LISTED_MAX else [*reached[: LISTED_MAX - _SELDOM], *reached[-_SELDOM:]]
    most = reached[0].times
    never = _never(reached, len(data.situation_columns))
    return Situations(
        columns=data.situation_columns,
        rows=[_row(each, most, anchors) for each in shown],
        hidden=len(reached) - len(shown),
        reached=len(reached),
        never=never[:NEVER_MAX],
        never_total=len(never),
        out_of="pairs of what was seen alone",
    )


def _row(each: Reached, most: int, anchors: Mapping[int, str]) -> SituationRow:
    return SituationRow(
        cells=each.cells,
        times=each.times,
        runs=each.runs,
        share=round(100 * each.times / most, 1) if most else 0.0,
        first=run_link(each.first, anchors),
    )


def _never(reached: Sequence[Reached], width: int) -> list[tuple[str, ...]]:
    """Pairs, in the columns of a situation; the other columns are "any"."""
    found = []
    for one, other in combinations(range(width), 2):
        seen = {(each.cells[one], each.cells[other]) for each in reached}
        values = [sorted({each.cells[place] for each in reached}) for place in (one, other)]
        for pair in product(*values):
            if pair not in seen:
                cells = ["any"] * width
                cells[one], cells[other] = pair
                found.append(tuple(cells))
    return found
