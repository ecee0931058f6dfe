"""Writes a run's history as a Jepsen EDN history, for Jepsen's own Kafka checker (jepsen.tests.kafka).

A send is `[:send k [offset value]]`, a poll `[:poll {k [[offset value] ...]}]`; k is the topic-partition's dense id. A
transaction is one :txn of its sends and polls. Jepsen takes the sends of an operation for one transaction: of a plain
batch, records of another outcome, and those of which nobody knows, are operations of their own. A process of Jepsen's
does one thing at a time: what overlaps goes to further processes. Probes and final reads are sends and polls; an
assignment names all partitions; a seek to elsewhere than the beginning drops and regains them.
"""

import contextlib
import os
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

from harness import memory
from harness.errors import HarnessError
from harness.history.parquet_tables import rows_of
from harness.history.run_folder import RunFolder
from harness.history.schemas import STATUS_FAIL, STATUS_INFO, STATUS_OK

_TYPES = {STATUS_OK: ":ok", STATUS_FAIL: ":fail", STATUS_INFO: ":info"}
_SENDS, _POLLS = ("send", "probe_send"), ("poll", "final_poll", "probe_poll")
_MOVES = ("assigned", "revoked", "lost")
Row = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class _Operation:
    """invoked, completed: the values as EDN. extra: further fields of both events, after: of the completion only."""

    process: int
    t0: int
    t1: int
    status: int
    f: str
    invoked: str
    completed: str
    extra: str = ""
    after: str = ""


def export(folder: RunFolder, path: Path) -> int:
    """Writes the history to `path`, one map a line; returns the number of lines."""
    held = memory.Together()
    told = ("ops", "records", "partitions", "transactions", "group_events")
    tables = {name: _rows(folder, name, held) for name in told}
    operations = [*_with_rebalances(list(_with_records(tables)), tables), *_ends(tables)]
    events = sorted(_events(_one_at_a_time(operations, list(_single(tables)))), key=lambda event: event[:4])
    with _new_file(folder, path) as file:
        for index, (t, *_, fields) in enumerate(events):
            file.write(f"{{:index {index}, :time {t}, {fields}}}\n".encode())
    return len(events)


@contextlib.contextmanager
def _new_file(folder: RunFolder, path: Path) -> Iterator[BinaryIO]:
    """In the run folder no link is followed; elsewhere the user's own word counts, as for /dev/stdout."""
    places = (path.parent.resolve() / path.name, Path(os.path.abspath(path)))  # as it is, and as it is written
    tops = [(place, top) for place in places for top in place.parents if top.resolve() == folder.path]
    for place, top in tops:
        with folder.files.replacing(place.relative_to(top).as_posix()) as file:
            yield file
        return  # the first
    try:
        with path.open("wb") as file:
            yield file
    except OSError as error:
        raise HarnessError(f"{path} cannot be written: {error.strerror}; name another file by --output") from error


def _rows(folder: RunFolder, name: str, held: memory.Together) -> list[dict[str, Any]]:
    """Run folders of before this table have none."""
    return rows_of(folder.table(name), folder.path / name, held) if folder.has_table(name) else []


def _events(operations: Iterable[_Operation]) -> Iterator[tuple[int, int, int, int, str]]:
    """(time, rank, number, place, the map's other fields): at one time completions come first, invocations last."""
    for number, operation in enumerate(operations):
        instant = operation.t0 == operation.t1
        head = f":process {operation.process}, :f :{operation.f}, :value "
        invoked = f":type :invoke, {head}{operation.invoked}{operation.extra}"
        yield operation.t0, 1 if instant else 2, number, 0, invoked
        completed = f":type {_TYPES[operation.status]}, {head}{operation.completed}{operation.extra}{operation.after}"
        yield operation.t1, 1 if instant else 0, number, 1, completed


# -- operations with records ------------------------------


