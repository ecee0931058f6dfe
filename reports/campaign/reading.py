"""Reads a campaign's folder for its page: its plan, its verdict and its tables, none of which is trusted."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.campaign.results import SCHEMAS
from harness.ci.campaign_report import JOB
from harness.errors import HarnessError, UsageError
from harness.history.files_below import FilesBelow
from harness.history.schema.kept_tables import kept_rows
from harness.history.schema.texts import json_below
from harness.host import memory
from harness.host.printable import shortened
from reports.campaign.data import CampaignData, Group, MeasureOfRun, Reached, Run
from reports.campaign.grid import WORST_FIRST
from reports.campaign.groups import CLASSES

_AGAIN = "give the campaign again, with the same plan, seed and --runs: that writes it anew"
_ROLES = {"out_of_isr": "out of the ISR"}
SITUATION_COLUMNS = ("Fault", "Victim", "ISR size", "New epoch just before", "In flight", "Fault before")
_TEXT_MAX, _LIST_MAX = 500, 200  # a run's folder is a shorter name
Row = Mapping[str, Any]


def read_campaign(folder: Path, *, held: memory.Together | None = None) -> CampaignData:
    """held: what is in memory already, of other campaigns. Raises UsageError where the folder is no campaign's,
    HarnessError where something in it is unsound."""
    files = FilesBelow(folder)
    plan, verdict = _json(files, "campaign.json"), _json(files, "verdict.json")
    together = held or memory.Together()
    rows = {name: _rows(files, name, together) for name in SCHEMAS}
    if verdict.get("verdict") not in WORST_FIRST:
        what = f"verdict is {str(verdict.get('verdict'))[:40]!r}, none of {', '.join(WORST_FIRST)}"
        raise HarnessError(f"{files.top / 'verdict.json'}: {what}: {_AGAIN}")
    where = _where(rows["runs"])
    return CampaignData(
        path=files.top,
        name=_text(plan, "name") or folder.name,
        seed=_text(plan, "seed"),
        begun=_text(plan, "begun"),
        harness=_text(plan, "harness_version"),
        command=_text(plan, "command"),
        verdict=str(verdict["verdict"]),
        exit_code=_text(verdict, "exit_code"),
        sentence=_text(verdict, "sentence"),
        job=_text(_job(files), "sentence"),
        runs=sorted((_run(row, where) for row in rows["runs"]), key=lambda run: run.number),
        groups=[_group(row) for row in rows["findings"]],
        runs_with=_runs_with(rows["occurrences"]),
        situation_columns=SITUATION_COLUMNS,
        situations=_situations(rows["situations"]),
        measures=[_measure(row, where) for row in rows["measures"]],
    )


# ---- files ----------------------------------------------------------------------------------------------------------


def _json(files: FilesBelow, name: str) -> Mapping[str, Any]:
    try:
        return json_below(files, name)
    except FileNotFoundError:
        raise UsageError(f"{files.top / name} is missing: name the folder of a campaign, RUNS/campaigns/NAME") from None


def _job(files: FilesBelow) -> Mapping[str, Any]:
    try:
        return json_below(files, JOB)
    except FileNotFoundError:
        return {}


def _text(content: Mapping[str, Any], name: str) -> str:
    value = content.get(name)
    return "" if value is None else shortened(str(value))


def _rows(files: FilesBelow, table: str, held: memory.Together) -> Sequence[Row]:
    """None of a table that was never written."""
    words: Mapping[str, Mapping[str, Sequence[str]]] = {
        "runs": {"verdict": WORST_FIRST},
        "findings": {"class": CLASSES},
    }
    try:
        rows = kept_rows(
            files,
            f"tables/{table}.parquet",
            SCHEMAS[table],
            may_be_null=_MAY_BE_NULL,
            words=words.get(table),
            held=held,
            wrong=" is no sound table",
            remedy=_AGAIN,
        )
    except FileNotFoundError:
        return ()
    return [{name: _cut(value) for name, value in row.items()} for row in rows]


def _cut(value: Any) -> Any:
    """A page is no longer than its rows, however long their texts are."""
    if isinstance(value, list):
        return [_cut(each) for each in value[:_LIST_MAX]]
    return shortened(value, _TEXT_MAX) if isinstance(value, str) else value


_MAY_BE_NULL = ("took_s", "recovery_s", "gap_s", "throughput_per_s")


# ---- rows -----------------------------------------------------------------------------------------------------------


def _where(rows: Sequence[Row]) -> Mapping[int, str]:
    """Number of a run -> its system, and its world and client where there are several."""
    parts = ["system", *(name for name in ("world", "client") if len({row[name] for row in rows if row[name]}) > 1)]
    return {row["number"]: ", ".join(row[name] for name in parts if row[name]) for row in rows}


def _run(row: Row, where: Mapping[int, str]) -> Run:
    return Run(
        number=row["number"],
        scenario=row["scenario"],
        where=where[row["number"]],
        conditions=", ".join(row[name] for name in ("world", "client") if row[name]),
        seed=row["seed"],
        profile=row["profile"],
        folder=row["folder"],
        verdict=row["verdict"],
        as_stated=row["as_stated"] and row["verdict"] != "pass",
        sentence=row["sentence_text"],
        began=row["began"],
        took_s=row["took_s"],
        operations=row["operations"],
        acknowledged=row["records_acknowledged"],
    )


def _group(row: Row) -> Group:
    until = f"; until {row['accepted_until']}" if row["accepted_until"] else ""
    return Group(
        fingerprint=row["fingerprint"],
        check=row["check"],
        classification=row["class"],
        cause=row["cause"],
        count=row["count"],
        runs=row["runs"],
        faults=[str(each) for each in row["faults"]],
        first=row["first_run"],
        last=row["last_run"],
        look=row["look_at"],
        smallest=row["smallest_faults"],
        flaky=row["flaky"],
        accepted=f"{row['accepted_reason']}{until}",
    )


def _runs_with(rows: Sequence[Row]) -> Mapping[str, Mapping[int, int]]:
    found: defaultdict[str, Counter[int]] = defaultdict(Counter)
    for row in rows:
        found[row["fingerprint"]][row["run"]] += row["count"]
    return found


def _situations(rows: Sequence[Row]) -> list[Reached]:
    times: Counter[tuple[str, ...]] = Counter()
    runs: defaultdict[tuple[str, ...], set[int]] = defaultdict(set)
    for row in rows:
        cells: tuple[str, ...] = (
            row["kind"],
            _ROLES.get(row["role"]) or row["role"],
            str(row["isr_size"]) if row["isr_size"] else "not known",
            "yes" if row["epoch_change"] else "no",
            row["in_flight"],
            row["before"] or "none",
        )
        times[cells] += row["times"]
        runs[cells].add(row["run"])
    return [
        Reached(cells=cells, times=count, runs=len(runs[cells]), first=min(runs[cells]))
        for cells, count in times.items()
    ]


def _measure(row: Row, where: Mapping[int, str]) -> MeasureOfRun:
    return MeasureOfRun(
        run=row["run"],
        system=where.get(row["run"], row["system"]),
        fault=row["fault"],
        recovery_s=row["recovery_s"],
        recovery_open=row["recovery_open"],
        gap_s=row["gap_s"],
        gap_open=row["gap_open"],
        throughput=row["throughput_per_s"],
    )
