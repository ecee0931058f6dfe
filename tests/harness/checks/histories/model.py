"""What each anomaly means, said a second time: slow, over plain rows, with no column, window or fold in common.

Every function takes the rows of one run and answers with sets, so that a test can hold Spark's flags against them.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

Rows = Sequence[Mapping[str, Any]]
Place = tuple[int, int, int | None]  # partition, value, offset


def flags(records: Rows, read_to_end: Mapping[int, bool]) -> dict[str, set[Place]]:
    """flag -> the (partition, value, offset) places that have it."""
    found: dict[str, set[Place]] = defaultdict(set)
    for partition_id in {row["partition_id"] for row in records}:
        own = [row for row in records if row["partition_id"] == partition_id]
        for flag, places in _of_values(own, bool(read_to_end.get(partition_id))).items():
            found[flag] |= {(partition_id, value, offset) for value, offset in places}
        for flag, places in _of_polls(own).items():
            found[flag] |= {(partition_id, value, offset) for value, offset in places}
    return {flag: places for flag, places in found.items() if places}


def _of_values(own: Rows, read_to_end: bool) -> dict[str, set[tuple[int, int | None]]]:
    found: dict[str, set[tuple[int, int | None]]] = defaultdict(set)
    sends = [row for row in own if row["kind"] == 0]
    reads = [row for row in own if row["kind"] > 0]
    final = [row for row in reads if row["kind"] == 2 and row["replica"] is None]
    final_values = {row["value"] for row in final}
    end = max((row["offset"] for row in final), default=None)
    acked = [row for row in sends if row["status"] == 0 and row["acks"] != 0]
    for value, offset in {(row["value"], row["offset"]) for row in own}:
        answers = [row["status"] for row in sends if row["value"] == value]
        places = {row["offset"] for row in own if row["value"] == value and row["offset"] is not None}
        seen_here = [row for row in reads if (row["value"], row["offset"]) == (value, offset)]
        acked_here = [row for row in acked if (row["value"], row["offset"]) == (value, offset)]
        read_past = read_to_end or (offset is not None and end is not None and offset <= end)
        if acked_here and value not in final_values:
            found["lost" if read_past else "unseen"].add((value, offset))
        if any(row["kind"] == 1 for row in seen_here) and value not in final_values and read_past:
            found["dirty"].add((value, offset))
        if offset is not None and len(places) > 1:
            found["duplicate"].add((value, offset))
        if offset is not None and any(row["offset"] == offset and row["value"] != value for row in own):
            found["conflict"].add((value, offset))
        if seen_here and set(answers) == {1}:
            found["aborted"].add((value, offset))
        if seen_here and not answers:
            found["phantom"].add((value, offset))
        began = min((row["invoked_ns"] for row in sends if row["value"] == value), default=None)
        if seen_here and began is not None and min(row["completed_ns"] for row in seen_here) < began:
            found["early"].add((value, offset))
    for row in acked:
        place = (row["value"], row["offset"])
        if row["offset"] is None:
            continue
        if any(
            o["offset"] is not None and o["offset"] > row["offset"] and o["completed_ns"] < row["invoked_ns"]
            for o in acked
        ):
            found["regression"].add(place)
        if any(_called_before(o, row) is not False for o in _not_below(acked, row)):
            found["send_order"].add(place)
    return found


def _not_below(acked: Rows, row: Mapping[str, Any]) -> Rows:
    """What the same process got at the offset of that record or above."""
    same = [o for o in acked if o["process"] == row["process"] and o["offset"] is not None]
    return [o for o in same if o["offset"] >= row["offset"] and o is not row]


def _called_before(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool | None:
    """Whether one call of a process came before another of its calls; None: so it was if one task made both."""
    if one["operation"] == other["operation"] and one["returned_ns"] is None:
        return bool(one["position"] < other["position"])
    ends = [one["completed_ns"], one["returned_ns"]]
    if min(end for end in ends if end is not None) < other["invoked_ns"]:
        return True
    if one["returned_ns"] is not None:
        return False
    return None if (one["invoked_ns"], one["operation"]) < (other["invoked_ns"], other["operation"]) else False


def surely_out_of_order(records: Rows) -> set[Place]:
    """The acknowledged records at or below what their process had sent before them, whoever called."""
    acked = [row for row in records if row["kind"] == 0 and row["status"] == 0 and row["acks"] != 0]
    return {
        (row["partition_id"], row["value"], row["offset"])
        for row in acked
        if row["offset"] is not None
        and any(o["partition_id"] == row["partition_id"] and _called_before(o, row) for o in _not_below(acked, row))
    }


def _of_polls(own: Rows) -> dict[str, set[tuple[int, int | None]]]:
    """Walks each consumer's polls one by one, as a consumer would."""
    found: dict[str, set[tuple[int, int | None]]] = defaultdict(set)
    final = {row["offset"] for row in own if row["kind"] == 2 and row["replica"] is None}
    polls: dict[int, list[Mapping[str, Any]]] = defaultdict(list)
    for row in own:
        if row["kind"] > 0:
            polls[row["operation"]].append(row)
    position: dict[tuple[int, int], int] = {}
    for operation in sorted(polls):
        rows = sorted(polls[operation], key=lambda row: row["position"])
        consumer = (rows[0]["process"], rows[0]["assignment"])
        before, where = position.get(consumer), "between"
        for row in rows:
            if before is not None:
                if row["offset"] <= before:
                    found[f"back_{where}"].add((row["value"], row["offset"]))
                elif any(before < offset < row["offset"] for offset in final):
                    found[f"skip_{where}"].add((row["value"], row["offset"]))
            before, where = row["offset"], "inside"
        if rows[0]["status"] == 0:
            position[consumer] = rows[-1]["offset"]
    return found


