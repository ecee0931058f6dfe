"""Reads a campaign's folder for its page: its plan, its verdict and its tables, none of which is trusted."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from harness import memory
from harness.campaign.results import SCHEMAS
from harness.errors import HarnessError, UsageError
from harness.history.files_below import FilesBelow
from harness.history.schema.parquet_tables import check_size, check_texts, unsound
from harness.history.schema.texts import json_of, text_of
from reports.campaign.data import CampaignData, Group, MeasureOfRun, Reached, Run
from reports.campaign.grid import WORST_FIRST
from reports.campaign.groups import CLASSES

_AGAIN = "give the campaign again, with the same plan, seed and --runs: that writes it anew"
_BYTES_OF_A_ROW = 2000
_ROLES = {"out_of_isr": "out of the ISR"}
SITUATION_COLUMNS = ("Fault", "Victim", "ISR size", "New epoch just before", "In flight", "Fault before")
Row = Mapping[str, Any]


def read_campaign(folder: Path) -> CampaignData:
    """Raises UsageError where the folder is no campaign's, HarnessError where something in it is unsound."""
    files = FilesBelow(folder)
    plan, verdict = _json(files, "campaign.json"), _json(files, "verdict.json")
    rows = {name: _rows(files, name) for name in SCHEMAS}
    _words(files, "runs", "verdict", rows["runs"], WORST_FIRST)
    _words(files, "findings", "class", rows["findings"], CLASSES)
    _words(files, "verdict.json", "verdict", [verdict], WORST_FIRST)
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
        runs=sorted((_run(row, where) for row in rows["runs"]), key=lambda run: run.number),
        groups=[_group(row) for row in rows["findings"]],
        runs_with=_runs_with(rows["occurrences"]),
        situation_columns=SITUATION_COLUMNS,
        situations=_situations(rows["situations"]),
        measures=[_measure(row, where) for row in rows["measures"]],
    )


# ---- files ----------------------------------------------------------------------------------------------------------


def _json(files: FilesBelow, name: str) -> Mapping[str, Any]:
    place = files.top / name
    try:
        with files.open(name) as file:
            content = json_of(text_of(place, opened=lambda: file))
    except FileNotFoundError:
        raise UsageError(f"{place} is missing: name the folder of a campaign, RUNS/campaigns/NAME") from None
    except ValueError as error:
        raise HarnessError(f"{place}: {error}: {_AGAIN}") from error
    if not isinstance(content, dict):
        raise HarnessError(f"{place} holds no object: {_AGAIN}")
    return content


def _text(content: Mapping[str, Any], name: str) -> str:
    value = content.get(name)
    return "" if value is None else str(value)


def _rows(files: FilesBelow, table: str) -> Sequence[Row]:
    """None of a table that was never written."""
    name, schema = f"tables/{table}.parquet", SCHEMAS[table]
    place = files.top / name
    try:
        with files.open(name) as file:
            metadata = pq.read_metadata(file)
            _check_columns(place, metadata.schema.to_arrow_schema(), schema)
            check_size(place, metadata, schema.names)
            memory.check(f"{place}: its {metadata.num_rows} rows", metadata.num_rows * _BYTES_OF_A_ROW)
            found = pq.read_table(file, columns=schema.names)
    except FileNotFoundError:
        return ()
    except (pa.ArrowException, OSError) as error:
        raise HarnessError(unsound(place, error, _AGAIN)) from error
    check_texts(found, place, _AGAIN)
    for field in schema:
        if field.name not in _MAY_BE_NULL and found[field.name].null_count:
            raise HarnessError(f"{place}: column {field.name} lacks a value: {_AGAIN}")
    rows: Sequence[Row] = found.to_pylist()
    return rows


_MAY_BE_NULL = ("took_s", "recovery_s", "gap_s", "throughput_per_s")


def _check_columns(place: Path, found: pa.Schema, wanted: pa.Schema) -> None:
    for field in wanted:
        if found.names.count(field.name) != 1:
            raise HarnessError(f"{place}: column {field.name} is there {found.names.count(field.name)} times: {_AGAIN}")
        held = found.field(field.name).type
        same_list = pa.types.is_list(field.type) and pa.types.is_list(held) and held.value_type == field.type.value_type
        if not (same_list or held == field.type):
            raise HarnessError(f"{place}: column {field.name} is of type {held}, not {field.type}: {_AGAIN}")


def _words(files: FilesBelow, place: str, column: str, rows: Sequence[Row], known: Sequence[str]) -> None:
    for row in rows:
        if row.get(column) not in known:
            what = f"{column} is {row.get(column)!r}, none of {', '.join(known)}"
            raise HarnessError(f"{files.top / place}: {what}: {_AGAIN}")


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
    return [Reached(cells=cells, times=count, runs=len(runs[cells]), first=min(runs[cells]))
            for cells, count in times.items()]  # fmt: skip


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
