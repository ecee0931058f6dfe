"""Writes a run's history as a Jepsen EDN history, for Jepsen's own Kafka checker (jepsen.tests.kafka).

A send is `[:send k [offset value]]`, a poll `[:poll {k [[offset value] ...]}]`; k is the topic-partition's dense id. A
transaction is one :txn of its sends and polls. Jepsen takes the sends of an operation for one transaction, so records
of a plain batch with different outcomes, and each record of unknown outcome, become operations of their own. A Jepsen
process does one thing at a time: overlapping operations go to additional processes, and a process that goes on reading
where another of the same client stopped first loses and regains the partitions. Probes and final reads are sends and
polls; an assignment names all partitions; a seek that is not to the beginning becomes such a loss and regain too.
"""

import contextlib
import os
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

from harness.errors import HarnessError
from harness.history.run_folder import RunFolder
from harness.history.schema.client_rows import (
    GROUP_EVENTS,
    OPERATIONS,
    RECORDS,
    TRANSACTIONS,
    GroupEventRow,
    OperationRow,
    RecordRow,
    TransactionRow,
)
from harness.history.schema.cluster_rows import PARTITIONS
from harness.history.schema.parquet_tables import rows_of
from harness.history.schema.schemas import NEVER_BEGUN, STATUS_FAIL, STATUS_INFO, STATUS_OK
from harness.history.schema.typed_rows import AnyRow, R, RowsOf, TypedRows
from harness.host import memory

_TYPES = {STATUS_OK: ":ok", STATUS_FAIL: ":fail", STATUS_INFO: ":info"}
_SENDS, _POLLS = ("send", "probe_send"), ("poll", "final_poll", "probe_poll")
_MOVES = ("assigned", "revoked", "lost")
_WRITTEN: tuple[RowsOf[AnyRow], ...] = (OPERATIONS, RECORDS, PARTITIONS, TRANSACTIONS, GROUP_EVENTS)


@dataclass(frozen=True, kw_only=True)
class _Operation:
    """invoked, completed: the values as EDN. extra: further fields of both events, after: of the completion only.

    read: the partitions of which it got records."""

    process: int
    invoked_ns: int
    completed_ns: int
    status: int
    f: str
    invoked: str
    completed: str
    extra: str = ""
    after: str = ""
    read: frozenset[int] = frozenset()


def export(folder: RunFolder, path: Path) -> int:
    """Writes the history to `path`, one map per line; returns the number of lines."""
    held = memory.Together()
    tables = TypedRows({table.name: _rows(folder, table, held) for table in _WRITTEN})
    operations = [*_with_rebalances(list(_with_records(tables)), tables), *_ends(tables)]
    every = sorted(_tps(tables).values())
    events = sorted(_events(_one_at_a_time(operations, list(_single(tables)), every)), key=lambda event: event[:4])
    with _new_file(folder, path) as file:
        for index, (t, *_, fields) in enumerate(events):
            file.write(f"{{:index {index}, :time {t}, {fields}}}\n".encode())
    return len(events)


@contextlib.contextmanager
def _new_file(folder: RunFolder, path: Path) -> Iterator[BinaryIO]:
    """No link is followed in the run folder; elsewhere the user's path is used as given, for example /dev/stdout."""
    places = (path.parent.resolve() / path.name, Path(os.path.abspath(path)))  # resolved and as written
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


def _rows(folder: RunFolder, table: RowsOf[R], held: memory.Together) -> list[R]:
    """Older run folders lack this table."""
    if not folder.has_table(table.name):
        return []
    return rows_of(table.row, folder.table(table.name), folder.path / table.name, held)


def _events(operations: Iterable[_Operation]) -> Iterator[tuple[int, int, int, int, str]]:
    """(time, rank, number, place, the map's other fields): at the same time completions come first,
    invocations last."""
    for number, operation in enumerate(operations):
        instant = operation.invoked_ns == operation.completed_ns
        head = f":process {operation.process}, :f :{operation.f}, :value "
        invoked = f":type :invoke, {head}{operation.invoked}{operation.extra}"
        yield operation.invoked_ns, 1 if instant else 2, number, 0, invoked
        completed = f":type {_TYPES[operation.status]}, {head}{operation.completed}{operation.extra}{operation.after}"
        yield operation.completed_ns, 1 if instant else 0, number, 1, completed


# -- operations with records ------------------------------


