"""Nights side by side: verdicts of each scenario and system, times and speed with their changes, findings by age.

All of it is of the store alone (harness/trends/store.py), with pandas; a measure of a night is the median of its runs.
"""

import json
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import pandas as pd

from harness.errors import HarnessError, UsageError
from harness.history.files_below import FilesBelow
from harness.host.printable import shortened
from harness.trends import store as stored
from harness.trends.changes import LEAST, WINDOW, change_points
from harness.trends.store import Store
from reports.render import STYLES, filled
from reports.trends.model import Curve, Curves, FindingTrend, HistoryRow, Night, Square, TrendsPage

SHOWN_NIGHTS = 60
ROWS_MAX = 300  # scenarios on systems
FINDINGS_MAX = 500
_UNREADABLE_MAX = 20
_TEXT_MAX = 300
_WORST_FIRST = ("violation", "error", "inconclusive", "vacuous", "pass")
_MEASURES = {
    "recovery_s": ("Recovery, the longest after a fault", "s"),
    "gap_s": ("Availability gap, the longest", "s"),
    "throughput_per_s": ("Records acknowledged per second", "/s"),
}
METHOD = (
    f"A change is marked where the median of up to {WINDOW} nights from there on and the median of up to {WINDOW} "
    "nights before are further apart than three times the larger spread of both sides (median deviation from the "
    f"median, times 1.4826) and than a tenth of the earlier median; each side needs {LEAST} nights."
)
_KEY = ["scenario", "system"]


def build(store: Store) -> TrendsPage:
    """Raises UsageError for a store without nights, HarnessError for one that cannot be read."""
    nights, unfit = store.readable()
    if unfit and not nights:
        raise unfit[0]
    if not nights:
        raise UsageError(f"{store.path}: no nights yet; `kafka-chaos trends --store {store.path} RUN...` appends one")
    names = [night.name for night in nights]
    runs = pd.DataFrame(
        [{"night": night.name, **vars(run)} for night in nights for run in night.runs],
        columns=["night", *stored.SCHEMAS["runs"].names],
    )
    findings = pd.DataFrame(
        [{"night": night.name, **vars(finding)} for night in nights for finding in night.findings],
        columns=["night", *stored.SCHEMAS["findings"].names],
    )
    not_run = pd.DataFrame(
        [{"night": night.name, **vars(each)} for night in nights for each in night.not_run],
        columns=["night", *stored.SCHEMAS["not_run"].names],
    )
    shown, last_not_run = names[-SHOWN_NIGHTS:], not_run[not_run["night"] == names[-1]]
    ages = _ages(findings, names)
    trends = _findings(findings[findings["fingerprint"].isin(ages.index[:FINDINGS_MAX])], names, stored.seen_in(nights))
    history = _history(runs, not_run, shown)
    return TrendsPage(
        nights=[_night(name, runs[runs["night"] == name]) for name in shown],
        all_nights=len(names),
        headline=_headline(runs[runs["night"] == names[-1]], last_not_run, names[-1], ages),
        not_run=_reasons(last_not_run),
        history=history,
        history_hidden=len(_keys(runs, not_run)) - len(history),
        curves=_curves(runs, shown),
        findings=trends,
        findings_hidden=len(ages) - len(trends),
        unreadable=[shortened(str(error)) for error in unfit[:_UNREADABLE_MAX]],
        method=METHOD,
    )


def write_trends(store: Store, *, out: Path) -> tuple[Path, TrendsPage]:
    """OUT/trends.html and OUT/trends.json, each replaced as a whole."""
    page = build(store)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise HarnessError(f"{out}: {error.strerror}; give another folder with --out") from error
    files = FilesBelow(out)
    files.replace("trends.json", json.dumps(asdict(page), indent=1).encode() + b"\n")
    html = filled("trends.html.j2", styles=(*STYLES, "trends.css"), page=page)
    return files.replace("trends.html", html.encode()), page


def _cut(text: object) -> str:
    return shortened(str(text), _TEXT_MAX)


def _worst(verdicts: Sequence[str]) -> str:
    return next((each for each in _WORST_FIRST if each in verdicts), "")


def _night(name: str, runs: pd.DataFrame) -> Night:
    return Night(name=name, runs=len(runs), verdict=_worst(list(runs["verdict"])))


def _headline(runs: pd.DataFrame, not_run: pd.DataFrame, name: str, ages: pd.DataFrame) -> str:
    counts = runs["verdict"].value_counts()
    words = ", ".join(f"{counts[each]} {each}" for each in _WORST_FIRST if each in counts)
    new = int((ages["is_new"] & (ages["classification"] == "violation")).sum())
    first_seen = f"; {new} {'violation' if new == 1 else 'violations'} never seen before" if new else ""
    missing = f"; {int(not_run['count'].sum())} not run" if len(not_run) else ""
    return f"Last night, {name}: {words or 'no runs'}{missing}{first_seen}."


def _reasons(not_run: pd.DataFrame) -> list[str]:
    """3 not run: its time is over"""
    counts = not_run.groupby("reason", sort=True)["count"].sum()
    return [f"{count} not run: {_cut(reason or 'no reason is known')}" for reason, count in counts.items()]


