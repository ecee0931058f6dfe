"""Groups of findings: those of one fingerprint, in however many runs; violations first, then what was most often."""

from collections.abc import Mapping, Sequence

from reports.campaign.data import CampaignData, Group
from reports.campaign.distributions import even
from reports.campaign.model import GroupRow, Tick
from reports.campaign.rows import page_of, run_link
from reports.model import Badge, Tone
from reports.run_data import count_of

GROUPS_MAX = 200
_TICKS_MAX = 150
CLASSES = ("violation", "permitted", "observation")
BADGES: Mapping[str, tuple[Tone, str]] = {
    "violation": ("viol", "violation"),
    "permitted": ("perm", "permitted"),
    "observation": ("neutral", "observation"),
}


def listed_groups(data: CampaignData) -> list[Group]:
    """Findings that were accepted come after those of their class that were not."""

    def order(group: Group) -> tuple[int, bool, int, str]:
        return CLASSES.index(group.classification), bool(group.accepted), -group.runs, group.fingerprint

    return sorted(data.groups, key=order)[:GROUPS_MAX]


def group_names(groups: Sequence[Group]) -> dict[str, str]:
    """fingerprint -> G1, G2, … in the order of the page"""
    return {group.fingerprint: f"G{place}" for place, group in enumerate(groups, 1)}


def group_rows(data: CampaignData, groups: Sequence[Group], anchors: Mapping[int, str]) -> list[GroupRow]:
    return [_row(data, group, f"G{place}", anchors) for place, group in enumerate(groups, 1)]


def _row(data: CampaignData, group: Group, name: str, anchors: Mapping[int, str]) -> GroupRow:
    tone, words = BADGES[group.classification]
    ticks, hidden = _ticks(data, group, anchors)
    done = sum(run.verdict != "not_run" for run in data.runs)
    look = data.by_number.get(group.look)
    return GroupRow(
        anchor=name,
        fingerprint=group.fingerprint,
        badge=Badge(tone=tone, text=words),
        check=group.check,
        cause=group.cause,
        findings=group.count,
        runs=group.runs,
        often=often(group.runs, done),
        faults=group.faults,
        first=run_link(group.first, anchors),
        last=run_link(group.last, anchors),
        look=run_link(group.look, anchors),
        look_page=page_of(data, look) if look is not None else "",
        smallest=_smallest(group.smallest),
        flaky=group.flaky,
        accepted=group.accepted,
        ticks=ticks,
        hidden=hidden,
    )


def often(runs: int, done: int) -> str:
    """For example "of 200, 3.5 %"."""
    share = 100 * runs / done if done else 0.0
    return f"of {count_of(done)}, {share:.1f} %" if share < 10 else f"of {count_of(done)}, {share:.0f} %"


def _smallest(faults: int) -> str:
    return "no fault at all" if faults == 0 else f"{count_of(faults)} fault{'' if faults == 1 else 's'}"


def _ticks(data: CampaignData, group: Group, anchors: Mapping[int, str]) -> tuple[list[Tick], int]:
    """(marks on an axis of all runs, how many runs have none)"""
    counts = data.runs_with.get(group.fingerprint, {})
    drawn = even(sorted(counts), _TICKS_MAX)
    last = max(len(data.runs), 1)
    ticks = [
        Tick(
            at=round(100 * (number - 0.5) / last, 2),
            title=f"run {number}: {count_of(counts[number])} finding{'' if counts[number] == 1 else 's'}",
            href=f"#{anchors[number]}" if number in anchors else "",
        )
        for number in drawn
    ]
    return ticks, len(counts) - len(drawn)
