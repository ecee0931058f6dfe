"""Each record of a coordinator's log once, with all the logs that have it.

Every reading of logs, before each wipe and at the end, writes down what it found, so that a record that stayed is in as
many rows as there were readings. What is asked of such a record, whether somebody has it still and who had it before,
concerns all of them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from harness.checks.spark.tables import Small, Tables
from harness.history.schema.internal_rows import CONSUMER_OFFSETS, TRANSACTION_STATE


def with_each_record_once(tables: Tables) -> Tables:
    """The same tables, in which what several readings found of coordinators' logs is one row."""

    @cache
    def read_small() -> Small:
        read = tables.read_small()
        several = {
            table.name: {run: _each_once(rows) for run, rows in tables.by_run(table).items()}
            for table in (CONSUMER_OFFSETS, TRANSACTION_STATE)
        }
        return {**read, **several}

    return replace(tables, read_small=read_small)


def _each_once(rows: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    found: list[dict[str, Any]] = []
    at_place: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for row in rows:
        beside = at_place.setdefault((row["partition"], row["offset"]), [])
        same = next((other for other in beside if _is_same(other, row)), None)
        if same is not None:
            same["snapshots"] = sorted({*same["snapshots"], *row["snapshots"]})
            continue
        beside.append({**row})
        found.append(beside[-1])
    return found


def _is_same(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return all(value == other[name] for name, value in one.items() if name != "snapshots")