def _history(runs: pd.DataFrame, not_run: pd.DataFrame, shown: Sequence[str]) -> list[HistoryRow]:
    rows = []
    verdicts_of = {key: list(verdicts) for key, verdicts in runs.groupby([*_KEY, "night"])["verdict"]}
    missing = dict(list(not_run.groupby([*_KEY, "night"])))
    for scenario, system in _keys(runs, not_run)[:ROWS_MAX]:
        squares = []
        for night in shown:
            verdicts = verdicts_of.get((scenario, system, night), [])
            words = [f"{verdicts.count(each)} {each}" for each in _WORST_FIRST if each in verdicts]
            if (left_out := missing.get((scenario, system, night))) is not None:
                words += _reasons(left_out)
            squares.append(Square(verdict=_worst(verdicts), title=f"{night}: {', '.join(words) or 'not run'}"))
        rows.append(HistoryRow(scenario=_cut(scenario), system=_cut(system), squares=squares))
    return rows


def _keys(*tables: pd.DataFrame) -> list[tuple[str, str]]:
    return sorted({key for rows in tables for key in zip(rows["scenario"], rows["system"], strict=True)})


def _curves(runs: pd.DataFrame, shown: Sequence[str]) -> list[Curves]:
    places = {night: place for place, night in enumerate(shown)}
    drawn = []
    for (scenario, system), group in _first_groups(runs[runs["night"].isin(list(shown))]):
        curves = []
        for measure in _MEASURES:
            medians = group.dropna(subset=[measure]).groupby("night")[measure].median()
            if len(medians) >= 2:
                curves.append(_curve(measure, medians, places))
        if curves:
            drawn.append(Curves(scenario=_cut(scenario), system=_cut(system), curves=curves))
    return drawn


def _first_groups(runs: pd.DataFrame) -> Iterable[tuple[tuple[Hashable, ...], pd.DataFrame]]:
    """Of each scenario on a system, the first of them by name if they are many."""
    first = runs[_KEY].drop_duplicates().sort_values(_KEY).head(ROWS_MAX)
    return runs.merge(first, on=_KEY).groupby(_KEY, sort=True)


def _curve(measure: str, medians: "pd.Series[float]", places: dict[str, int]) -> Curve:
    name, unit = _MEASURES[measure]
    nights, values = [str(night) for night in medians.index], [float(value) for value in medians]
    low, high = min(0.0, *values), max(values)
    span = (high - low) or 1.0
    last = max(len(places) - 1, 1)
    across = [100 * places[night] / last for night in nights]
    dots = [
        (round(x, 2), round(95 - 90 * (value - low) / span, 2), f"{night}: {_number(value)} {unit}")
        for x, value, night in zip(across, values, nights, strict=True)
    ]
    changes = [
        (
            round(across[each.place], 2),
            f"{nights[each.place]}: from {_number(each.before)} to {_number(each.after)} {unit}",
        )
        for each in change_points(values)
    ]
    return Curve(
        measure=name,
        latest=f"{_number(values[-1])} {unit}",
        lowest=_number(min(values)),
        highest=_number(high),
        dots=dots,
        changes=changes,
    )


def _number(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _ages(findings: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """Of each fingerprint: classification, first and last night, whether it is new; in the order of the page."""
    first = findings.drop_duplicates("fingerprint").set_index("fingerprint").sort_index()  # nights are oldest first
    last = findings.drop_duplicates("fingerprint", keep="last").set_index("fingerprint")
    ages = first[["classification"]].assign(first=first["night"], last=last["night"])
    ages["rank"] = ages["classification"].map(_rank)
    ages["is_gone"] = ages["last"] != names[-1]
    ages["is_new"] = (ages["first"] == names[-1]) & (len(names) > 1)
    return ages.sort_values(["rank", "is_gone", "first"], kind="stable")


def _findings(
    findings: pd.DataFrame, names: Sequence[str], seen: Mapping[str, stored.SeenLately]
) -> list[FindingTrend]:
    rows = []
    for fingerprint, group in findings.groupby("fingerprint", sort=True):
        nights = sorted(set(group["night"]))
        first = group.iloc[0]
        places = sorted({f"{row.scenario} on {row.system}" for row in group.itertuples()})
        further = f" and {len(places) - 3} more" if len(places) > 3 else ""
        rows.append(
            FindingTrend(
                fingerprint=_cut(fingerprint),
                check=_cut(first["check"]),
                classification=first["classification"],
                cause=_cut(first["cause"]),
                where="; ".join(_cut(place) for place in places[:3]) + further,
                nights=len(nights),
                first=nights[0],
                last=nights[-1],
                lately=seen[str(fingerprint)].sentence,
                is_new=nights == [names[-1]] and len(names) > 1,
                is_gone=nights[-1] != names[-1],
            )
        )
    return sorted(rows, key=lambda each: (_rank(each.classification), each.is_gone, each.first))


def _rank(classification: str) -> int:
    order = ("violation", "permitted", "observation")
    return order.index(classification) if classification in order else len(order)
