"""The list of a campaign's runs: each with its verdict, its sentence, its faults' measures, and how to have it again.

Bounded: when there are too many, passing runs give way first.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from urllib.parse import quote

from harness.host.printable import for_a_shell
from reports.campaign.data import CampaignData, MeasureOfRun, Run
from reports.campaign.grid import NAMES, WORST_FIRST, cut
from reports.campaign.model import MeasuredFault, RunLink, RunRow
from reports.comparison.measures import number
from reports.run_data import count_of

LISTED_MAX = 2_000
_MEASURED_MAX = 20  # faults of one run in its row
_GROUPS_MAX = 30  # named in a run's row
_SENTENCE_MAX = 400


def listed(runs: Sequence[Run]) -> list[Run]:
    """All if they are few, else the worst; in the order of their numbers."""
    chosen = sorted(runs, key=lambda run: (WORST_FIRST.index(run.verdict), run.number))[:LISTED_MAX]
    return sorted(chosen, key=lambda run: run.number)


def anchors_of(runs: Sequence[Run]) -> dict[int, str]:
    return {run.number: f"r{run.number}" for run in runs}


def run_link(number_: int, anchors: Mapping[int, str]) -> RunLink:
    return RunLink(text=f"run {number_}", href=f"#{anchors[number_]}" if number_ in anchors else "")


def run_rows(data: CampaignData, runs: Sequence[Run], group_names: Mapping[str, str]) -> list[RunRow]:
    """group_names: fingerprint -> the group's name on the page, of those that have a row."""
    measured: dict[int, list[MeasureOfRun]] = defaultdict(list)
    for measure in data.measures:
        measured[measure.run].append(measure)
    found: dict[int, list[str]] = defaultdict(list)
    for fingerprint, name in group_names.items():
        for run in data.runs_with.get(fingerprint, ()):
            found[run].append(name)
    return [_row(data, run, measured[run.number], found[run.number]) for run in runs]


def _row(data: CampaignData, run: Run, measured: Sequence[MeasureOfRun], groups: Sequence[str]) -> RunRow:
    load = f"{count_of(run.acknowledged)} of {count_of(run.operations)} acknowledged" if run.operations else "none"
    folder = data.folder_of(run)
    return RunRow(
        number=run.number,
        anchor=f"r{run.number}",
        verdict=run.verdict,
        verdict_name=NAMES[run.verdict],
        as_stated=run.as_stated,
        scenario=run.scenario,
        system=run.where,
        conditions=", ".join(part for part in (run.conditions, f"drawn: {run.profile}" if run.profile else "") if part),
        seed=str(run.seed),
        faults=sorted({each.fault for each in measured}),
        groups=[RunLink(text=name, href=f"#{name}") for name in groups[:_GROUPS_MAX]],
        sentence=cut(run.sentence, _SENTENCE_MAX),
        began=run.began,
        took=number(run.took_s, "s") if run.took_s is not None else "–",
        load=load,
        page=page_of(data, run),
        folder=run.folder,
        command=f"kafka-chaos run {for_a_shell(str(folder))}" if folder is not None else "",
        measured=[_measured(each) for each in measured[:_MEASURED_MAX]],
    )


def page_of(data: CampaignData, run: Run) -> str:
    """The run's own page, relative to the campaign's, or ""."""
    folder = data.folder_of(run)
    if folder is None or not (folder / "report.html").is_file():
        return ""
    return quote((folder / "report.html").relative_to(data.path).as_posix())


def _measured(each: MeasureOfRun) -> MeasuredFault:
    def duration(seconds: float | None, never: bool, otherwise: str) -> str:
        return otherwise if seconds is None else f"{'at least ' if never else ''}{number(seconds, 's')}"

    return MeasuredFault(
        fault=each.fault,
        recovery=duration(each.recovery_s, each.recovery_open, "nothing stopped"),
        gap=duration(each.gap_s, each.gap_open, "–"),
        throughput="–" if each.throughput is None else number(each.throughput, "records/s"),
    )
