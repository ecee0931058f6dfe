"""The tables of clients as the harness would have recorded them: operations, records, transactions, groups."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from harness.history.schema.schemas import KIND_FINAL_POLL, KIND_POLL, KIND_SEND
from tests.world.chronicle import Chronicle, GroupEvent, Partition, Poll, Send
from tests.world.clients import FAIL, INFO, OK
from tests.world.histories import History
from tests.world.visibility import Visibility
from tests.world.world import BEGIN, MS

Row = dict[str, Any]
WALL_MS = 1_795_343_000_000  # the wall clock at the monotonic clock's zero


def operations(
    history: History, visibility: Visibility, places: Mapping[Partition, int]
) -> tuple[list[Row], list[Row]]:
    """`operations` numbered by the end of each, and the records in that order."""
    chronicle = history.chronicle
    written = {value: send.invoked_ns // MS for send in chronicle.sends for value in send.values}
    ended: list[tuple[int, int, Sequence[Send] | Poll | Row]] = []
    for assigned in chronicle.assigned:
        row = _op(history, assigned.process, "assign", OK, assigned.time_ns, assigned.time_ns, assigned.count)
        ended.append((assigned.time_ns, 0, row))
    for process, time_ns in chronicle.crashed.items():
        ended.append((time_ns, 3, _op(history, process, "crash", OK, time_ns, time_ns, 0)))
    ended += [(poll.completed_ns, 1, poll) for poll in chronicle.polls if poll.final or visibility.reads]
    ended += [
        (max(max(each.completed_ns, each.invoked_ns) for each in sends), 2, sends) for sends in _of_one(chronicle)
    ]
    ops: list[Row] = []
    records: list[Row] = []
    for op, (_, _, each) in enumerate(sorted(ended, key=lambda end: end[:2])):
        match each:
            case list():
                row = _send_operation(history, each)
                rows = (row for send in each for row in _sent(chronicle, send, op, places, visibility))
                records += ({**row, "position": i} for i, row in enumerate(rows))
            case Poll():
                f = "final_poll" if each.final else "poll"
                count = sum(len(read.entries) for read in each.reads)
                row = _op(
                    history, each.process, f, OK if each.error is None else 1, each.invoked_ns, each.completed_ns, count
                )
                row["error"], row["transaction"] = each.error, each.transaction
                records += _polled(each, op, places, written, visibility, chronicle.keys)
            case dict():
                row = each
            case _:
                raise AssertionError(each)
        ops.append({**row, "operation": op})
    return ops, records


def _of_one(chronicle: Chronicle) -> Iterable[list[Send]]:
    """The sends of each operation."""
    together: dict[tuple[int, int | None, int], list[Send]] = {}
    for place, send in enumerate(chronicle.sends):
        key = (send.process, send.operation, place if send.operation is None else -1)
        together.setdefault(key, []).append(send)
    return together.values()


def _send_operation(history: History, sends: Sequence[Send]) -> Row:
    """Its outcome is that of all its records, or the first that went wrong."""
    outcomes = [(_settled(history.chronicle, each), each) for each in sends]
    status, first = next((outcome for outcome in outcomes if outcome[0] != OK), outcomes[0])
    row = _op(
        history,
        first.process,
        "send",
        status,
        min(each.invoked_ns for each in sends),
        max(max(each.completed_ns, each.invoked_ns) for each in sends),
        sum(len(each.values) for each in sends),
    )
    return {**row, "error": first.error, "transaction": first.transaction}


def client_events(history: History, visibility: Visibility) -> list[Row]:
    """The attempts that failed, of clients that tell of them."""
    if not visibility.attempts:
        return []
    rows = [
        {
            "process": send.process,
            "time_ns": failed.time_ns,
            "event": "attempt_failed",
            "topic": send.partition[0],
            "partition": send.partition[1],
            "status": FAIL if failed.refused else INFO,
            "error": failed.error,
        }
        for send in history.chronicle.sends
        for failed in send.failed
    ]
    return sorted(rows, key=lambda row: row["time_ns"])


def transactions(chronicle: Chronicle) -> list[Row]:
    last_ns = max(poll.completed_ns for poll in chronicle.polls) if chronicle.polls else BEGIN
    return [
        {
            "transaction": each.number,
            "process": each.process,
            "transactional_id": each.transactional_id,
            "invoked_ns": each.begun_ns,
            "completed_ns": last_ns if each.ended_ns is None else each.ended_ns,
            "outcome": each.outcome,
            "error": each.error,
            "group": each.group,
        }
        for each in chronicle.transactions
    ]


def group_events(history: History) -> list[Row]:
    return [
        {
            "process": each.process,
            "group": history.processes.groups[each.process],
            "event": each.event,
            "generation": each.generation if each.generation >= 0 else None,
            "member": each.member,
            "topic": each.partition[0],
            "partition": each.partition[1],
            "offset": each.offset,
            "status": _of_commit(history.chronicle, each),
            "transaction": each.transaction,
            "require_stable": each.require_stable,
            "invoked_ns": each.invoked_ns,
            "completed_ns": each.completed_ns,
            "error": each.error,
        }
        for each in sorted(history.chronicle.group_events, key=lambda each: (each.completed_ns, each.invoked_ns))
    ]


def _of_commit(chronicle: Chronicle, event: GroupEvent) -> int:
    """Of offsets that were sent to a transaction: its outcome, unless they were refused."""
    if event.transaction is None or event.status == FAIL:
        return event.status
    outcome = chronicle.transactions[event.transaction].outcome
    return {OK: event.status, FAIL: FAIL}.get(outcome, INFO)


def _op(history: History, process: int, f: str, status: int, invoked_ns: int, completed_ns: int, count: int) -> Row:
    client = history.processes.names[process][0]
    return {
        "process": process,
        "client": client,
        "function": f,
        "status": status,
        "invoked_ns": invoked_ns,
        "completed_ns": completed_ns,
        "count": count,
    }


def _settled(chronicle: Chronicle, send: Send) -> int:
    """A send in a transaction has the outcome of that, unless it was refused."""
    status = send.status if send.completed_ns >= 0 else INFO
    if send.transaction is None or status == FAIL:
        return status
    outcome = chronicle.transactions[send.transaction].outcome
    return {OK: status, FAIL: FAIL}.get(outcome, INFO)


def _sent(
    chronicle: Chronicle, send: Send, operation: int, places: Mapping[Partition, int], visibility: Visibility
) -> Iterable[Row]:
    topic, part = send.partition
    status, completed_ns = _settled(chronicle, send), max(send.completed_ns, send.invoked_ns)
    returned = send.returned_ns if visibility.returned else None
    for i, value in enumerate(send.values):
        yield {
            "kind": KIND_SEND,
            "status": status,
            "acks": send.acks,
            "operation": operation,
            "process": send.process,
            "topic": topic,
            "partition": part,
            "partition_id": places[send.partition],
            "offset": None if send.base is None else send.base + i,
            "value": value,
            "key": chronicle.keys.get(value),
            "transaction": send.transaction,
            "invoked_ns": send.invoked_ns,
            "completed_ns": completed_ns,
            "returned_ns": None if returned is None else min(returned, completed_ns),
            "error": send.error,
            "timestamp_ms": WALL_MS + send.invoked_ns // MS if send.base is not None else None,
            "log_append": False,
        }


def _polled(
    poll: Poll,
    operation: int,
    places: Mapping[Partition, int],
    written: Mapping[int, int],
    visibility: Visibility,
    keys: Mapping[int, int],
) -> Iterable[Row]:
    i = 0
    for read in poll.reads:
        topic, part = read.partition
        before: int | None = None
        for place, (offset, entry) in enumerate(read.placed()):
            yield {
                "kind": KIND_FINAL_POLL if poll.final else KIND_POLL,
                "status": OK,
                "operation": operation,
                "process": poll.process,
                "assignment": poll.assignment,
                "topic": topic,
                "partition": part,
                "partition_id": places[read.partition],
                "position": i,
                "offset": offset,
                "offset_step": None if before is None else offset - before,
                "transaction": poll.transaction,
                "last_of_poll": place == len(read.entries) - 1,
                "leader_epoch": entry.epoch if visibility.epochs else None,
                "value": entry.value,
                "key": keys.get(entry.value),
                "invoked_ns": poll.invoked_ns,
                "completed_ns": poll.completed_ns,
                "timestamp_ms": WALL_MS + written[entry.value],
                "log_append": False,
            }
            before = offset
            i += 1


def processes(history: History, visibility: Visibility) -> list[Row]:
    both = history.processes.transactional_ids.keys() & history.processes.groups.keys()
    return [
        {
            "process": process,
            "client": client,
            "library": None if client.startswith("final") else "kafka-python",
            "role": "both" if process in both else "producer" if produces else "consumer",
            "acks": acks,
            "idempotent": idempotent,
            "isolation": None
            if produces and process not in both
            else history.processes.isolation.get(process, "read_uncommitted"),
            "offset_reset": None
            if produces and process not in both
            else "earliest"
            if process in history.processes.groups
            else "none",
            "transactional_id": history.processes.transactional_ids.get(process),
            "group": history.processes.groups.get(process),
            "tells_attempts": True if visibility.attempts and process in history.processes.tells_attempts else None,
        }
        for process, (client, produces, acks, idempotent) in enumerate(history.processes.names)
    ]