def _with_records(tables: Mapping[str, Sequence[Row]]) -> Iterator[_Operation]:
    records: dict[int, list[Row]] = defaultdict(list)
    for row in tables["records"]:
        records[row["op"]].append(row)
    begun = {row["txn"] for row in tables["transactions"]}
    inside: dict[int, list[Row]] = defaultdict(list)
    for op in tables["ops"]:
        if op["f"] not in (*_SENDS, *_POLLS):
            continue
        if op.get("txn") in begun:
            inside[op["txn"]].append(op)
        elif op["f"] in _POLLS:
            rows = records[op["op"]]
            yield _operation(op, op["status"], "poll", ["[:poll]"], [_poll(rows)])
        else:
            yield from _batches(op, records[op["op"]])
    for txn in tables["transactions"]:
        micro = [_micro(op, records[op["op"]]) for op in inside[txn["txn"]]]
        invoked = [text for first, _ in micro for text in first]
        # An outcome is numbered as a status is: committed ok, aborted fail, unknown info.
        yield _operation(txn, txn["outcome"], "txn", invoked, [text for _, second in micro for text in second])


def _operation(
    row: Row, status: int, f: str, invoked: Iterable[str], completed: Iterable[str], extra: str = ""
) -> _Operation:
    return _Operation(
        process=row["process"], t0=row["t0"], t1=row["t1"], status=status, f=f, extra=extra,
        invoked=f"[{' '.join(invoked)}]", completed=f"[{' '.join(completed)}]",
    )  # fmt: skip


def _batches(op: Row, rows: Sequence[Row]) -> Iterator[_Operation]:
    """The records of one outcome together, but those of which nobody knows each for itself."""
    groups: dict[tuple[int, int], list[Row]] = defaultdict(list)
    for place, row in enumerate(rows):
        groups[row["status"], place if row["status"] == STATUS_INFO else -1].append(row)
    if not rows:
        yield _operation(op, op["status"], "send", [], [])
    for (status, _), group in groups.items():
        extra = ", :batch? true" if len(group) > 1 else ""
        yield _operation(op, status, "send", map(_asked, group), map(_answered, group), extra)


def _micro(op: Row, rows: Sequence[Row]) -> tuple[list[str], list[str]]:
    if op["f"] in _POLLS:
        return ["[:poll]"], [_poll(rows)]
    return [_asked(row) for row in rows], [_answered(row) for row in rows]


def _asked(row: Row) -> str:
    return f"[:send {row['tp']} {row['value']}]"


def _answered(row: Row) -> str:
    return _asked(row) if row["off"] is None else f"[:send {row['tp']} [{row['off']} {row['value']}]]"


def _poll(rows: Sequence[Row]) -> str:
    by_partition: dict[int, list[str]] = defaultdict(list)
    for row in rows:
        by_partition[row["tp"]].append(f"[{row['off']} {row['value']}]")
    reads = ", ".join(f"{tp} [{' '.join(pairs)}]" for tp, pairs in by_partition.items())
    return f"[:poll {{{reads}}}]"


def _with_rebalances(operations: Sequence[_Operation], tables: Mapping[str, Sequence[Row]]) -> Iterator[_Operation]:
    """What a group took and gave while an operation that polls ran is that completion's :rebalance-log."""
    tps = _tps(tables)
    moves: dict[int, list[Row]] = defaultdict(list)
    for row in tables["group_events"]:
        if row["event"] in _MOVES:
            moves[row["process"]].append(row)
    for operation in operations:
        during = [row for row in moves[operation.process] if operation.t0 <= row["t1"] <= operation.t1]
        if not during or operation.f == "send":
            yield operation
            continue
        entries: dict[tuple[str, int], list[int]] = defaultdict(list)
        for row in during:
            entries[row["event"], row["t1"]].append(tps[row["topic"], row["part"]])
        log = " ".join(f"{{:type :{event}, :keys [{_listed(keys)}]}}" for (event, _), keys in entries.items())
        yield replace(operation, after=f", :rebalance-log [{log}]")


