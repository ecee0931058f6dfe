"""What is wrong with heads, transactions, isolation, groups and timestamps, told again: slowly, over plain rows."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

from tests.harness.checks.histories.build import SECOND, History

Row = Mapping[str, Any]
_COMMITTED, _UNKNOWN = 0, 2


def _final(history: History) -> list[Row]:
    return [row for row in history.rows["records"] if row["kind"] == 2 and row["replica"] is None]


def _clients(history: History) -> dict[int, Row]:
    return {row["process"]: row for row in history.rows["processes"]}


def _events(history: History, *names: str) -> list[Row]:
    """In order of time; rows of partitions only, which all of ours are."""
    own = [row for row in history.rows["group_events"] if row["event"] in names]
    return sorted(own, key=lambda row: (row["invoked_ns"], row["completed_ns"]))


def head_skips(history: History) -> set[tuple[int, int, int, int]]:
    """(process, assignment, partition, records of the final log that it had to read before its first one)."""
    found = set()
    polls = [row for row in history.rows["records"] if row["kind"] == 1]
    for process, assignment, partition_id in {
        (row["process"], row["assignment"], row["partition_id"]) for row in polls
    }:
        client = _clients(history).get(process)
        if client is None or client["offset_reset"] is None:
            continue
        own = [
            row
            for row in polls
            if (row["process"], row["assignment"], row["partition_id"]) == (process, assignment, partition_id)
        ]
        first = min(own, key=lambda row: (row["operation"], row["position"]))
        start = _required_start(history, client, first)
        final = [row["offset"] for row in _final(history) if row["partition_id"] == partition_id]
        missed = 0 if start is None else sum(start <= offset < first["offset"] for offset in set(final))
        if missed:
            found.add((process, assignment, partition_id, missed))
    return found


def _required_start(history: History, client: Row, first: Row) -> int | None:
    own = [
        row
        for row in _events(history, "assigned", "seek")
        if row["process"] == first["process"]
        and row["partition"] == first["partition_id"]
        and row["invoked_ns"] <= first["completed_ns"]
    ]
    if own and own[-1]["event"] == "seek":
        return max(own[-1]["offset"] or 0, 0)
    reset = client["offset_reset"]
    if client["group"] is None:
        if own and own[-1]["offset"] is not None:
            return int(own[-1]["offset"])
        return None if reset == "latest" else 0
    commits = [
        row
        for row in _events(history, "committed")
        if row["group"] == client["group"] and row["partition"] == first["partition_id"] and row["status"] != 1
    ]
    began = own[-1]["invoked_ns"] if own else first["invoked_ns"]
    starts = [row["offset"] for row in commits if row["invoked_ns"] <= first["completed_ns"]]
    if not any(
        row["status"] == _COMMITTED and row["transaction"] is None and row["completed_ns"] < began for row in commits
    ):
        if reset != "earliest":
            return None  # there may have been no commit, and then it began where it liked
        starts.append(0)
    return int(max(starts))


def torn(history: History) -> set[tuple[int, int, int]]:
    """(transaction, records sent in it, those of them in the final log) of the transactions that are there in part."""
    final: dict[tuple[int, int], int] = {}
    for row in _final(history):
        place = (row["partition_id"], row["value"])
        final[place] = min(row["process"], final.get(place, row["process"]))
    found = set()
    for txn in history.rows["transactions"]:
        sent = [row for row in history.rows["records"] if row["kind"] == 0 and row["transaction"] == txn["transaction"]]
        sent = [row for row in sent if row["status"] != 1]
        readers = [
            final[row["partition_id"], row["value"]] for row in sent if (row["partition_id"], row["value"]) in final
        ]
        reported = txn["outcome"] == _COMMITTED or (
            bool(readers) and _clients(history)[min(readers)]["isolation"] == "read_committed"
        )
        if reported and 0 < len(readers) < len(sent):
            found.add((txn["transaction"], len(sent), len(readers)))
    return found


def past_the_stable_offset(history: History) -> set[tuple[int, int, int]]:
    """(partition, offset, operation) of what a read_committed reader got above the start of an open transaction."""
    found = set()
    for row in history.rows["records"]:
        client = _clients(history).get(row["process"])
        if row["kind"] == 0 or client is None or client["isolation"] != "read_committed":
            continue
        for partition_id, begin, until in _spans(history):
            if partition_id == row["partition_id"] and begin <= row["offset"] and row["completed_ns"] < until:
                found.add((row["partition_id"], row["offset"], row["operation"]))
    return found


def _spans(history: History) -> Iterator[tuple[int, int, int]]:
    """(partition, first offset there, until when it was certainly open there) of each transaction: of one that was
    committed the last answer to any of its sends, else the last call there."""
    sends: dict[int, list[Row]] = defaultdict(list)
    for row in history.rows["records"]:
        if row["kind"] == 0 and row["transaction"] is not None and row["offset"] is not None:
            sends[row["transaction"]].append(row)
    for rows in sends.values():
        committed = [row["completed_ns"] for row in rows if row["status"] == _COMMITTED]
        for partition_id in {row["partition_id"] for row in rows}:
            there = [row for row in rows if row["partition_id"] == partition_id]
            until = max(committed) if committed else max(row["invoked_ns"] for row in there)
            yield partition_id, min(row["offset"] for row in there), until


def uncommitted_reads(history: History) -> set[tuple[int, int, int]]:
    """(partition, value, how often a read_committed reader got it) of what no transaction certainly committed."""
    sent = {
        (row["partition_id"], row["value"])
        for row in history.rows["records"]
        if row["kind"] == 0 and row["transaction"] is not None and row["status"] != _COMMITTED
    }
    found: dict[tuple[int, int], int] = {}
    for row in history.rows["records"]:
        place = (row["partition_id"], row["value"])
        if row["kind"] > 0 and place in sent:
            client = _clients(history).get(row["process"])
            strict = client is not None and client["isolation"] == "read_committed"
            found[place] = found.get(place, 0) + strict
    return {(*place, strict) for place, strict in found.items()}


def changed_timestamps(history: History) -> set[tuple[int, int]]:
    """(partition, value) read with a timestamp that differs from another read's, or from its producer's answer."""
    found = set()
    own: dict[tuple[int, int], list[Row]] = defaultdict(list)
    for row in history.rows["records"]:
        if row["timestamp_ms"] is not None:
            own[row["partition_id"], row["value"]].append(row)
    for place, rows in own.items():
        read = {row["timestamp_ms"] for row in rows if row["kind"] > 0}
        sends = [row for row in rows if row["kind"] == 0 and row["acks"] != 0]
        by_broker = any(row["log_append"] for row in rows)
        sent = {row["timestamp_ms"] for row in sends if row["status"] == 0 or not by_broker}
        if read and len(read | sent) > 1:
            found.add(place)
    return found


def stamped_out_of_time(history: History) -> set[tuple[int, int]]:
    """(partition, value) that a broker, whose clock is the run's own, stamped a second before its send or after that.

    What was read with two timestamps has none of its own.
    """
    found = set()
    stamped = [row for row in history.rows["records"] if row["timestamp_ms"] is not None]
    for partition_id, value in {(row["partition_id"], row["value"]) for row in stamped} - changed_timestamps(history):
        own = [row for row in stamped if (row["partition_id"], row["value"]) == (partition_id, value)]
        sends = [row for row in own if row["kind"] == 0 and row["acks"] != 0]
        read = {row["timestamp_ms"] for row in own if row["kind"] > 0}
        if not sends or not read or not any(row["log_append"] for row in own):
            continue
        (stamp_ms,) = read
        too_early = stamp_ms * 1_000_000 < min(row["invoked_ns"] for row in sends) - SECOND
        answered = all(row["status"] == _COMMITTED for row in sends)
        if too_early or (answered and stamp_ms * 1_000_000 > max(row["completed_ns"] for row in sends) + SECOND):
            found.add((partition_id, value))
    return found


def stamped_backwards(history: History) -> set[tuple[int, int, int, int]]:
    """(partition, offset, timestamp before, own one) of what the broker stamped earlier than the record before."""
    found = set()
    for partition_id in {row["partition_id"] for row in _final(history)}:
        stamps: dict[int, int] = {}
        for row in _final(history):
            if row["partition_id"] == partition_id and row["log_append"]:
                stamps[row["offset"]] = max(row["timestamp_ms"], stamps.get(row["offset"], 0))
        for before, offset in pairwise(sorted(stamps)):
            if stamps[offset] < stamps[before]:
                found.add((partition_id, offset, stamps[before], stamps[offset]))
    return found