def _with_records(tables: TypedRows) -> Iterator[_Operation]:
    records: dict[int, list[RecordRow]] = defaultdict(list)
    for row in tables[RECORDS]:
        records[row["operation"]].append(row)
    begun = {row["transaction"] for row in tables[TRANSACTIONS]}
    inside: dict[int, list[OperationRow]] = defaultdict(list)
    for op in tables[OPERATIONS]:
        if op["function"] not in (*_SENDS, *_POLLS):
            continue
        if (transaction := op["transaction"]) is not None and transaction in begun:
            inside[transaction].append(op)
        elif op["function"] in _POLLS:
            rows = records[op["operation"]]
            yield _operation(op, op["status"], "poll", ["[:poll]"], [_poll(rows)], read=_read(rows))
        else:
            yield from _batches(op, records[op["operation"]])
    for txn in tables[TRANSACTIONS]:
        micro = [_micro(op, records[op["operation"]]) for op in inside[txn["transaction"]]]
        invoked = [text for first, _ in micro for text in first]
        # Outcomes have the numbers of statuses: committed ok, aborted fail, unknown info.
        status = STATUS_FAIL if txn["outcome"] == NEVER_BEGUN else txn["outcome"]
        polls = [
            row for op in inside[txn["transaction"]] if op["function"] in _POLLS for row in records[op["operation"]]
        ]
        completed = [text for _, second in micro for text in second]
        yield _operation(txn, status, "txn", invoked, completed, read=_read(polls))


def _operation(
    row: OperationRow | TransactionRow,
    status: int,
    f: str,
    invoked: Iterable[str],
    completed: Iterable[str],
    extra: str = "",
    read: frozenset[int] = frozenset(),
) -> _Operation:
    return _Operation(
        process=row["process"],
        invoked_ns=row["invoked_ns"],
        completed_ns=row["completed_ns"],
        status=status,
        f=f,
        extra=extra,
        read=read,
        invoked=f"[{' '.join(invoked)}]",
        completed=f"[{' '.join(completed)}]",
    )


def _batches(operation: OperationRow, rows: Sequence[RecordRow]) -> Iterator[_Operation]:
    """Groups records by outcome; each record of unknown outcome is alone."""
    groups: dict[tuple[int, int], list[RecordRow]] = defaultdict(list)
    for place, row in enumerate(rows):
        groups[row["status"], place if row["status"] == STATUS_INFO else -1].append(row)
    if not rows:
        yield _operation(operation, operation["status"], "send", [], [])
    for (status, _), group in groups.items():
        extra = ", :batch? true" if len(group) > 1 else ""
        yield _operation(operation, status, "send", map(_asked, group), map(_answered, group), extra)


def _micro(operation: OperationRow, rows: Sequence[RecordRow]) -> tuple[list[str], list[str]]:
    if operation["function"] in _POLLS:
        return ["[:poll]"], [_poll(rows)]
    return [_asked(row) for row in rows], [_answered(row) for row in rows]


def _asked(row: RecordRow) -> str:
    return f"[:send {row['partition_id']} {row['value']}]"


def _answered(row: RecordRow) -> str:
    return _asked(row) if row["offset"] is None else f"[:send {row['partition_id']} [{row['offset']} {row['value']}]]"


def _poll(rows: Sequence[RecordRow]) -> str:
    by_partition: dict[int, list[str]] = defaultdict(list)
    for row in rows:
        by_partition[row["partition_id"]].append(f"[{row['offset']} {row['value']}]")
    reads = ", ".join(f"{partition_id} [{' '.join(pairs)}]" for partition_id, pairs in by_partition.items())
    return f"[:poll {{{reads}}}]"


def _read(rows: Iterable[RecordRow]) -> frozenset[int]:
    return frozenset(row["partition_id"] for row in rows)


def _with_rebalances(operations: Sequence[_Operation], tables: TypedRows) -> Iterator[_Operation]:
    """Rebalances during an operation that polls become its completion's :rebalance-log."""
    tps = _tps(tables)
    moves: dict[int, list[GroupEventRow]] = defaultdict(list)
    for row in tables[GROUP_EVENTS]:
        if row["event"] in _MOVES:
            moves[row["process"]].append(row)
    for operation in operations:
        during = [
            row
            for row in moves[operation.process]
            if operation.invoked_ns <= row["completed_ns"] <= operation.completed_ns
        ]
        if not during or operation.f == "send":
            yield operation
            continue
        entries: dict[tuple[str, int], list[int]] = defaultdict(list)
        for row in during:
            entries[row["event"], row["completed_ns"]].append(tps[row["topic"], row["partition"]])
        log = " ".join(f"{{:type :{event}, :keys [{_listed(keys)}]}}" for (event, _), keys in entries.items())
        yield replace(operation, after=f", :rebalance-log [{log}]")


# -- operations without -----------------------------------


