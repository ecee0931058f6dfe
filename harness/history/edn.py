"""Writes a run's history as a Jepsen EDN history, for Jepsen's own Kafka checker (jepsen.tests.kafka).

Each operation gives an invocation and, unless nobody knows, a completion, in order of time. A send is
`[:send k [offset value]]`, a poll `[:poll {k [[offset value] ...]}]`; k is the topic-partition's dense id. Probes and
final reads appear as sends and polls. Every assignment names all partitions; a client here assigns once in its life.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harness.history.run_folder import RunFolder
from harness.history.schemas import STATUS_FAIL, STATUS_INFO, STATUS_OK

_TYPES = {STATUS_OK: ":ok", STATUS_FAIL: ":fail", STATUS_INFO: ":info"}
_F = {"send": ":send", "probe_send": ":send", "poll": ":poll", "final_poll": ":poll", "probe_poll": ":poll"}


def export(folder: RunFolder, path: Path) -> int:
    """Writes the history to `path`, one map a line; returns the number of lines."""
    events = sorted(_events(folder), key=lambda event: event[:2])
    with path.open("w", encoding="utf-8") as file:
        for index, (t, _, fields) in enumerate(events):
            file.write(f"{{:index {index}, :time {t}, {fields}}}\n")
    return len(events)


def _events(folder: RunFolder) -> Iterator[tuple[int, int, str]]:
    """(time, 0 for invocations and 1 for completions, the map's other fields)."""
    records = _records_by_operation(folder)
    tps = {(row["topic"], row["part"]): row["tp"] for row in folder.table("partitions").to_pylist()}
    for op in folder.table("ops").to_pylist():
        rows, process = records.get(op["op"], []), op["process"]
        if op["f"] == "assign":
            keys = " ".join(str(tp) for tp in sorted(tps.values()))
            for place, t in enumerate((op["t0"], op["t1"])):
                yield t, place, f":type {(':invoke', ':ok')[place]}, :process {process}, :f :assign, :value [{keys}]"
            continue
        head = f":process {process}, :f {_F[op['f']]}"
        yield op["t0"], 0, f":type :invoke, {head}, :value {_invoked(op['f'], rows)}"
        yield op["t1"], 1, f":type {_TYPES[op['status']]}, {head}, :value {_completed(op['f'], rows)}"


def _records_by_operation(folder: RunFolder) -> dict[int, list[dict[str, Any]]]:
    found: dict[int, list[dict[str, Any]]] = {}
    for row in folder.table("records").select(["op", "tp", "off", "value"]).to_pylist():
        found.setdefault(row["op"], []).append(row)
    return found


def _invoked(f: str, rows: list[dict[str, Any]]) -> str:
    if _F[f] == ":poll":
        return "[[:poll]]"
    return "[" + " ".join(f"[:send {row['tp']} {row['value']}]" for row in rows) + "]"


def _completed(f: str, rows: list[dict[str, Any]]) -> str:
    if _F[f] == ":send":
        sends = (
            f"[:send {row['tp']} "
            + (f"[{row['off']} {row['value']}]" if row["off"] is not None else f"{row['value']}")
            + "]"
            for row in rows
        )
        return "[" + " ".join(sends) + "]"
    by_partition: dict[int, list[str]] = {}
    for row in rows:
        by_partition.setdefault(row["tp"], []).append(f"[{row['off']} {row['value']}]")
    reads = ", ".join(f"{tp} [{' '.join(pairs)}]" for tp, pairs in by_partition.items())
    return f"[[:poll {{{reads}}}]]"