# -- operations without -----------------------------------


def _single(tables: Mapping[str, Sequence[Row]]) -> Iterator[_Operation]:
    tps = _tps(tables)
    everything = f"[{_listed(sorted(tps.values()))}]"
    starts = {row["tp"]: row.get("log_start") or 0 for row in tables["partitions"]}
    targets: dict[tuple[int, int], list[tuple[int, int | None]]] = defaultdict(list)
    for row in tables["group_events"]:
        if row["event"] == "seek":
            targets[row["process"], row["t1"]].append((tps[row["topic"], row["part"]], row["off"]))
    for op in tables["ops"]:
        one = _Operation(
            process=op["process"], t0=op["t0"], t1=op["t0"], status=op["status"], f=op["f"], invoked=everything,
            completed=everything,
        )  # fmt: skip
        if op["f"] in ("assign", "subscribe"):
            yield one
        elif op["f"] == "crash":
            yield replace(one, invoked="nil", completed="nil", status=STATUS_INFO)
        elif op["f"] == "seek" and op["status"] == STATUS_OK:
            sought = targets[op["process"], op["t1"]]
            if sought and all(off is not None and off <= starts[tp] for tp, off in sought):
                yield replace(one, f="assign", extra=", :seek-to-beginning? true")
            else:
                kept = f"[{_listed(sorted(set(tps.values()) - {tp for tp, _ in sought}))}]"
                yield replace(one, f="assign", invoked=kept, completed=kept)
                yield replace(one, f="assign")


def _ends(tables: Mapping[str, Sequence[Row]]) -> Iterator[_Operation]:
    """The end offsets that the leaders told for the final read, as a client of its own would have asked for them."""
    told = [(row["tp"], row["end_offset"]) for row in tables["partitions"] if row["end_offset"] is not None]
    if not told or not tables["ops"]:
        return
    last = max(op["t1"] for op in tables["ops"])
    state = ", ".join(f"{tp} {{:end-offset {end}}}" for tp, end in told)
    yield _Operation(
        process=max(op["process"] for op in tables["ops"]) + 1, t0=last + 1, t1=last + 1, status=STATUS_OK,
        f="debug-topic-partitions", invoked=f"[{_listed(tp for tp, _ in told)}]",
        completed=f"{{:partitions {{{state}}}}}",
    )  # fmt: skip


def _tps(tables: Mapping[str, Sequence[Row]]) -> dict[tuple[str, int], int]:
    return {(row["topic"], row["part"]): row["tp"] for row in tables["partitions"]}


def _listed(numbers: Iterable[int]) -> str:
    return " ".join(map(str, numbers))


def _one_at_a_time(operations: Sequence[_Operation], single: Sequence[_Operation]) -> list[_Operation]:
    """Overlapping operations on further processes. What takes no time happens before the operation that it falls in."""
    following = max((operation.process for operation in (*operations, *single)), default=-1) + 1
    free: dict[int, list[int]] = defaultdict(list)  # process -> when each of its lanes is free again
    lanes: dict[tuple[int, int], int] = {}
    placed: list[_Operation] = []
    main: dict[int, list[_Operation]] = defaultdict(list)
    for operation in sorted(operations, key=lambda each: (each.t0, each.t1)):
        ends = free[operation.process]
        lane = next((lane for lane, end in enumerate(ends) if end <= operation.t0), len(ends))
        ends[lane : lane + 1] = [operation.t1]
        if lane == 0:
            main[operation.process].append(operation)
            placed.append(operation)
            continue
        process = lanes.setdefault((operation.process, lane), following + len(lanes))
        placed.append(replace(operation, process=process))
    for operation in single:
        before = bisect_left(main[operation.process], operation.t0, key=lambda each: each.t0) - 1
        around = main[operation.process][before] if before >= 0 else None
        t = around.t0 if around is not None and operation.t0 < around.t1 else operation.t0
        placed.append(replace(operation, t0=t, t1=t))
    return placed