def _single(tables: TypedRows) -> Iterator[_Operation]:
    tps = _tps(tables)
    everything = f"[{_listed(sorted(tps.values()))}]"
    starts = {row["partition_id"]: row["log_start_offset"] or 0 for row in tables[PARTITIONS]}
    targets: dict[tuple[int, int], list[tuple[int, int | None]]] = defaultdict(list)
    for row in tables[GROUP_EVENTS]:
        if row["event"] == "seek":
            targets[row["process"], row["completed_ns"]].append((tps[row["topic"], row["partition"]], row["offset"]))
    for op in tables[OPERATIONS]:
        one = _Operation(
            process=op["process"],
            invoked_ns=op["invoked_ns"],
            completed_ns=op["invoked_ns"],
            status=op["status"],
            f=op["function"],
            invoked=everything,
            completed=everything,
        )
        if op["function"] in ("assign", "subscribe"):
            yield one
        elif op["function"] == "crash":
            yield replace(one, invoked="nil", completed="nil", status=STATUS_INFO)
        elif op["function"] == "seek" and op["status"] == STATUS_OK:
            sought = targets[op["process"], op["completed_ns"]]
            if sought and all(offset is not None and offset <= starts[partition_id] for partition_id, offset in sought):
                yield replace(one, f="assign", extra=", :seek-to-beginning? true")
            else:
                kept = f"[{_listed(sorted(set(tps.values()) - {partition_id for partition_id, _ in sought}))}]"
                yield replace(one, f="assign", invoked=kept, completed=kept)
                yield replace(one, f="assign")


def _loss_and_regain(before: _Operation, lost: Iterable[int], every: Sequence[int]) -> Iterator[_Operation]:
    """A subscription that leaves these out, and one to all, at the operation's beginning: where its process had read
    is forgotten, and nothing is said of where it goes on."""
    for named in (sorted(set(every) - set(lost)), every):
        keys = f"[{_listed(named)}]"
        yield _Operation(
            process=before.process,
            invoked_ns=before.invoked_ns,
            completed_ns=before.invoked_ns,
            status=STATUS_OK,
            f="subscribe",
            invoked=keys,
            completed=keys,
        )


def _ends(tables: TypedRows) -> Iterator[_Operation]:
    """The end offsets that the leaders reported for the final read, as if requested by a client of its own."""
    ends = [(row["partition_id"], row["end_offset"]) for row in tables[PARTITIONS] if row["end_offset"] is not None]
    if not ends or not tables[OPERATIONS]:
        return
    last = max(op["completed_ns"] for op in tables[OPERATIONS])
    state = ", ".join(f"{partition_id} {{:end-offset {end}}}" for partition_id, end in ends)
    yield _Operation(
        process=max(op["process"] for op in tables[OPERATIONS]) + 1,
        invoked_ns=last + 1,
        completed_ns=last + 1,
        status=STATUS_OK,
        f="debug-topic-partitions",
        invoked=f"[{_listed(partition_id for partition_id, _ in ends)}]",
        completed=f"{{:partitions {{{state}}}}}",
    )


def _tps(tables: TypedRows) -> dict[tuple[str, int], int]:
    return {(row["topic"], row["partition"]): row["partition_id"] for row in tables[PARTITIONS]}


def _listed(numbers: Iterable[int]) -> str:
    return " ".join(map(str, numbers))


def _one_at_a_time(
    operations: Sequence[_Operation], single: Sequence[_Operation], every: Sequence[int]
) -> list[_Operation]:
    """Moves overlapping operations to additional processes. An instantaneous operation precedes the one that it
    overlaps. every: all partitions."""
    following = max((operation.process for operation in (*operations, *single)), default=-1) + 1
    free: dict[int, list[int]] = defaultdict(list)  # process -> when each of its lanes becomes free
    lanes: dict[tuple[int, int], int] = {}
    reading: dict[tuple[int, int], int] = {}  # process, partition -> the lane that read there last
    placed: list[_Operation] = []
    main: dict[int, list[_Operation]] = defaultdict(list)
    for operation in sorted(operations, key=lambda each: (each.invoked_ns, each.completed_ns)):
        ends = free[operation.process]
        lane = next((lane for lane, end in enumerate(ends) if end <= operation.invoked_ns), len(ends))
        ends[lane : lane + 1] = [operation.completed_ns]
        client, process = operation.process, operation.process
        if lane == 0:
            main[client].append(operation)
        else:
            process = lanes.setdefault((client, lane), following + len(lanes))
        elsewhere = {
            partition_id for partition_id in operation.read if reading.get((client, partition_id), lane) != lane
        }
        reading |= {(client, partition_id): lane for partition_id in operation.read}
        operation = replace(operation, process=process)
        placed += _loss_and_regain(operation, elsewhere, every) if elsewhere else ()
        placed.append(operation)
    for operation in single:
        before = bisect_left(main[operation.process], operation.invoked_ns, key=lambda each: each.invoked_ns) - 1
        around = main[operation.process][before] if before >= 0 else None
        t = (
            around.invoked_ns
            if around is not None and operation.invoked_ns < around.completed_ns
            else operation.invoked_ns
        )
        placed.append(replace(operation, invoked_ns=t, completed_ns=t))
    return placed
