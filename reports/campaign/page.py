"""Pours a campaign's folder into its page: `write_campaign_page` is all that others call.

Works from the folder alone: its tables, campaign.json and verdict.json; the runs' folders are only looked at for their
pages. A section that fails shows its error in place; the others stay.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.host.printable import for_a_shell
from reports.campaign.data import CampaignData, Run
from reports.campaign.distributions import measures
from reports.campaign.grid import NAMES, WORST_FIRST, grid
from reports.campaign.groups import group_names, group_rows, listed_groups
from reports.campaign.model import CampaignPage, GroupRow, Measure, RunRow, VerdictCount
from reports.campaign.reading import read_campaign
from reports.campaign.rows import anchors_of, listed, run_link, run_rows
from reports.campaign.situations import situations
from reports.comparison.measures import number
from reports.model import Answer, Badge, Tone
from reports.render import STYLES, html_of, write_page
from reports.run.page import Problems
from reports.run_data import count_of
from reports.terms import CAMPAIGN_TERMS

PAGE = "campaign.html"
_TONES: dict[str, Tone] = {"pass": "pass", "violation": "viol"}
_FILES = (
    ("plan", "campaign.json"),
    ("verdict", "verdict.json"),
    ("summary", "summary.md"),
    ("JUnit", "junit.xml"),
    ("runs", "tables/runs.parquet"),
    ("groups of findings", "tables/findings.parquet"),
    ("which run had which", "tables/occurrences.parquet"),
    ("situations", "tables/situations.parquet"),
    ("measures", "tables/measures.parquet"),
)


def write_campaign_page(folder: Path) -> Path:
    """FOLDER/campaign.html, replaced as a whole.

    Raises UsageError where the folder is no campaign's, HarnessError where a table is unsound or nothing can be
    written.
    """
    html = rendered(read_campaign(folder))
    return write_page(folder, PAGE, html, otherwise=f"the verdict is in {folder / 'verdict.json'}")


def rendered(data: CampaignData) -> str:
    styles = (*STYLES, "comparison.css", "campaign.css")
    return html_of(build(data), template="campaign.html.j2", styles=styles, script="campaign.js")


def build(data: CampaignData) -> CampaignPage:
    problems = Problems()
    shown = listed(data.runs)
    anchors = anchors_of(shown)
    groups = listed_groups(data)
    no_groups: Sequence[GroupRow] = ()
    no_rows: Sequence[RunRow] = ()
    no_measures: Sequence[Measure] = ()
    return CampaignPage(
        title=f"{data.name} (kafka-chaos campaign)",
        name=data.name,
        badge=badge_of(data),
        sentence=data.sentence,
        lead=_lead(data),
        answers=problems.safely("Head", lambda: _answers(data), []),
        facts=_facts(data),
        counts=_counts(data),
        planned=len(data.runs),
        first_and_last=data.first_and_last,
        grid=problems.safely("Grid", lambda: grid(data.runs, anchors), None),
        groups=problems.safely("Findings", lambda: group_rows(data, groups, anchors), no_groups),
        groups_total=len(data.groups),
        situations=problems.safely("Situations", lambda: situations(data, anchors), None),
        measures=problems.safely("Distributions", lambda: _measures(data, anchors), no_measures),
        runs=problems.safely("Runs", lambda: run_rows(data, shown, group_names(groups)), no_rows),
        runs_hidden=_hidden(data.runs, shown),
        systems=sorted({run.where for run in data.runs}),
        faults=sorted({each.fault for each in data.measures}),
        commands=[
            (name, command)
            for name, command in (("This campaign again, or on where it stopped", data.command), *_shown_again(data))
            if command
        ],
        files=[(name, place) for name, place in _FILES if (data.path / place).is_file()],
        terms=CAMPAIGN_TERMS,
        problems=problems.found,
        footer=f"kafka-chaos {data.harness}, campaign {data.name}, seed {data.seed}",
    )


def badge_of(data: CampaignData) -> Badge:
    tone = _TONES.get(data.verdict, "neutral")
    return Badge(tone=tone, text=f"{NAMES[data.verdict]}, exit code {data.exit_code or 'not known'}")


def _counts(data: CampaignData) -> list[VerdictCount]:
    counts = Counter(run.verdict for run in data.runs)
    planned = max(len(data.runs), 1)
    return [
        VerdictCount(verdict=each, name=NAMES[each], count=counts[each], share=round(100 * counts[each] / planned, 3))
        for each in WORST_FIRST
    ]


def _lead(data: CampaignData) -> str:
    done = sum(run.verdict != "not_run" for run in data.runs)
    rest = len(data.runs) - done
    sentence = f"{count_of(done)} of {count_of(len(data.runs))} planned runs were done"
    if rest:
        sentence += f"; {count_of(rest)} {'was' if rest == 1 else 'were'} not begun, or not ended"
    acknowledged = sum(run.acknowledged for run in data.runs)
    return f"{sentence}. They acknowledged {count_of(acknowledged)} records."


def _answers(data: CampaignData) -> list[Answer]:
    counts = Counter(run.verdict for run in data.runs)
    violated = [run.number for run in data.runs if run.verdict == "violation" and not run.as_stated]
    groups = Counter(group.classification for group in data.groups)
    fresh = sum(group.classification == "violation" and not group.accepted for group in data.groups)
    flaky = sum(group.flaky for group in data.groups)
    elapsed_s = sum(run.took_s or 0.0 for run in data.runs)
    opened = counts["inconclusive"] + counts["vacuous"]
    slowest = max(
        (each for each in data.measures if each.recovery_s is not None),
        default=None,
        key=lambda each: (each.recovery_open, each.recovery_s or 0.0),
    )
    stated = counts["violation"] - len(violated)
    first = f"First in run {violated[0]}, last in run {violated[-1]}." if violated else "In no run."
    first += f" {count_of(stated)} more came to one as their scenarios state." if stated else ""
    return [
        Answer(question="Runs with a violation", short=count_of(len(violated)), more=first, link="#grid"),
        Answer(
            question="Groups of findings",
            short=count_of(len(data.groups)),
            more=f"{count_of(groups['violation'])} violations, {count_of(fresh)} of them not accepted; "
            f"{count_of(groups['permitted'])} permitted, {count_of(groups['observation'])} observations; "
            f"{count_of(flaky)} of all flaky.",
            link="#groups",
        ),
        Answer(
            question="Runs that prove nothing",
            short=count_of(opened + counts["error"]),
            more=f"{count_of(counts['error'])} errors, {count_of(counts['inconclusive'])} inconclusive, "
            f"{count_of(counts['vacuous'])} vacuous. All runs together took {_long(elapsed_s)}.",
            link="#runs",
        ),
        Answer(
            question="Longest recovery",
            short="none measured"
            if slowest is None
            else f"{'at least ' if slowest.recovery_open else ''}{number(slowest.recovery_s or 0.0, 's')}",
            more="" if slowest is None else f"After {slowest.fault} on {slowest.system}, in run {slowest.run}.",
            link="#times",
        ),
    ]


def _long(seconds: float) -> str:
    if seconds < 120:
        return number(seconds, "s")
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def _facts(data: CampaignData) -> list[tuple[str, str]]:
    facts = [("Campaign", data.name), ("Seed", data.seed), ("Begun", data.begun), ("Harness", data.harness)]
    facts.append(("CI's job", data.job))
    return [(name, value) for name, value in facts if value]


def _hidden(runs: Sequence[Run], shown: Sequence[Run]) -> str:
    if len(runs) == len(shown):
        return ""
    left = {run.number for run in shown}
    counts = Counter(run.verdict for run in runs if run.number not in left)
    named = ", ".join(f"{count_of(counts[each])} {NAMES[each]}" for each in WORST_FIRST if counts[each])
    return f"{count_of(len(runs) - len(shown))} more runs have no row here ({named}); all are in tables/runs.parquet."


def _shown_again(data: CampaignData) -> list[tuple[str, str]]:
    look = next(
        (run for run in data.runs if run.verdict == "violation" and not run.as_stated and data.folder_of(run)), None
    )
    if look is None:
        return []
    return [(f"The findings of run {look.number}", f"kafka-chaos show {for_a_shell(str(data.folder_of(look)))}")]


def _measures(data: CampaignData, anchors: Mapping[int, str]) -> list[Measure]:
    return measures([("", data)], lambda each: run_link(each.run, anchors))