def accounting(records: Rows) -> dict[tuple[int, int | None, bool], int]:
    """(partition, status, in the final log) -> number of values."""
    counted: dict[tuple[int, int | None, bool], int] = defaultdict(int)
    for partition_id, value in {(row["partition_id"], row["value"]) for row in records}:
        own = [row for row in records if (row["partition_id"], row["value"]) == (partition_id, value)]
        answers = {row["status"] for row in own if row["kind"] == 0}
        reported = next((status for status in (0, 2, 1) if status in answers), None)
        counted[partition_id, reported, any(row["kind"] == 2 and row["replica"] is None for row in own)] += 1
    return dict(counted)


def copies(replica_log: Rows, partition_id: int, value: int, offset: int | None) -> set[tuple[int, int, int | None]]:
    """(node, snapshot, epoch) of a value's copies at its offset, at any where it has none."""
    return {
        (row["node"], row["snapshot"], row["leader_epoch"])
        for row in replica_log
        if (row["partition_id"], row["value"]) == (partition_id, value) and offset in (None, row["offset"])
    }


def copies_beside(
    replica_log: Rows, partition_id: int, value: int, offset: int | None
) -> set[tuple[int, int, int | None]]:
    """(node, snapshot, epoch) of other values at the offset."""
    return {
        (row["node"], row["snapshot"], row["leader_epoch"])
        for row in replica_log
        if (row["partition_id"], row["offset"]) == (partition_id, offset) and row["value"] != value
    }


def holders(replica_log: Rows, snapshots: Rows, partition_id: int, value: int) -> tuple[set[int], set[int]]:
    """(nodes that ever had it, nodes that had it at the end)."""
    own = [row for row in replica_log if (row["partition_id"], row["value"]) == (partition_id, value)]
    ends = {row["snapshot"] for row in snapshots if row["reason"] == "end"}
    return (
        {row["node"] for row in own},
        {row["node"] for row in own if row["snapshot"] in ends},
    )


def diverging(replica_log: Rows, snapshots: Rows, isr: set[int]) -> set[tuple[int, str]]:
    """(offset, different | missing) over the end snapshots, below each replica's own high watermark."""
    ends = {row["node"]: row for row in snapshots if row["reason"] == "end" and row["high_watermark"] is not None}
    logs = {
        node: {
            row["offset"]: (row["leader_epoch"], row["value"])
            for row in replica_log
            if row["snapshot"] == end["snapshot"] and row["offset"] < end["high_watermark"]
        }
        for node, end in ends.items()
    }
    found = set()
    for offset in {offset for log in logs.values() for offset in log}:
        if len({log[offset] for log in logs.values() if offset in log}) > 1:
            found.add((offset, "different"))
            continue
        members = [
            node
            for node in logs
            if node in isr and ends[node]["log_start_offset"] <= offset < ends[node]["high_watermark"]
        ]
        have = [node for node in members if offset in logs[node]]
        if have and len(have) < len(members):
            found.add((offset, "missing"))
    return found


def gaps(records: Rows, *, least_ns: int, slow_ns: int) -> set[tuple[int, int, int, bool]]:
    """(partition, begin, end, open) of the stretches without an acknowledgement while something was asked."""
    found = set()
    for partition_id in {row["partition_id"] for row in records}:
        sends = [
            r
            for r in records
            if r["partition_id"] == partition_id and r["kind"] == 0 and r["acks"] != 0 and r["completed_ns"] is not None
        ]
        sends.sort(key=lambda row: (row["completed_ns"], row["position"]))
        last_ok: int | None = None
        refused = 0
        for row in sends:
            taken = row["transaction"] is not None and row["offset"] is not None  # whatever became of the transaction
            if row["status"] != 0 and not taken:
                refused += 1
                continue
            if (
                last_ok is not None
                and row["completed_ns"] - last_ok > least_ns
                and (refused or row["completed_ns"] - row["invoked_ns"] > slow_ns)
            ):
                found.add((partition_id, last_ok, row["completed_ns"], False))
            last_ok, refused = row["completed_ns"], 0
        if last_ok is not None and sends[-1]["completed_ns"] - last_ok > least_ns:
            found.add((partition_id, last_ok, sends[-1]["completed_ns"], True))
    return found
