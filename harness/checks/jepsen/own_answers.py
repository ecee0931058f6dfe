"""The answers to what Jepsen cannot see, in the form of its errors."""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import pyarrow.compute as pc

from harness.checks.jepsen.answers import Error, RunRows, aborted_read, op_index
from harness.checks.jepsen.columns import RuleRow
from harness.checks.jepsen.rules import ABORTED, EARLY, IN_OK, LOST, NO_OFFSET, ONLY_ABORTED, PHANTOM, UNREAD_TAIL
from harness.history.schema.schemas import STATUS_FAIL, STATUS_OK

EMPTY_GRAPH = "empty-transaction-graph"


def own_errors(run: RunRows) -> dict[str, Any]:
    tails = _tails(run)
    found = {
        "phantom": [_read(run, row) for row in run.flagged(PHANTOM)],
        "read-before-send": [{**_read(run, row), "writer": op_index(row["operation"])} for row in run.flagged(EARLY)],
        "acknowledged-offset-regression": _regressions(run),
        "head-skip": _head_skips(run),
        "tail-loss": tails[True],
        "unread-tail": tails[False],
        "acknowledged-without-offset": [_sent(run, row) for row in run.flagged(NO_OFFSET)],
        "seen-only-by-aborted-poll": [
            {**_read(run, row), "writer": op_index(row["operation"])} for row in run.flagged(ONLY_ABORTED)
        ],
        "torn-transaction": _torn(run, proved=True),
        "torn-transaction-candidate": _torn(run, proved=False),
        "aborted-read-in-aborted-poll": _aborted_reads(run),
        "group-redelivery": _redelivered(run),
    }
    return {name: errors for name, errors in found.items() if errors}


def without_verdict(run: RunRows, cycles: Mapping[str, Any]) -> dict[str, Any]:
    """What takes the place of Jepsen's empty-transaction-graph: no evidence is no anomaly."""
    if EMPTY_GRAPH not in cycles:
        return {}
    statuses = run.history.tables["records"].column("status")
    happened = pc.any(pc.not_equal(statuses, STATUS_FAIL)).as_py()
    return {"insufficient-evidence" if happened else "no-data": True}


def _sent(run: RunRows, row: RuleRow) -> Error:
    return {"key": run.key(row["partition_id"]), "value": run.value(row["value"]), "writer": op_index(row["operation"])}


def _read(run: RunRows, row: RuleRow) -> Error:
    return {"key": run.key(row["partition_id"]), "value": run.value(row["value"]), "reader": op_index(row["op2"])}


def _tails(run: RunRows) -> Mapping[bool, list[Error]]:
    """Acknowledged above all that was read. True: the log was later said to end below it; False: nobody knows."""
    ends = _ends(run)
    found: dict[bool, list[Error]] = {True: [], False: []}
    for row in run.flagged(UNREAD_TAIL):
        error = {**_sent(run, row), "offset": row["offset"]}
        lost = _ended_below(row, ends)
        reported, end = ends.get(row["partition_id"], (-1, 0))
        found[lost].append({**error, "end-offset": end, "told": op_index(reported)} if lost else error)
    return found


def _ends(run: RunRows) -> Mapping[int, tuple[int, int]]:
    """Partition -> (who reported last where its log ends, where)."""
    ends: dict[int, tuple[int, int]] = {}
    for row in run.history.tables["imported_keys"].filter(pc.field("what") == "end").to_pylist():
        ends[row["partition_id"]] = max(ends.get(row["partition_id"], (-1, 0)), (row["operation"], row["offset"]))
    return ends


def _ended_below(row: RuleRow, ends: Mapping[int, tuple[int, int]]) -> bool:
    reported, end = ends.get(row["partition_id"], (-1, 0))
    return bool(reported > row["operation"] and row["offset"] >= end)


def _regressions(run: RunRows) -> list[Error]:
    rows = run.rows["acknowledged-offset-regression"]
    return [
        {
            "key": run.key(row["partition_id"]),
            "values": [run.value(row["value2"]), run.value(row["value"])],
            "offsets": [row["number"], row["offset"]],
            "ops": [op_index(row["op2"]), op_index(row["operation"])],
        }
        for row in sorted(rows, key=lambda row: (row["operation"], row["partition_id"], row["offset"], row["value"]))
    ]


def _head_skips(run: RunRows) -> list[Error]:
    return [
        {
            "key": run.key(row["partition_id"]),
            "value": run.value(row["value"]),
            "index": row["at"],
            "skipped": run.between(-1, row["at"], row["partition_id"]),
            "ops": [op_index(row["op2"]), op_index(row["operation"])],
        }
        for row in sorted(run.rows["head-skip"], key=lambda row: (row["operation"], row["i_first"]))
    ]


def _torn(run: RunRows, *, proved: bool) -> list[Error]:
    """By operation. Proved: it succeeded, and what is missing is known to be gone: somebody read past it in its key,
    or the log was said to end below it. Else a candidate: of an operation that nobody knows the outcome of, only in
    keys of which something was read.

    Where readers saw a part of the operation in the same key they may just not have come to the rest of it.
    """
    ends = _ends(run)
    gone = {(row["partition_id"], row["value"]) for row in run.rows["value"] if row["number"] & LOST}
    gone |= {(row["partition_id"], row["value"]) for row in run.flagged(UNREAD_TAIL) if _ended_below(row, ends)}
    missing: dict[int, list[RuleRow]] = defaultdict(list)
    for row in run.rows["torn"]:
        known, certain = (row["partition_id"], row["value"]) in gone, row["number"] == STATUS_OK
        if row["at"] and not known:
            continue
        if (known and certain) == proved and (certain or row["partition_id"] in run.bounds):
            missing[row["operation"]].append(row)
    return [
        {
            "op": op_index(op),
            "missing": [
                {"key": run.key(row["partition_id"]), "value": run.value(row["value"])}
                for row in sorted(rows, key=lambda row: (row["partition_id"], row["value"]))
            ],
        }
        for op, rows in sorted(missing.items())
    ]


def _aborted_reads(run: RunRows) -> list[Error]:
    rows = [row for row in run.rows["read"] if row["number"] & ABORTED and not row["number"] & IN_OK]
    return [aborted_read(run, row) for row in sorted(rows, key=lambda row: (row["operation"], row["position"]))]


def _redelivered(run: RunRows) -> list[Error]:
    return [
        {
            "key": run.key(row["partition_id"]),
            "values": row["number"],
            "deliveries": row["at"],
            "first": {"value": run.value(row["value"]), "ops": [op_index(row["operation"]), op_index(row["op2"])]},
        }
        for row in sorted(run.rows["group-redelivery"], key=lambda row: row["partition_id"])
    ]
